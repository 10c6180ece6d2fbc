#include "tools/cli/serve_ranks.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <utility>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/card/card.hpp"
#include "runtime/mpi/agent.hpp"
#include "runtime/mpi/remote_card.hpp"
#include "runtime/mpi/session.hpp"

namespace millrace::cli {

namespace card = runtime::card;
namespace mpi = runtime::mpi;
namespace plan = runtime::plan;
using server::config::Settings;
using std::chrono::milliseconds;

namespace {

// A launcher that ends a job sends SIGCONT to the ranks at once, later a stop signal, and kills them in the end. Open MPI
// waits for a second between these steps, unless it is told otherwise. In the time of a probe, a working rank sends two
// heartbeats.
constexpr milliseconds kProbe{250};

std::string machine_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string();
}

/// Returns the name of this process's host in the cluster. A domain may follow the machine's name.
std::string own_host(const Settings& settings, const plan::Cluster& cluster) {
  if (!settings.host_name.empty()) return settings.host_name;
  const std::string name = machine_name();
  if (cluster.find_host(name) != nullptr) return name;
  const std::string without_domain = name.substr(0, name.find('.'));
  return cluster.find_host(without_domain) != nullptr ? without_domain : name;
}

bool has_ranks(const plan::Cluster& cluster) {
  return cluster.hosts.size() > 1;
}

/// Returns the address of a card of this host in XRT, or nothing if the card is in another host.
std::optional<card::Address> local_address(const plan::Cluster& local, const std::string& name) {
  const plan::ClusterCard* const found = local.find_card(name);
  if (found == nullptr) return std::nullopt;
  return card::Address{static_cast<std::uint32_t>(found - local.cards.data()), found->bdf};
}

Result<mpi::Identity> identity(const Settings& settings, const Deployments& deployments,
                               const plan::Cluster& cluster) {
  mpi::Identity own{own_host(settings, cluster), MILLRACE_VERSION, "", {}, ""};
  MILLRACE_ASSIGN(const std::string text, read_text_file(settings.cluster));
  own.cluster = sha256_hex(text);
  for (const auto& deployment : deployments)
    own.deployments.push_back(deployment->plan.model.name + ":" + deployment->plan.digest);
  return own;
}

}  // namespace

Result<plan::Cluster> local_cluster(const Settings& settings, const plan::Cluster& cluster) {
  const int ranks = mpi::ranks_started();
  if (!has_ranks(cluster)) {
    if (ranks > 1)
      return Error(
          ErrorCode::kInvalidInput,
          "a launcher started " + std::to_string(ranks) + " processes, but cluster '" + cluster.name +
              "' has one host; list the hosts under 'hosts' in the cluster file, or start one process");
    return cluster.hosts.empty() ? cluster : plan::cluster_of_host(cluster, cluster.hosts.front().name);
  }
  if (ranks == 0)
    return Error(ErrorCode::kInvalidInput,
                 "cluster '" + cluster.name + "' has " + std::to_string(cluster.hosts.size()) +
                     " hosts; start one process on each of them with mpirun or srun "
                     "(millrace launch --print mpirun shows the command)");
  return plan::cluster_of_host(cluster, own_host(settings, cluster));
}

Ranks::Ranks(const plan::Cluster& cluster, const plan::Cluster& local) : cluster_(cluster), local_(local) {}

Ranks::~Ranks() {
  if (session_ != nullptr) session_->stop();  // before the objects that its handlers use are destroyed
}

