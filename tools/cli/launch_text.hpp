// The texts that `millrace launch` prints: a command line, a batch script, or Kubernetes manifests. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cli {

/// What a launcher must start.
struct Launch {
  std::string model;                 // the model's name, from which names of jobs are made
  std::vector<std::string> hosts;    // of the cluster, in file order; empty: one process
  std::vector<std::string> serve;    // the arguments of `millrace serve`, without those below
  std::string address;               // HOST:PORT of rank 0's HTTP listener
  std::uint32_t drain_seconds = 10;  // time between the stop signal and the end of all processes

  // Slurm
  std::string time;  // limit of the job, as sbatch takes it; empty: the partition's own

  // Kubernetes
  std::string container;       // the image, which holds millrace and the files that `serve` names
  std::string card_resource;   // the device plugin's name of a card; empty: the pods need no card
  std::uint32_t replicas = 1;  // of the server; for a cluster of one host

  std::uint16_t port() const;
};

/// Returns the command line with which mpirun starts one rank on each host.
std::string mpirun_text(const Launch& launch);

/// Returns a batch script for sbatch.
std::string slurm_text(const Launch& launch);

/// Returns manifests: for several hosts an MPIJob of the MPI operator (kubeflow.org/v2beta1) with a service for rank 0,
/// otherwise replicas of the server behind a service.
std::string kubernetes_text(const Launch& launch);

}  // namespace millrace::cli
