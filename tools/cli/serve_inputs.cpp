#include "tools/cli/serve_inputs.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/file.hpp"
#include "runtime/plan/deployment.hpp"
#include "server/http/limits.hpp"
#include "tools/cli/serve_models.hpp"
#include "tools/cli/serve_repository_check.hpp"

namespace millrace::cli {
namespace {

namespace http = server::http;
using runtime::plan::Cluster;
using runtime::plan::LoadedDeployment;
using server::config::Settings;

constexpr std::uint64_t kUnknownModelBytes = 64U
                                             << 20U;  // allowed body size for models that are loaded later

bool is_v4(const std::string& host) {
  return host.find(':') == std::string::npos;
}

/// Whether the two addresses overlap, so that a process can bind only one of them.
bool same_address(const http::ListenAddress& a, const http::ListenAddress& b) {
  const auto *path = std::get_if<http::UnixPath>(&a.at), *other_path = std::get_if<http::UnixPath>(&b.at);
  if (path != nullptr && other_path != nullptr) return path->path == other_path->path;
  const auto *port = std::get_if<http::HostPort>(&a.at), *other = std::get_if<http::HostPort>(&b.at);
  if (port == nullptr || other == nullptr || port->port == 0 || port->port != other->port) return false;
  const auto covers = [](const std::string& host, const std::string& of) {
    return host == of || host == "::" || (host == "0.0.0.0" && is_v4(of));
  };
  return covers(port->host, other->host) || covers(other->host, port->host);
}

bool is_open(std::string_view address) {
  if (address.starts_with("unix:") || address.starts_with("systemd:")) return false;
  return !address.starts_with("127.") && !address.starts_with("[::1]") && !address.starts_with("localhost:");
}

Status check_apart(const std::vector<http::ListenAddress>& all, const LiveSettings& live) {
  const auto named = [&](const http::ListenAddress& address) {
    return live.named(address.admin ? "http.admin_listen" : "http.listen") + " '" + to_string(address) + "'";
  };
  for (auto one = all.begin(); one != all.end(); ++one)
    for (auto earlier = all.begin(); earlier != one; ++earlier)
      if (same_address(*earlier, *one))
        return Error(ErrorCode::kInvalidInput, named(*one) + ": " + named(*earlier) + " takes that address");
  return {};
}

/// Checks that the folders of Unix sockets can be written, before bind() needs them.
Status check_folders(const std::vector<http::ListenAddress>& all, const LiveSettings& live) {
  for (const auto& address : all) {
    const auto* path = std::get_if<http::UnixPath>(&address.at);
    if (path == nullptr) continue;
    const auto folder = std::filesystem::absolute(path->path).parent_path();
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
      return Error(ErrorCode::kEnvironment, live.named(address.admin ? "http.admin_listen" : "http.listen") +
                                                ": cannot listen on " + to_string(address) + ": " +
                                                folder.string() + ": " + std::strerror(errno));
  }
  return {};
}

/// Checks that the cluster has enough cards for all deployments at once.
Status check_deployments(const LiveSettings& live, const Deployments& deployments, const Cluster& cluster) {
  const Settings& settings = live.settings();
  std::size_t cards = 0;
  for (const auto& deployment : deployments) {
    const Status fits = check_cards(settings, cluster, *deployment, replicas_of(*deployment, settings));
    if (!fits.ok()) return fits.error().within("model '" + deployment->plan.model.name + "'");
    cards += cards_of(*deployment, settings);
  }
  if (cards <= cluster.cards.size()) return {};
  return Error(
      ErrorCode::kDoesNotFit,
      "the deployments need " + std::to_string(cards) + " cards together, and the cluster has " +
          std::to_string(cluster.cards.size()) +
          (settings.cluster.empty() ? "; give a cluster with cards for all deployments (--cluster)" : ""));
}

}  // namespace

Result<Deployments> load_deployments(const Settings& settings) {
  Deployments out;
  std::map<std::string, std::filesystem::path> names;
  for (const std::filesystem::path directory : settings.deployments) {
    MILLRACE_ASSIGN(auto loaded, runtime::plan::load_deployment(directory));
    const std::string name = loaded.plan.model.name;
    if (const auto [earlier, fresh] = names.emplace(name, directory); !fresh)
      return Error(ErrorCode::kInvalidInput, "--deployment " + directory.string() + " and " +
                                                 earlier->second.string() + " both hold a model named '" +
                                                 name + "'; compile one with another --name");
    out.push_back(std::make_shared<const LoadedDeployment>(std::move(loaded)));
  }
  if (out.empty() && settings.repository_root.empty())
    return Error(ErrorCode::kInvalidInput,
                 "no models to serve: give --deployment DIR or --repository DIR "
                 "(or name deployments or a repository in the file of --config)");
  return out;
}

std::uint32_t replicas_of(const LoadedDeployment& deployment, const Settings& settings) {
  return settings.replicas != 0 ? static_cast<std::uint32_t>(settings.replicas) : deployment.plan.replicas;
}

std::size_t cards_of(const LoadedDeployment& deployment, const Settings& settings) {
  const auto& endpoints = deployment.plan.endpoints;
  const auto each = std::count_if(endpoints.begin(), endpoints.end(), [](const auto& e) { return !e.host; });
  return static_cast<std::size_t>(each) * replicas_of(deployment, settings);
}

Result<Cluster> choose_cluster(const Settings& settings, const Deployments& deployments) {
  if (!settings.cluster.empty()) return runtime::plan::load_cluster(settings.cluster);
  return runtime::plan::emulated_cluster_for(*deployments.front(),
                                             replicas_of(*deployments.front(), settings));
}

Result<std::uint64_t> longest_body(const LiveSettings& live, const Deployments& deployments) {
  const Settings& settings = live.settings();
  const auto bad = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidInput, live.named("http.max_body_bytes") + ": " +
                                               std::to_string(settings.http_max_body_bytes) + why);
  };
  if (const std::uint64_t bytes = settings.http_max_body_bytes; bytes != 0) {
    if (bytes > settings.http_max_held_bytes)
      return bad(" is more than http.max_held_bytes " + std::to_string(settings.http_max_held_bytes) +
                 ", the bound on all bodies together");
    for (const auto& deployment : deployments)
      if (const auto least = http::least_body_bytes_for(deployment->plan); bytes < least)
        return bad(": every request for model '" + deployment->plan.model.name + "' has " +
                   std::to_string(least) + " bytes or more, and would be refused");
    return bytes;
  }
  std::uint64_t bytes = settings.repository_root.empty() ? 0 : kUnknownModelBytes;
  for (const auto& deployment : deployments)
    bytes = std::max(bytes, http::body_bytes_for(deployment->plan.model));
  return std::min(bytes, settings.http_max_held_bytes);
}

