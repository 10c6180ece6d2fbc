// The ranks of an MPI job: finds out whether a launcher started this process as a rank, and checks that all ranks agree
// with each other and with the cluster. Uses no MPI.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::mpi {

/// Returns the number of ranks in this process's job, or 0 if no launcher (mpirun, or srun with PMIx) started this
/// process. Reads the environment.
int ranks_started();

/// What a rank states about itself when the job starts.
struct Identity {
  std::string host;                      // name of its ClusterHost
  std::string version;                   // of this program
  std::string cluster;                   // digest of the cluster file's content
  std::vector<std::string> deployments;  // "<model>:<digest>" of each deployment
  std::string machine = {};              // identifies the running kernel; not part of the check
  bool operator==(const Identity&) const = default;
};

/// Checks that the ranks, in their order, run on the cluster's hosts, one rank on each, and agree on everything else.
/// Every rank calls this with the same arguments and gets the same answer. Returns kInvalidInput, naming the ranks or
/// the host, and what to do.
Status check_ranks(const std::vector<Identity>& ranks, const plan::Cluster& cluster);

}  // namespace millrace::runtime::mpi
