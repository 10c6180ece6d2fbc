// Converts the settings of `millrace serve` into the options of server/models: the source of pipelines, the
// swap policy and the repository.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/plan/cluster.hpp"
#include "server/config/settings.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/repository.hpp"
#include "server/models/swap.hpp"

namespace millrace::cli {

/// Whether the emulated cards simulate the generated SystemVerilog.
bool is_rtl(const server::config::Settings& settings);

/// Returns a source that makes pipelines on the cards of the cluster, which `cards` opens. `metrics` must outlive these
/// pipelines.
server::models::PipelineSource pipeline_source(const server::config::Settings& settings,
                                               const runtime::plan::Cluster& cluster,
                                               const runtime::pipeline::CardSource& cards,
                                               server::metrics::Metrics& metrics);

/// Checks that the cluster, with all its cards free, has room for `copies` pipelines of the deployment. Uses no card.
Status check_cards(const server::config::Settings& settings, const runtime::plan::Cluster& cluster,
                   const runtime::plan::LoadedDeployment& deployment, std::uint32_t copies);

server::models::SwapOptions swap_options_from(const server::config::Settings& settings);

/// Returns the repository's options. If the settings name a repository, opens the cache of compiled models
/// and reads the files that compilations depend on. Returns kEnvironment or kNotFound if that fails.
Result<server::models::RepositoryOptions> repository_options_from(const server::config::Settings& settings);

}  // namespace millrace::cli
