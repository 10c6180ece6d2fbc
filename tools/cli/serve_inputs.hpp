// Reads and checks what the settings of `millrace serve` refer to: deployments, cluster, addresses and keys.
// Every error names the setting's source: the flag, the variable, or the file and line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "server/http/connection/address.hpp"
#include "server/udp/listener.hpp"
#include "tools/cli/serve_settings.hpp"

namespace millrace::cli {

using Deployments = std::vector<std::shared_ptr<const runtime::plan::LoadedDeployment>>;

/// Loads every deployment that the settings name. kInvalidInput if two hold a model of the same name, or if
/// the settings name nothing to serve.
Result<Deployments> load_deployments(const server::config::Settings& settings);

std::uint32_t replicas_of(const runtime::plan::LoadedDeployment& deployment,
                          const server::config::Settings& settings);

/// The cards that the replicas of a deployment need. Several cards can carry the same image.
std::size_t cards_of(const runtime::plan::LoadedDeployment& deployment,
                     const server::config::Settings& settings);

/// Reads the cluster file. Without one, returns emulated cards that fit the first deployment.
Result<runtime::plan::Cluster> choose_cluster(const server::config::Settings& settings,
                                              const Deployments& deployments);

/// The longest request body that the server accepts. kInvalidInput if this is more than the bound on all
/// bodies together, or less than the smallest request for one of the deployments.
Result<std::uint64_t> longest_body(const LiveSettings& live, const Deployments& deployments);

/// The HTTP listeners, at least one; listeners for admin routes come last. kInvalidInput if two listeners
/// have the same address, or if a TLS listener lacks a certificate or a certificate lacks a TLS listener.
Result<std::vector<server::http::ListenAddress>> listeners(const LiveSettings& live);

Result<server::udp::wire::KeyRing> udp_keys(const server::config::Settings& settings);
Result<server::udp::ListenerOptions> udp_options(const LiveSettings& live);

/// Warnings about settings that are valid but probably not intended: an address of `addresses` (HOST:PORT or
/// unix:PATH) that other machines reach without a token, and a secret that every local user can read.
std::vector<std::string> doubts_about(const LiveSettings& live, const std::vector<std::string>& addresses);

/// Checks that the new settings are consistent with each other. Reads no file. Also refuses a change after
/// which other machines would reach one of `addresses` (as for doubts_about()) without a token.
Status check_reload(const LiveSettings& before, const LiveSettings& now,
                    const std::vector<std::string>& addresses);

/// Checks for --check-config everything that the settings refer to. Touches no card and binds no address. If
/// there is a repository, opens the cache of compiled models and creates it if necessary.
Status check_inputs(const LiveSettings& live);

}  // namespace millrace::cli
