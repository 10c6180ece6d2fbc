// `millrace serve` as one of several processes (ranks) that mpirun or srun started, one on each host of a cluster.
// Rank 0 answers clients and runs the pipelines; every other rank drives its host's cards for rank 0. Without a
// launcher, this process is the only one, and nothing here uses MPI.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/plan/cluster.hpp"
#include "server/metrics/metrics.hpp"
#include "tools/cli/serve_inputs.hpp"
#include "tools/cli/serve_signals.hpp"

namespace millrace::runtime::mpi {
class RemoteCards;
class Session;
}  // namespace millrace::runtime::mpi

namespace millrace::cli {

/// Returns the part of the cluster whose cards this process drives itself: all of it if the cluster has one host.
/// Returns kInvalidInput if the cluster has several hosts and no launcher started this process, if a launcher started
/// several processes for a cluster of one host, and if the cluster does not list this host.
Result<runtime::plan::Cluster> local_cluster(const server::config::Settings& settings,
                                             const runtime::plan::Cluster& cluster);

/// This process's place among the ranks.
class Ranks {
 public:
  /// Joins the job if the cluster has several hosts. Must be called after select_backend(). Errors are those of
  /// mpi::Session::join(). `cluster` and `local` must outlive this object.
  static Result<std::unique_ptr<Ranks>> join(const server::config::Settings& settings,
                                             const Deployments& deployments,
                                             const runtime::plan::Cluster& cluster,
                                             const runtime::plan::Cluster& local);
  ~Ranks();  // unless end() succeeded, the process must end with an exit code other than 0

  /// Whether this process answers clients.
  bool first() const;

  /// For rank 0. Returns a source that opens local cards through XRT, and the cards of other hosts through their ranks.
  runtime::pipeline::CardSource cards();

  /// For all ranks except 0. Drives the local cards until rank 0 ends the job. A first stop signal is ignored, because
  /// a launcher sends it to all ranks, and rank 0 must complete its requests. Returns kEnvironment if rank 0 is lost,
  /// and at a second stop signal.
  Status drive_cards(Signals& signals);

  /// For rank 0, after a stop signal or SIGCONT. Finds out whether the launcher ends the job because a rank was killed. If
  /// so, frames on the cards of that rank fail at once.
  void check_others();

  /// For rank 0. Reports metrics of the job, also without other ranks.
  void sample(server::metrics::Samples& samples) const;

  /// For rank 0. Tells the other ranks to end. Returns kEnvironment if one was lost.
  Status end();

 private:
  Ranks(const runtime::plan::Cluster& cluster, const runtime::plan::Cluster& local);
  int rank_of(const runtime::plan::ClusterCard& card) const;

  const runtime::plan::Cluster& cluster_;
  const runtime::plan::Cluster& local_;
  std::unique_ptr<runtime::mpi::Session> session_;  // null without a job
  std::unique_ptr<runtime::mpi::RemoteCards> remote_;
};

}  // namespace millrace::cli
