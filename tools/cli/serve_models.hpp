// What `millrace serve` makes of its settings for the models: where pipelines come from, how versions are
// swapped, what the repository is.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "server/config/settings.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/repository.hpp"
#include "server/models/swap.hpp"

namespace millrace::cli {

/// Whether emulated cards simulate their SystemVerilog.
bool is_rtl(const server::config::Settings& settings);

/// Pipelines over the cards of the cluster; `metrics` must outlive them.
server::models::PipelineSource pipeline_source(const server::config::Settings& settings,
                                               const runtime::plan::Cluster& cluster,
                                               server::metrics::Metrics& metrics);

/// Whether the cluster has cards for so many pipelines of the deployment, before it has any other. Touches
/// none.
Status check_cards(const server::config::Settings& settings, const runtime::plan::Cluster& cluster,
                   const runtime::plan::LoadedDeployment& deployment, std::uint32_t copies);

server::models::SwapOptions swap_options_from(const server::config::Settings& settings);

/// Opens the cache of compiled models where there is a repository, and reads what compilations depend on.
/// kEnvironment, kNotFound where that cannot be had.
Result<server::models::RepositoryOptions> repository_options_from(const server::config::Settings& settings);

}  // namespace millrace::cli
