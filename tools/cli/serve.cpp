// `millrace serve`: programs the cards with the deployments and answers inference requests over HTTP and UDP
// until a signal stops it.

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/service.hpp"
#include "runtime/base/text.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "server/auth/tokens.hpp"
#include "server/http/limits.hpp"
#include "server/http/server.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/models/repository.hpp"
#include "server/models/swap.hpp"
#include "server/udp/listener.hpp"
#include "server/udp/models.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/serve_inputs.hpp"
#include "tools/cli/serve_models.hpp"
#include "tools/cli/serve_ranks.hpp"
#include "tools/cli/serve_settings.hpp"
#include "tools/cli/serve_signals.hpp"

namespace millrace::cli {
namespace {

using runtime::plan::Cluster;
using server::config::Settings;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kIdlePoll{10};
// A stopping server waits this long for a running job of the repository. A job that needs no card, such as a
// poll, always ends within this time.
constexpr std::chrono::milliseconds kShortJob{250};
// If the process ends without waiting for its cards, clients have this long to receive their last answers.
constexpr std::chrono::milliseconds kLastAnswers{3'000};
// When a server that listens on the service manager's socket stops, each idle connection may send one more
// request within this time, whose answer announces the close. The server closes connections that stay silent.
constexpr std::chrono::milliseconds kLastRequest{1'000};

/// Binds the UDP listener, which does not serve yet. Returns null if the settings have no UDP address.
Result<std::unique_ptr<server::udp::Listener>> bind_udp(const LiveSettings& live,
                                                        server::udp::ModelDirectory& models) {
  if (live.settings().udp_listen.empty()) return std::unique_ptr<server::udp::Listener>();
  MILLRACE_ASSIGN(const auto options, udp_options(live));
  MILLRACE_ASSIGN(auto keys, udp_keys(live.settings()));
  return server::udp::Listener::bind(options, std::move(keys), models);
}

/// Ends the process without waiting for threads that wait for cards. If that interrupts a card's programming,
/// the next start programs the card again.
[[noreturn]] void end_at_once(std::ostream& out) {
  out.flush();
  std::_Exit(0);
}

/// The signals that arrived while the cards were being programmed.
struct Asked {
  bool stop = false, reload = false;
};

/// Runs `work`, which programs cards and cannot be interrupted, and waits until it is done. After a stop signal, waits
/// at most `drain` longer. When this time is over, or at a second stop signal, calls `let_go` and ends the process.
Result<Asked> wait_for_cards(Signals& signals, std::chrono::milliseconds drain, std::ostream& out,
                             const std::function<Status()>& work, const std::function<void()>& let_go) {
  auto up = std::async(std::launch::async, work);
  Asked asked;
  auto end = Clock::time_point::max();
  while (up.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready) {
    const auto signal = signals.wait(kIdlePoll);
    if (signal == Signal::kReload) asked.reload = true;
    if ((asked.stop && signal == Signal::kStop) || Clock::now() >= end) {
      log::warning("serve", "stopping at once: the next start programs the unfinished cards again");
      let_go();
      end_at_once(out);
    }
    if (signal != Signal::kStop) continue;
    asked.stop = true;
    end = Clock::now() + drain;
    log::info("serve", "stopping: cards that are being programmed may take another " +
                           std::to_string(drain.count()) +
                           " ms; "
                           "a second signal stops at once");
  }
  MILLRACE_TRY(up.get());
  return asked;
}

/// Reloads the settings and tells the service manager the result.
void reload(LiveSettings& live, const std::vector<std::string>& addresses) {
  service::notify_reloading();
  if (const Status done = live.reload(); !done.ok()) {
    service::notify("READY=1\nSTATUS=serving; the last reload was refused: " +
                    printable(done.error().message()));
    return;
  }
  for (const auto& doubt : doubts_about(live, addresses)) log::warning("serve", doubt);
  service::notify("READY=1\nSTATUS=serving");
}

/// Tells clients that the server will stop, then lets it finish its work. Returns when no request is being answered and
/// no version is being loaded or unloaded, when the setting `drain` has elapsed, or at a second stop signal.
void drain_requests(Signals& signals, const Settings& settings, server::http::Server& server,
                    server::udp::Listener* udp, server::models::Repository& repository) {
  const auto notice = settings.drain_notice, drain = settings.drain;
  log::info("serve", (notice.count() == 0 ? std::string("stopping: ")
                                          : "stopping: requests are served for " +
                                                std::to_string(notice.count()) + " ms more, then ") +
                         "accepted requests may take " + std::to_string(drain.count()) +
                         " ms more; a second signal stops at once");
  server.give_notice();
  repository.begin_stop();
  // Waits until `done` returns true or the time is `end`. Returns false at a second stop signal.
  const auto wait = [&](Clock::time_point end, const auto& done) {
    while (!done() && Clock::now() < end)
      if (signals.wait(kIdlePoll) == Signal::kStop) {
        log::warning("serve", "stopping at once: requests in flight get 503");
        return false;
      }
    return true;
  };
  if (!wait(Clock::now() + notice, [] { return false; })) return;
  // If the service manager keeps the listening socket open, no client receives status 503: each open
  // connection may send a last request, and new connections wait for the next process.
  const auto end = Clock::now() + drain;
  const auto handed_over = [&] { return server.handed_over(); };
  if (!wait(std::min(end, Clock::now() + kLastRequest), handed_over)) return;
  server.dismiss_idle();
  if (!wait(end, handed_over)) return;
  server.begin_drain();
  if (udp != nullptr) udp->begin_drain();
  wait(end, [&] { return server.idle() && (udp == nullptr || udp->idle()) && repository.idle(); });
}

/// Reloads the settings at SIGHUP. At the first stop signal, drains the requests and stops. If threads still
/// wait for cards after that, ends the process without waiting for these threads.
void serve_until_stopped(Signals& signals, const Asked& asked, LiveSettings& live,
                         const std::vector<std::string>& addresses, server::http::Server& server,
                         server::udp::Listener* udp, server::models::Repository& repository, Ranks& ranks,
                         std::ostream& out) {
  const auto watchdog = service::watchdog_interval();
  // Notify four times as often as the watchdog demands, so that a late thread is not mistaken for a hung one.
  const auto patience = watchdog ? std::chrono::duration_cast<std::chrono::milliseconds>(*watchdog / 4)
                                 : std::chrono::milliseconds(-1);
  service::notify("READY=1\nSTATUS=serving");
  if (asked.reload) reload(live, addresses);
  while (!asked.stop) {
    const auto signal = signals.wait(patience);
    if (signal == Signal::kStop) break;
    if (signal == Signal::kContinue) ranks.check_others();
    if (watchdog && server.beat()) service::notify("WATCHDOG=1");
    if (signal != Signal::kReload) continue;
    reload(live, addresses);
  }
  service::notify("STOPPING=1\nSTATUS=draining");
  ranks.check_others();
  drain_requests(signals, live.settings(), server, udp, repository);
  const auto short_end = Clock::now() + kShortJob;
  while (!repository.idle() && Clock::now() < short_end) std::this_thread::sleep_for(kIdlePoll);
  const bool waits_for_cards = !repository.idle();
  if (waits_for_cards) {
    log::warning("serve", "stopping without waiting for a version that is being loaded or unloaded");
    // Start a thread that ends the process after kLastAnswers, even if a statement below still waits for a card.
    std::thread([&out] {
      std::this_thread::sleep_for(kLastAnswers);
      end_at_once(out);
    }).detach();
    repository.abandon();
  } else {
    repository.stop();
  }
  server.stop(std::chrono::milliseconds(0));  // also stops the pipelines, which ends UDP requests
  if (udp != nullptr) udp->stop(std::chrono::milliseconds(0));
  log::info("serve", "stopped");
  if (waits_for_cards) end_at_once(out);
}

runtime::emulator::Fidelity fidelity_of(const Settings& settings) {
  using runtime::emulator::Fidelity;
  return is_rtl(settings) ? Fidelity::kRtl : Fidelity::kFunctional;
}

runtime::emulator::Manners manners_of(const Settings& settings) {
  using runtime::emulator::Manners;
  return settings.manners == "hardware" ? Manners::kHardware : Manners::kKind;
}

unsigned io_threads(const Settings& settings) {
  if (settings.http_threads > 0) return static_cast<unsigned>(settings.http_threads);
  return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 4U);
}

/// Reads the access tokens and their scopes. Returns null if the settings require no token.
Result<std::shared_ptr<const server::auth::Tokens>> read_tokens(const Settings& settings) {
  if (settings.http_tokens.empty()) return std::shared_ptr<const server::auth::Tokens>();
  MILLRACE_ASSIGN(const std::string text, read_text_file(settings.http_tokens));
  MILLRACE_ASSIGN(auto tokens, server::auth::Tokens::parse(text, settings.http_tokens));
  return std::make_shared<const server::auth::Tokens>(std::move(tokens));
}

Result<server::http::ServerOptions> http_options(const LiveSettings& live) {
  const Settings& settings = live.settings();
  server::http::ServerOptions options;
  MILLRACE_ASSIGN(options.listen, listeners(live));
  if (!settings.http_certificate.empty()) {
    MILLRACE_ASSIGN(options.tls,
                    server::http::TlsIdentity::load(settings.http_certificate, settings.http_key));
  }
  options.compress_from_bytes = settings.http_compress_from_bytes;
  options.io_threads = io_threads(settings);
  options.max_connections = settings.http_max_connections;
  options.max_header_bytes = settings.http_max_header_bytes;
  options.max_held_bytes = settings.http_max_held_bytes;
  options.idle_timeout = settings.http_idle_timeout;
  options.header_timeout = settings.http_header_timeout;
  options.body_timeout = settings.http_body_timeout;
  options.write_timeout = settings.http_write_timeout;
  return options;
}

/// Lowers max_connections to the number of file descriptors that are left when the cards have theirs.
Status fit_connections(const Settings& settings, const Deployments& deployments, const Cluster& cluster,
                       server::http::ServerOptions& options) {
  std::size_t cards = 0;
  for (const auto& deployment : deployments) cards += cards_of(*deployment, settings);
  if (!settings.repository_root.empty()) cards = cluster.cards.size();
  const std::uint64_t descriptors = server::http::raise_descriptor_limit();
  const std::size_t wanted = options.max_connections;
  MILLRACE_ASSIGN(options.max_connections, server::http::connections_within(wanted, descriptors, cards));
  if (options.max_connections < wanted)
    log::warning("serve", "at most " + std::to_string(options.max_connections) + " connections instead of " +
                              std::to_string(wanted) + ": the limit of open files is " +
                              std::to_string(descriptors));
  return {};
}

/// Programs the cards of the deployments that the settings name, and starts to serve these deployments.
Status serve_deployments(const Settings& settings, const Deployments& deployments,
                         server::models::Repository& repository) {
  for (const auto& deployment : deployments) {
    const std::string& name = deployment->plan.model.name;
    if (const Status served = repository.serve_deployment(deployment); !served.ok()) {
      const bool remedy = settings.cluster.empty() && deployments.size() > 1;
      return Error(
          served.error().code(),
          "model '" + name + "': " + served.error().message() +
              (remedy ? "; for several deployments give a cluster with cards for all of them (--cluster)"
                      : ""));
    }
    log::info("serve", "model '" + name + "' is up on " + std::to_string(cards_of(*deployment, settings)) +
                           " card(s)");
  }
  return {};
}

std::unique_ptr<server::metrics::Metrics> make_metrics(const Settings& settings) {
  using server::metrics::Compatibility;
  using server::metrics::Transport;
  std::vector<Transport> transports = {Transport::kHttp};
  if (!settings.udp_listen.empty()) transports.push_back(Transport::kUdp);
  return server::metrics::Metrics::create(
      MILLRACE_VERSION, settings.metrics_compat == "triton" ? Compatibility::kTriton : Compatibility::kNone,
      std::move(transports));
}

/// Registers the function that updates the metrics at each scrape. The arguments must outlive the last scrape.
void set_sampler(server::metrics::Metrics& metrics, const server::models::Registry& registry,
                 const server::models::Repository& repository, const server::http::Api& api,
                 const std::shared_ptr<server::http::TlsIdentity>& tls, const server::udp::Listener* listener,
                 const std::shared_ptr<const ReloadState>& reloads, const Ranks& ranks) {
  metrics.set_sampler([&registry, &repository, &api, tls, listener, reloads,
                       &ranks](server::metrics::Samples& samples) {
    const auto seconds = [](std::chrono::system_clock::time_point time) {
      return std::chrono::duration<double>(time.time_since_epoch()).count();
    };
    registry.sample(samples);
    repository.sample(samples);
    samples.gauge("millrace_ready", "1 if /v2/health/ready answers 200.", {}, api.ready() ? 1 : 0);
    samples.gauge("millrace_config_last_reload_successful",
                  "1 if the last reload (SIGHUP) succeeded, 0 if it was refused.", {},
                  reloads->successful ? 1 : 0);
    samples.gauge("millrace_config_last_reload_success_timestamp_seconds",
                  "Time of the last successful reload, or of the start.", {}, seconds(reloads->succeeded));
    samples.gauge("millrace_config_settings_awaiting_restart",
                  "Changed settings that take effect only at a restart, as of the last reload.", {},
                  static_cast<double>(reloads->wait_for_restart.load()));
    if (tls)
      samples.gauge("millrace_tls_certificate_expiry_timestamp_seconds",
                    "Time at which the certificate expires.", {}, seconds(tls->expires()));
    if (listener != nullptr) server::udp::sample(listener->counters(), samples);
    ranks.sample(samples);
  });
}

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Logs in one line which models the server serves, and at which addresses.
void log_served(const server::models::Snapshot& served, const server::http::Server& server,
                const server::udp::Listener* udp) {
  std::string models, listening;
  for (const auto& model : served.all())
    models += (models.empty() ? ": " : ", ") + model->name() + " version " + model->version();
  for (const auto& [kind, text] : server.addresses())
    listening += (listening.empty() ? "" : ", ") + kind + ' ' + text;
  if (udp != nullptr) listening += ", udp " + udp->address();
  log::info("serve",
            "serving " + counted(served.all().size(), "model") + models + "; listening " + listening);
}

/// Returns the function that changes the faults of cables. `cluster` must outlive the function.
std::function<Status(const std::string&, const runtime::plan::CableFaults&)> cable_impairer(
    const Cluster& cluster) {
  if (!cluster.emulated) return {};
  return [&cluster](const std::string& cable, const runtime::plan::CableFaults& faults) {
    return runtime::emulator::set_faults(cluster, cable, faults);
  };
}

/// Registers the settings and files that a reload applies. The log level, which every reload applies, is not
/// among them.
void apply_reloads(LiveSettings& live, server::http::Api& api, server::auth::Guard& guard,
                   const std::shared_ptr<server::http::TlsIdentity>& tls, server::udp::Listener* udp) {
  using Prepared = LiveSettings::Prepared;
  live.on_reload([&](const Settings& now) -> Result<Prepared> {
    MILLRACE_ASSIGN(auto tokens, read_tokens(now));
    return Prepared{"http.tokens", tokens ? counted(tokens->size(), "token") : std::string(),
                    [&api, &guard, tokens = std::move(tokens), timeout = now.default_timeout] {
                      api.set_default_timeout(timeout);
                      server::auth::Guard::View view;
                      const auto* before = guard.refresh(view);
                      const bool differs = before && tokens ? *before != *tokens : before != tokens.get();
                      guard.replace(tokens);
                      return differs;
                    }};
  });
  for (const auto& [key, used] :
       {std::pair{"http.certificate", tls != nullptr}, std::pair{"http.key", tls != nullptr},
        std::pair{"udp.keys", udp != nullptr}})
    if (!used) live.wait_for_restart(key);
  if (tls)
    live.on_reload([tls](const Settings& now) -> Result<Prepared> {
      MILLRACE_ASSIGN(const auto fresh, server::http::TlsIdentity::load(now.http_certificate, now.http_key));
      return Prepared{"http.certificate", "a certificate until " + fresh->expires_text(),
                      [tls, fresh] { return tls->replace(*fresh); }};
    });
  if (udp != nullptr)
    live.on_reload([udp, &live](const Settings& now) -> Result<Prepared> {
      MILLRACE_ASSIGN(const auto options, udp_options(live));
      MILLRACE_ASSIGN(auto read, udp_keys(now));
      MILLRACE_TRY(server::udp::Listener::check(options, read));
      const auto keys = std::make_shared<server::udp::wire::KeyRing>(std::move(read));
      const std::string count = keys->empty() ? std::string() : counted(keys->size(), "UDP key");
      return Prepared{"udp.keys", count, [udp, keys] {
                        const bool differs = !udp->has_keys(*keys);
                        return udp->replace_keys(std::move(*keys)).ok() && differs;
                      }};
    });
}

}  // namespace

Status run(const ServeCommand& command, std::ostream& out) {
  MILLRACE_ASSIGN(LiveSettings live, LiveSettings::load(command));
  const Settings settings = live.settings();
  MILLRACE_ASSIGN(server::http::ServerOptions options, http_options(live));
  options.passed = service::take_passed_sockets();
  server::auth::Guard guard;
  MILLRACE_ASSIGN(auto tokens, read_tokens(settings));
  guard.replace(std::move(tokens));
  if (command.check_config) {
    MILLRACE_TRY(check_inputs(live));
    std::vector<std::string> addresses;
    for (auto address : options.listen) {
      address.tls = false;
      addresses.push_back(to_string(address));
    }
    for (const auto& doubt : doubts_about(live, addresses)) log::warning("serve", doubt);
    live.print(out);
    return {};
  }

  log::info("serve", "millrace " MILLRACE_VERSION " starts; settings: " + live.sources());

  // Every swap starts and ends threads. With a single malloc arena, a new version's threads reuse the memory that the
  // old version's threads freed. Contention does not matter, because requests hardly allocate.
  ::mallopt(M_ARENA_MAX, 1);
  MILLRACE_ASSIGN(const auto deployments, load_deployments(settings));
  MILLRACE_ASSIGN(const Cluster cluster, choose_cluster(settings, deployments));
  MILLRACE_ASSIGN(const Cluster local, local_cluster(settings, cluster));
  MILLRACE_TRY(runtime::emulator::select_backend(local, fidelity_of(settings),
                                                 static_cast<double>(settings.pace), manners_of(settings)));
  MILLRACE_ASSIGN(options.max_body_bytes, longest_body(live, deployments));
  MILLRACE_TRY(fit_connections(settings, deployments, cluster, options));

  // Catch signals before the cards are programmed, so that a first stop signal does not interrupt programming.
  Signals signals;
  if (!signals.ready())
    return Error(ErrorCode::kEnvironment, "cannot make a pipe for signals: out of descriptors");
  MILLRACE_ASSIGN(const auto ranks, Ranks::join(settings, deployments, cluster, local));
  if (!ranks->first()) return ranks->drive_cards(signals);

  const auto metrics = make_metrics(settings);
  server::models::Registry registry;
  MILLRACE_ASSIGN(auto repository_options, repository_options_from(settings));
  server::models::Swapper swapper(registry, *metrics,
                                  pipeline_source(settings, cluster, ranks->cards(), *metrics),
                                  swap_options_from(settings));
  server::models::Repository repository(registry, *metrics, swapper, std::move(repository_options));
  server::http::Api api(registry, *metrics,
                        {MILLRACE_VERSION, settings.default_timeout, &guard, settings.http_cors_origins,
                         &repository, cable_impairer(cluster)});

  // Bind the listeners before the cards are programmed, so that a port in use is reported at once.
  server::udp::RegistryDirectory directory(registry, [&](std::string_view model, std::string_view version) {
    return repository.loading(model, version).has_value();
  });
  MILLRACE_ASSIGN(const auto udp, bind_udp(live, directory));
  MILLRACE_ASSIGN(auto server, server::http::Server::bind(options, api, registry, *metrics));

  const auto bring_up = [&]() -> Status {
    MILLRACE_TRY(serve_deployments(settings, deployments, repository));
    return repository.start();
  };
  MILLRACE_ASSIGN(const Asked asked, wait_for_cards(signals, settings.drain, out, bring_up,
                                                    [&] { server.reset(); }));  // removes Unix socket files
  set_sampler(*metrics, registry, repository, api, options.tls, udp.get(), live.reload_state(), *ranks);
  apply_reloads(live, api, guard, options.tls, udp.get());
  MILLRACE_TRY(server->start());
  if (udp) udp->serve();
  std::vector<std::string> addresses;
  for (const auto& [kind, text] : server->addresses()) {
    out << "listening " << kind << ' ' << text << std::endl;
    addresses.push_back(text);
  }
  for (const auto& doubt : doubts_about(live, addresses)) log::warning("serve", doubt);
  live.check_on_reload([&](const LiveSettings& now) { return check_reload(live, now, addresses); });
  if (udp) out << "listening udp " << udp->address() << std::endl;
  log_served(*registry.snapshot(), *server, udp.get());
  serve_until_stopped(signals, asked, live, addresses, *server, udp.get(), repository, *ranks, out);
  return ranks->end();
}

}  // namespace millrace::cli
