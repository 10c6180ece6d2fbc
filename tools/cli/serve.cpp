// `millrace serve`: deployments onto cards, cards behind HTTP, until a signal says stop.

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <ostream>
#include <thread>

#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/emulated_cluster.hpp"
#include "server/http/limits.hpp"
#include "server/http/server.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/udp/listener.hpp"
#include "server/udp/registry_directory.hpp"
#include "server/udp/sample.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {
namespace {

using runtime::pipeline::Pipeline;
using runtime::plan::Cluster;
using runtime::plan::LoadedDeployment;
using Clock = std::chrono::steady_clock;

constexpr const char* kVersion = "1";  // of every model given by --deployment
constexpr std::chrono::milliseconds kIdlePoll{10};

int signal_pipe_write = -1;  // written by the handler only

/// SIGTERM and SIGINT as bytes of a pipe, for as long as it lives. A handler and not a blocked mask: card
/// processes that are started meanwhile would inherit the mask.
class StopSignals {
 public:
  StopSignals() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    read_ = ends[0];
    signal_pipe_write = ends[1];
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int saved = errno;
      [[maybe_unused]] const auto written = ::write(signal_pipe_write, "s", 1);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGTERM, &action, &old_term_);
    ::sigaction(SIGINT, &action, &old_int_);
  }
  ~StopSignals() {
    if (read_ < 0) return;
    ::sigaction(SIGTERM, &old_term_, nullptr);
    ::sigaction(SIGINT, &old_int_, nullptr);
    ::close(read_);
    ::close(signal_pipe_write);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool ready() const { return read_ >= 0; }

  /// True where a signal came within `bound` (negative: without end).
  bool wait(std::chrono::milliseconds bound) {
    pollfd wanted{read_, POLLIN, 0};
    int got = 0;
    do got = ::poll(&wanted, 1, static_cast<int>(bound.count()));
    while (got < 0 && errno == EINTR);
    char byte = 0;
    return got > 0 && ::read(read_, &byte, 1) == 1;
  }

 private:
  int read_ = -1;
  struct sigaction old_term_ {
  }, old_int_{};
};

Result<std::vector<std::shared_ptr<const LoadedDeployment>>> load_all(const ServeCommand& command) {
  std::vector<std::shared_ptr<const LoadedDeployment>> out;
  std::map<std::string, std::filesystem::path> names;
  for (const auto& directory : command.deployments) {
    MILLRACE_ASSIGN(auto loaded, runtime::plan::load_deployment(directory));
    const std::string name = loaded.plan.model.name;
    if (const auto [earlier, fresh] = names.emplace(name, directory); !fresh)
      return Error(ErrorCode::kInvalidInput, "--deployment " + directory.string() + " and " +
                                                 earlier->second.string() + " both hold a model named '" +
                                                 name + "'; compile one with another --name");
    out.push_back(std::make_shared<const LoadedDeployment>(std::move(loaded)));
  }
  if (out.empty()) return Error(ErrorCode::kInvalidInput, "--deployment names no directory to serve");
  return out;
}

Result<Cluster> choose_cluster(const ServeCommand& command, const LoadedDeployment& first) {
  if (!command.cluster.empty()) return runtime::plan::load_cluster(command.cluster);
  return runtime::plan::emulated_cluster_for(first.plan);
}

/// Several cards may carry one image.
std::size_t cards_of(const LoadedDeployment& deployment) {
  const auto& endpoints = deployment.plan.endpoints;
  return static_cast<std::size_t>(
      std::count_if(endpoints.begin(), endpoints.end(), [](const auto& e) { return !e.host; }));
}

Result<std::uint64_t> longest_body(const ServeCommand& command,
                                   const std::vector<std::shared_ptr<const LoadedDeployment>>& deployments) {
  std::uint64_t bytes = command.max_body_bytes;
  if (bytes == 0)
    for (const auto& deployment : deployments)
      bytes = std::max(bytes, server::http::body_bytes_for(deployment->plan.model));
  if (bytes <= command.max_held_bytes) return bytes;
  if (command.max_body_bytes == 0) return command.max_held_bytes;
  return Error(ErrorCode::kInvalidInput,
               "--max-body-bytes " + std::to_string(bytes) + " is more than --max-held-bytes " +
                   std::to_string(command.max_held_bytes) + ", which bounds all bodies together");
}

/// Bound and not yet serving; null where no UDP was asked for.
Result<std::unique_ptr<server::udp::Listener>> bind_udp(const ServeCommand& command,
                                                        server::udp::ModelDirectory& models) {
  if (command.udp.empty()) return std::unique_ptr<server::udp::Listener>();
  MILLRACE_ASSIGN(const server::http::HostPort at, server::http::parse_host_port(command.udp, "--udp"));
  server::udp::ListenerOptions options;
  options.host = at.host;
  options.port = at.port;
  options.allow_unauthenticated = command.udp_unauthenticated;
  options.engine.fragment_bytes = command.udp_fragment_bytes;
  server::udp::wire::KeyRing keys;
  if (!command.udp_keys.empty()) {
    MILLRACE_ASSIGN(const std::string text, read_text_file(command.udp_keys));
    auto parsed = server::udp::wire::parse_keys(text);
    if (!parsed) return parsed.error().within("--udp-keys " + command.udp_keys.string());
    if (parsed->empty())
      return Error(ErrorCode::kInvalidInput, "--udp-keys " + command.udp_keys.string() + " holds no key");
    keys = std::move(parsed).value();
  }
  return server::udp::Listener::bind(options, std::move(keys), models);
}

