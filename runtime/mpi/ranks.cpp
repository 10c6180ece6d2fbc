#include "runtime/mpi/ranks.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace millrace::runtime::mpi {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out.empty() ? "none" : out;
}

Error differ(std::size_t rank, const std::string& what, const std::string& first, const std::string& other,
             const std::string& remedy) {
  return Error(ErrorCode::kInvalidInput, "rank 0 and rank " + std::to_string(rank) + " have different " +
                                             what + ": " + first + " and " + other + "; " + remedy);
}

/// Returns the beginning of an error about a host with two ranks: if the job has more ranks than the cluster has hosts,
/// that is why.
std::string too_many(const std::vector<Identity>& ranks, const plan::Cluster& cluster) {
  if (ranks.size() <= cluster.hosts.size()) return "";
  std::vector<std::string> names;
  for (const auto& host : cluster.hosts) names.push_back(host.name);
  return std::to_string(ranks.size()) + " ranks were started, but cluster '" + cluster.name + "' lists " +
         std::to_string(names.size()) + " hosts (" + joined(names) + "): ";
}

Status check_hosts(const std::vector<Identity>& ranks, const plan::Cluster& cluster) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string& host = ranks[rank].host;
    if (cluster.find_host(host) == nullptr)
      return Error(ErrorCode::kInvalidInput,
                   "rank " + std::to_string(rank) + " runs on host '" + host + "', which cluster '" +
                       cluster.name +
                       "' does not list; "
                       "give the rank the name of a host of the cluster with --host-name");
    for (std::size_t earlier = 0; earlier < rank; ++earlier)
      if (ranks[earlier].host == host)
        return Error(ErrorCode::kInvalidInput,
                     too_many(ranks, cluster) + "rank " + std::to_string(earlier) + " and rank " +
                         std::to_string(rank) + " both run on host '" + host +
                         "'; start one rank on each host, or give each rank its own --host-name");
  }
  std::vector<std::string> missing;
  for (const auto& host : cluster.hosts)
    if (std::none_of(ranks.begin(), ranks.end(), [&](const auto& rank) { return rank.host == host.name; }))
      missing.push_back(host.name);
  if (missing.empty()) return {};
  return Error(ErrorCode::kInvalidInput,
               "cluster '" + cluster.name + "' lists " + std::to_string(cluster.hosts.size()) +
                   " hosts, but only " + std::to_string(ranks.size()) +
                   " ranks were started: no rank runs on " + joined(missing) +
                   "; start one rank on each host (mpirun -n " + std::to_string(cluster.hosts.size()) + ")");
}

}  // namespace

int ranks_started() {
  for (const auto& [rank, size] :
       {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, std::pair{"PMI_RANK", "PMI_SIZE"},
        std::pair{"PMIX_RANK", "SLURM_NTASKS"}}) {
    if (std::getenv(rank) == nullptr) continue;
    const char* const count = std::getenv(size);
    return count == nullptr ? 1 : std::max(std::atoi(count), 1);
  }
  return 0;
}

Status check_ranks(const std::vector<Identity>& ranks, const plan::Cluster& cluster) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const Identity &first = ranks.front(), &other = ranks[rank];
    if (first.version != other.version)
      return differ(rank, "versions of Millrace", first.version, other.version,
                    "install the same build on all hosts");
    if (first.cluster != other.cluster)
      return differ(rank, "cluster files (the SHA-256 digests of their contents)", first.cluster,
                    other.cluster, "copy one file to all hosts");
    if (first.deployments != other.deployments)
      return differ(rank, "deployments (models with their digests)", joined(first.deployments),
                    joined(other.deployments), "copy the same deployments to all hosts");
  }
  return check_hosts(ranks, cluster);
}

}  // namespace millrace::runtime::mpi