Result<std::vector<http::ListenAddress>> listeners(const LiveSettings& live) {
  const Settings& settings = live.settings();
  std::vector<http::ListenAddress> out;
  for (const auto& text : settings.http_listen) {
    MILLRACE_ASSIGN(auto address, http::parse_listen_address(text, live.named("http.listen")));
    out.push_back(std::move(address));
  }
  for (const auto& text : settings.http_admin_listen) {
    MILLRACE_ASSIGN(auto address, http::parse_listen_address(text, live.named("http.admin_listen")));
    address.admin = true;
    out.push_back(std::move(address));
  }
  if (out.empty()) return Error(ErrorCode::kInvalidInput, live.named("http.listen") + " names no listener");
  const bool tls = std::any_of(out.begin(), out.end(), [](const auto& address) { return address.tls; });
  if (tls != !settings.http_certificate.empty())
    return Error(ErrorCode::kInvalidInput,
                 tls ? "a listener that begins with 'tls:' needs --tls-certificate and --tls-key"
                     : "--tls-certificate has no effect without a listener that begins with 'tls:'");
  MILLRACE_TRY(check_apart(out, live));
  return out;
}

Result<server::udp::wire::KeyRing> udp_keys(const Settings& settings) {
  if (settings.udp_keys.empty()) return server::udp::wire::KeyRing();
  MILLRACE_ASSIGN(const std::string text, read_text_file(settings.udp_keys));
  auto keys = server::udp::wire::parse_keys(text);
  if (!keys) return keys.error().within("--udp-keys " + settings.udp_keys);
  if (keys->empty())
    return Error(ErrorCode::kInvalidInput, "--udp-keys " + settings.udp_keys + " holds no key");
  return keys;
}