/// Waits for the first signal, then drains: until nothing is being answered, the bound passes, or a second
/// signal comes.
void serve_until_stopped(StopSignals& signals, server::http::Server& server, server::udp::Listener* udp,
                         std::chrono::milliseconds drain) {
  while (!signals.wait(std::chrono::milliseconds(-1))) {
  }
  log::info("serve", "stopping: accepted requests may take " + std::to_string(drain.count()) +
                         " ms more; a second signal stops at once");
  server.begin_drain();
  if (udp != nullptr) udp->begin_drain();
  const auto end = Clock::now() + drain;
  while (!(server.idle() && (udp == nullptr || udp->idle())) && Clock::now() < end)
    if (signals.wait(kIdlePoll)) {
      log::warning("serve", "stopping at once: requests in flight get 503");
      break;
    }
  server.stop(std::chrono::milliseconds(
      0));  // and with it the pipelines, so that the UDP listener has nothing to wait for
  if (udp != nullptr) udp->stop(std::chrono::milliseconds(0));
}

unsigned io_threads() {
  return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 4U);
}

}  // namespace

Status run(const ServeCommand& command, std::ostream& out) {
  if (command.fidelity != "functional")
    return Error(ErrorCode::kUnsupported,
                 "--fidelity '" + command.fidelity + "' is not offered; only 'functional' is");
  server::http::ServerOptions options;
  MILLRACE_ASSIGN(options.listen, server::http::parse_host_port(command.http, "--http"));
  options.io_threads = io_threads();
  options.max_held_bytes = command.max_held_bytes;

  MILLRACE_ASSIGN(const auto deployments, load_all(command));
  MILLRACE_ASSIGN(const Cluster cluster, choose_cluster(command, *deployments.front()));
  MILLRACE_TRY(runtime::emulator::select_backend(cluster));

  MILLRACE_ASSIGN(options.max_body_bytes, longest_body(command, deployments));

  std::size_t cards = 0;
  for (const auto& deployment : deployments) cards += cards_of(*deployment);
  const std::uint64_t descriptors = server::http::raise_descriptor_limit();
  const std::size_t wanted = options.max_connections;
  MILLRACE_ASSIGN(options.max_connections, server::http::connections_within(wanted, descriptors, cards));
  if (options.max_connections < wanted)
    log::warning("serve", "at most " + std::to_string(options.max_connections) + " connections instead of " +
                              std::to_string(wanted) + ": the limit of open files is " +
                              std::to_string(descriptors));

  // Before the cards are programmed, so that a signal meanwhile stops after it and not in the middle.
  StopSignals signals;
  if (!signals.ready())
    return Error(ErrorCode::kEnvironment, "cannot make a pipe for signals: out of descriptors");

  const auto metrics = server::metrics::Metrics::create(MILLRACE_VERSION);
  server::models::Registry registry;
  server::http::Api api(registry, *metrics, {MILLRACE_VERSION, server::http::ApiOptions{}.default_timeout});

  // Before the cards are programmed as well: a port in use is known at once.
  server::udp::RegistryDirectory directory(registry);
  MILLRACE_ASSIGN(const auto udp, bind_udp(command, directory));
  MILLRACE_ASSIGN(const auto server, server::http::Server::bind(options, api, registry, *metrics));

  runtime::pipeline::PipelineOptions pipeline_options;
  pipeline_options.slots = command.slots;
  pipeline_options.queue_capacity = command.queue_capacity;
  for (const auto& deployment : deployments) {
    const std::string& name = deployment->plan.model.name;
    auto pipeline = Pipeline::open(deployment, cluster, pipeline_options);
    if (!pipeline) {
      const bool remedy = command.cluster.empty() && deployments.size() > 1;
      return Error(
          pipeline.error().code(),
          "model '" + name + "': " + pipeline.error().message() +
              (remedy ? "; for several deployments give a cluster with cards for all of them (--cluster)"
                      : ""));
    }
    std::shared_ptr<Pipeline> shared = std::move(pipeline).value();
    MILLRACE_TRY(registry.publish(std::make_shared<server::models::Model>(name, kVersion, std::move(shared),
                                                                          metrics->model(name, kVersion))));
    log::info("serve", "model '" + name + "' is up on " + std::to_string(cards_of(*deployment)) + " card(s)");
  }

  metrics->set_sampler([&registry, listener = udp.get()](server::metrics::Samples& samples) {
    registry.sample(samples);
    if (listener != nullptr) server::udp::sample(listener->counters(), samples);
  });
  MILLRACE_TRY(server->start());
  if (udp) udp->serve();
  out << "listening http " << server->address() << std::endl;
  if (udp) out << "listening udp " << udp->address() << std::endl;
  serve_until_stopped(signals, *server, udp.get(), command.drain);
  log::info("serve", "stopped");
  return {};
}

}  // namespace millrace::cli
