// What `millrace serve` is given beside its settings: deployments, cluster, addresses, keys; each read and
// checked. Every error names the flag, the variable or file and line that said so.
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

/// All that are named; kInvalidInput where two hold a model of one name, or there is nothing to serve at all.
Result<Deployments> load_deployments(const server::config::Settings& settings);

std::uint32_t replicas_of(const runtime::plan::LoadedDeployment& deployment,
                          const server::config::Settings& settings);

/// Several cards may carry one image.
std::size_t cards_of(const runtime::plan::LoadedDeployment& deployment,
                     const server::config::Settings& settings);

/// The cluster file, or emulated cards made to fit the first deployment.
Result<runtime::plan::Cluster> choose_cluster(const server::config::Settings& settings,
                                              const Deployments& deployments);

/// kInvalidInput where it is more than all bodies together may hold, or less than a request for one of these.
Result<std::uint64_t> longest_body(const LiveSettings& live, const Deployments& deployments);

/// At least one; those for admin routes last. kInvalidInput where two are the same, or TLS and certificate do
/// not go together.
Result<std::vector<server::http::ListenAddress>> listeners(const LiveSettings& live);

Result<server::udp::wire::KeyRing> udp_keys(const server::config::Settings& settings);
Result<server::udp::ListenerOptions> udp_options(const LiveSettings& live);

/// What is allowed and may not be meant, a warning each: addresses that other machines reach without a token
/// (of `addresses`, as HOST:PORT or unix:PATH), and secrets that every user of this machine may read.
std::vector<std::string> doubts_about(const LiveSettings& live, const std::vector<std::string>& addresses);

/// Whether settings that each hold would do together at a start; reads no file. `addresses` as for
/// doubts_about(): that nobody needs a token any more where other machines reach one of them is refused as
/// well.
Status check_reload(const LiveSettings& before, const LiveSettings& now,
                    const std::vector<std::string>& addresses);

/// What --check-config looks at beside the settings themselves. Touches no card and takes no address; opens
/// (makes) the cache of compiled models where there is a repository.
Status check_inputs(const LiveSettings& live);

}  // namespace millrace::cli
