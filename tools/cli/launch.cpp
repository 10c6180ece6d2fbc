// `millrace launch`: prints how mpirun, Slurm or Kubernetes starts the server for a deployment.

#include <filesystem>
#include <ostream>

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "server/http/connection/address.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/launch_text.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
namespace plan = runtime::plan;

/// Checks that the hosts have enough cards, so that a mistake shows before a job waits in a queue.
Status check_room(const plan::Cluster& cluster, const plan::Deployment& deployment) {
  std::size_t needed = 0;
  for (const auto& endpoint : deployment.endpoints) needed += endpoint.host ? 0U : 1U;
  needed *= deployment.replicas;
  if (needed <= cluster.cards.size()) return {};
  return Error(ErrorCode::kDoesNotFit, "cluster '" + cluster.name + "' has " +
                                           std::to_string(cluster.cards.size()) +
                                           " cards, and the deployment needs " + std::to_string(needed) +
                                           "; give a larger cluster, or compile the model for this cluster");
}

}  // namespace

Status run(const LaunchCommand& command, std::ostream& out) {
  MILLRACE_ASSIGN(const plan::LoadedDeployment deployment, plan::load_deployment(command.deployment));
  MILLRACE_ASSIGN(const auto address, server::http::parse_host_port(command.http, "--http"));
  if (address.port == 0)
    return Error(ErrorCode::kInvalidInput, "--http: clients need to know the port; give one above 0");
  Launch launch;
  launch.model = deployment.plan.model.name;
  launch.address = command.http;
  launch.time = command.time;
  launch.container = command.container;
  launch.card_resource = command.card_resource;
  launch.replicas = command.replicas;
  launch.serve = {"--deployment", fs::absolute(command.deployment).lexically_normal().string()};
  if (!command.cluster.empty()) {
    MILLRACE_ASSIGN(const plan::Cluster cluster, plan::load_cluster(command.cluster));
    MILLRACE_TRY(check_room(cluster, deployment.plan));
    launch.serve.insert(launch.serve.begin(),
                        {"--cluster", fs::absolute(command.cluster).lexically_normal().string()});
    if (cluster.hosts.size() > 1)
      for (const auto& host : cluster.hosts) launch.hosts.push_back(host.name);
  }
  if (command.format == "kubernetes") {
    if (launch.container.empty())
      return Error(
          ErrorCode::kInvalidInput,
          "--print kubernetes needs --container IMAGE: "
          "the image must hold millrace, the deployment and the cluster file at the same paths as here");
    out << kubernetes_text(launch);
  } else {
    out << (command.format == "slurm" ? slurm_text(launch) : mpirun_text(launch));
  }
  return {};
}

}  // namespace millrace::cli