Result<server::udp::ListenerOptions> udp_options(const LiveSettings& live) {
  const Settings& settings = live.settings();
  MILLRACE_ASSIGN(const http::HostPort at,
                  http::parse_host_port(settings.udp_listen, live.named("udp.listen")));
  server::udp::ListenerOptions options;
  options.host = at.host;
  options.port = at.port;
  options.allow_unauthenticated = settings.udp_unauthenticated;
  options.engine.fragment_bytes = static_cast<std::uint32_t>(settings.udp_fragment_bytes);
  return options;
}

std::vector<std::string> doubts_about(const LiveSettings& live, const std::vector<std::string>& addresses) {
  const Settings& settings = live.settings();
  std::vector<std::string> out;
  for (const auto& address : addresses)
    if (settings.http_tokens.empty() && is_open(address))
      out.push_back("other machines can reach " + address +
                    ", "
                    "and every route there except admin routes works without a token; "
                    "set http.tokens to require tokens");
  for (const auto& [key, file] :
       {std::pair{"http.tokens", settings.http_tokens}, std::pair{"http.key", settings.http_key},
        std::pair{"udp.keys", settings.udp_keys}}) {
    struct stat info {};
    if (file.empty() || ::stat(file.c_str(), &info) != 0 || (info.st_mode & S_IRWXO) == 0) continue;
    out.push_back(live.named(key) + ": every user of this machine may use " + file +
                  "; chmod o= prevents this");
  }
  return out;
}

Status check_reload(const LiveSettings& before, const LiveSettings& now,
                    const std::vector<std::string>& addresses) {
  if (const auto all = listeners(now); !all) return all.error();
  if (!now.settings().udp_listen.empty()) {
    if (const auto options = udp_options(now); !options) return options.error();
  }
  if (before.settings().http_tokens.empty() || !now.settings().http_tokens.empty()) return {};
  const auto open = std::find_if(addresses.begin(), addresses.end(), is_open);
  if (open == addresses.end()) return {};
  return Error(ErrorCode::kInvalidInput, "http.tokens was removed, but other machines can reach " + *open +
                                             "; restart the server to serve without tokens");
}

Status check_inputs(const LiveSettings& live) {
  const Settings& settings = live.settings();
  if (!settings.udp_listen.empty()) {
    MILLRACE_ASSIGN(const auto options, udp_options(live));
    MILLRACE_ASSIGN(const auto keys, udp_keys(settings));
    MILLRACE_TRY(server::udp::Listener::check(options, keys));
  }
  std::optional<Cluster> given;
  if (!settings.cluster.empty()) {
    MILLRACE_ASSIGN(given, runtime::plan::load_cluster(settings.cluster));
  }
  MILLRACE_ASSIGN(const auto deployments, load_deployments(settings));
  if (const auto bytes = longest_body(live, deployments); !bytes) return bytes.error();
  if (!given) {
    MILLRACE_ASSIGN(given, choose_cluster(settings, deployments));
  }
  MILLRACE_TRY(check_deployments(live, deployments, *given));
  if (!settings.repository_root.empty()) MILLRACE_TRY(check_repository(live, deployments, *given));
  MILLRACE_ASSIGN(const auto addresses, listeners(live));
  return check_folders(addresses, live);
}

}  // namespace millrace::cli