Result<std::unique_ptr<Ranks>> Ranks::join(const Settings& settings, const Deployments& deployments,
                                           const plan::Cluster& cluster, const plan::Cluster& local) {
  std::unique_ptr<Ranks> ranks(new Ranks(cluster, local));
  if (!has_ranks(cluster)) return ranks;
  MILLRACE_ASSIGN(const mpi::Identity own, identity(settings, deployments, cluster));
  MILLRACE_ASSIGN(ranks->session_, mpi::Session::join(own, cluster));
  log::info("serve", ranks->session_->describe(ranks->session_->rank()) + " of " +
                         std::to_string(ranks->session_->size()) + " has joined the job");
  if (!ranks->first()) return ranks;
  ranks->remote_ = std::make_unique<mpi::RemoteCards>(*ranks->session_);
  mpi::Session::Handlers handlers;
  handlers.event = [remote = ranks->remote_.get()](int, mpi::Reader event) { remote->event(event); };
  handlers.lost = [remote = ranks->remote_.get()](int rank) {
    remote->lost(rank);
    ::kill(::getpid(), SIGTERM);  // the server stops as at any stop signal
  };
  ranks->session_->start(std::move(handlers));
  return ranks;
}

bool Ranks::first() const {
  return session_ == nullptr || session_->rank() == 0;
}

int Ranks::rank_of(const plan::ClusterCard& card) const {
  int rank = 0;
  while (session_->identity(rank).host != card.host) ++rank;  // check_ranks() found a rank on every host
  return rank;
}

runtime::pipeline::CardSource Ranks::cards() {
  if (session_ == nullptr) return runtime::pipeline::xrt_cards();
  return {[this](const plan::ClusterCard& wanted, std::uint32_t) -> Result<std::unique_ptr<card::Card>> {
            if (const auto address = local_address(local_, wanted.name)) return card::open(*address);
            return remote_->open(rank_of(wanted), wanted.name);
          },
          [this](const plan::ClusterCard& wanted, std::uint32_t) {
            if (const auto address = local_address(local_, wanted.name)) return !card::is_open(*address);
            return !remote_->is_open(wanted.name);
          },
          [this](const plan::ClusterCard& wanted, std::uint32_t) {
            if (const auto address = local_address(local_, wanted.name)) return card::image_uuid(*address);
            return remote_->image_uuid(rank_of(wanted), wanted.name);
          }};
}

Status Ranks::drive_cards(Signals& signals) {
  mpi::Agent agent(
      *session_,
      [this](const std::string& name) -> Result<std::unique_ptr<card::Card>> {
        if (const auto address = local_address(local_, name)) return card::open(*address);
        return Error(ErrorCode::kNotFound, "this host has no card '" + name + "'");
      },
      [this](const std::string& name) {
        const auto address = local_address(local_, name);
        return address ? card::image_uuid(*address) : std::string();
      });
  mpi::Session::Handlers handlers;
  handlers.request = [&agent](mpi::Bytes request, mpi::Session::Reply reply) {
    agent.request(std::move(request), std::move(reply));
  };
  session_->start(std::move(handlers));
  int stops = 0;
  const Status ended = session_->wait_for_end([&] {
    if (signals.wait(milliseconds(0)) == Signal::kStop) ++stops;
    return stops > 1;
  });
  session_->stop();
  return ended;
}

void Ranks::check_others() {
  if (session_ != nullptr) session_->probe(kProbe);
}

void Ranks::sample(server::metrics::Samples& samples) const {
  int lost = 0;
  for (int rank = 0; session_ != nullptr && rank < session_->size(); ++rank)
    lost += session_->is_lost(rank) ? 1 : 0;
  samples.gauge("millrace_ranks", "Processes of the job; 1 if no launcher started the server.", {},
                session_ == nullptr ? 1 : session_->size());
  samples.gauge("millrace_ranks_lost", "Ranks that are lost.", {}, lost);
  const auto silence = session_ == nullptr ? std::chrono::nanoseconds(0) : session_->longest_silence();
  samples.gauge("millrace_rank_silence_seconds", "Longest time since another rank sent a heartbeat.", {},
                std::chrono::duration<double>(silence).count());
}

Status Ranks::end() {
  return session_ == nullptr ? Status() : session_->end_job();
}

}  // namespace millrace::cli
