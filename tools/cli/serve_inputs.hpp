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

/// Loads every deployment that the settings name. Returns kInvalidInput if two deployments have a model of
/// the same name, or if the settings name nothing to serve.
Result<Deployments> load_deployments(const server::config::Settings& settings);

std::uint32_t replicas_of(const runtime::plan::LoadedDeployment& deployment,
                          const server::config::Settings& settings);

/// The number of cards that all replicas of a deployment need. Several cards can hold the same FPGA image.
std::size_t cards_of(const runtime::plan::LoadedDeployment& deployment,
                     const server::config::Settings& settings);

/// Reads the cluster file that the settings name. If they name none, returns a cluster of emulated cards that
/// fits the first deployment.
Result<runtime::plan::Cluster> choose_cluster(const server::config::Settings& settings,
                                              const Deployments& deployments);

/// The largest request body, in bytes, that the server accepts. Returns kInvalidInput if this size exceeds the limit on
/// all bodies together, or is less than the smallest request for one of the deployments.
Result<std::uint64_t> longest_body(const LiveSettings& live, const Deployments& deployments);

/// The addresses of the HTTP listeners, at least one; listeners for admin routes come last. Returns
/// kInvalidInput if two listeners have the same address, if a TLS listener has no certificate, or if there is
/// a certificate but no TLS listener.
Result<std::vector<server::http::ListenAddress>> listeners(const LiveSettings& live);

Result<server::udp::wire::KeyRing> udp_keys(const server::config::Settings& settings);
Result<server::udp::ListenerOptions> udp_options(const LiveSettings& live);

/// Warnings about settings that are valid but probably not intended: an address of `addresses` (HOST:PORT or
/// unix:PATH) that other machines can use without a token, and a secret that every local user can read.
std::vector<std::string> doubts_about(const LiveSettings& live, const std::vector<std::string>& addresses);

/// Checks that the reloaded settings are consistent with each other. Reads no file. Also refuses a change
/// that would let other machines use one of `addresses` (HOST:PORT or unix:PATH) without a token.
Status check_reload(const LiveSettings& before, const LiveSettings& now,
                    const std::vector<std::string>& addresses);

/// Checks everything that the settings refer to, for --check-config. Uses no card and binds no address. If
/// there is a repository, opens the cache of compiled models and creates it if necessary.
Status check_inputs(const LiveSettings& live);

}  // namespace millrace::cli
