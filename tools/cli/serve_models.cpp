#include "tools/cli/serve_models.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/plugins/models.hpp"
#include "runtime/rtl/build.hpp"

namespace millrace::cli {

namespace fs = std::filesystem;
namespace models = server::models;
using runtime::pipeline::Pipeline;
using runtime::pipeline::PipelineOptions;
using server::config::Settings;

namespace {

// The timeout for frames at rtl fidelity. A simulation is a thousand to a million times slower than hardware.
constexpr std::chrono::minutes kRtlPatience{10};
constexpr std::uint64_t kMostProgramBytes = std::uint64_t{4} << 30U;

Result<std::string> digest_of(const fs::path& file) {
  MILLRACE_ASSIGN(const auto bytes, read_file(file, kMostProgramBytes));
  return sha256_hex(bytes);
}

/// Returns a compiler that runs this program's `compile` for the cluster. Its identity covers everything that
/// a compilation depends on: this program, the cluster file and the files of the cluster's devices.
Result<models::Compiler> compiler_for(const fs::path& cluster_file) {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  if (code) return Error(ErrorCode::kEnvironment, "cannot find the path of this program: " + code.message());
  MILLRACE_ASSIGN(const auto cluster, runtime::plan::load_cluster(cluster_file));
  MILLRACE_ASSIGN(std::string identity, digest_of(program));
  MILLRACE_ASSIGN(const std::string cluster_digest, digest_of(cluster_file));
  identity += "\n" + cluster_digest;
  for (const auto& [name, device] : cluster.devices) {
    // This is the path from which load_cluster() has read the device file.
    MILLRACE_ASSIGN(const std::string digest,
                    digest_of(cluster_file.parent_path() / ".." / "devices" / (name + ".yaml")));
    identity += "\n" + digest;
  }
  return models::Compiler{{program.string(), "compile"}, fs::absolute(cluster_file), std::move(identity)};
}

/// Builds simulations of the deployment's SystemVerilog. Cards at rtl fidelity need them before they are programmed.
Status prepare_cards(const runtime::plan::LoadedDeployment& deployment) {
  runtime::rtl::BuildOptions options;
  options.progress = [](const std::string& line) { log::info("rtl", line); };
  const auto built = runtime::rtl::build_simulations(deployment, options);
  return built.ok() ? Status() : built.error().within("model '" + deployment.plan.model.name + "'");
}

/// Returns a time limit of the protocol between host and cards, which gets longer with the pace of emulated cards.
std::chrono::milliseconds at_pace(const Settings& settings, std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  return std::clamp(limit * static_cast<std::int64_t>(std::max<std::uint64_t>(settings.pace, 1)), limit,
                    std::max(limit, kLongest));
}

PipelineOptions pipeline_options(const Settings& settings) {
  PipelineOptions options;
  options.slots = static_cast<std::uint32_t>(settings.slots);
  options.queue_capacity = static_cast<std::uint32_t>(settings.queue_capacity);
  options.stuck_after = at_pace(settings, options.stuck_after);
  options.stuck_after_deadline = at_pace(settings, options.stuck_after_deadline);
  if (is_rtl(settings)) options.stuck_after = options.stuck_after_deadline = kRtlPatience;
  return options;
}

}  // namespace

bool is_rtl(const Settings& settings) {
  return settings.fidelity == "rtl";
}

models::PipelineSource pipeline_source(const Settings& settings, const runtime::plan::Cluster& cluster,
                                       const runtime::pipeline::CardSource& cards,
                                       server::metrics::Metrics& metrics) {
  PipelineOptions options = pipeline_options(settings);
  options.check_known_answer = !cluster.emulated || settings.manners == "hardware";
  options.on_programmed = [&metrics](const std::string& card) {
    metrics.count("millrace_programmings_total",
                  "Number of times that an image was loaded on the card, for any version of any model.",
                  {{"card", card}});
  };
  models::PipelineSource source;
  source.open = [options, cluster, cards](const models::PipelineSource::Deployment& deployment,
                                          std::uint32_t copies) -> Result<std::shared_ptr<Pipeline>> {
    MILLRACE_ASSIGN(std::shared_ptr<Pipeline> pipeline,
                    Pipeline::open(deployment, cluster, options, copies, cards));
    return pipeline;
  };
  source.check = [options, cluster, cards, rtl = is_rtl(settings), allowed = settings.allow_plugins](
                     const models::PipelineSource::Deployment& deployment,
                     const std::vector<std::string>& also_free, std::uint32_t copies) -> Status {
    MILLRACE_TRY(runtime::plugins::allow_plugins(*deployment, allowed));
    if (rtl)
      MILLRACE_TRY(prepare_cards(*deployment));  // can take minutes, so do it before a pipeline is stopped
    return Pipeline::check(*deployment, cluster, options, also_free, copies, cards);
  };
  return source;
}

Status check_cards(const Settings& settings, const runtime::plan::Cluster& cluster,
                   const runtime::plan::LoadedDeployment& deployment, std::uint32_t copies) {
  MILLRACE_TRY(runtime::plugins::allow_plugins(deployment, settings.allow_plugins));
  return Pipeline::check(deployment, cluster, pipeline_options(settings), {}, copies);
}

models::SwapOptions swap_options_from(const Settings& settings) {
  models::SwapOptions options;
  options.replicas = static_cast<std::uint32_t>(settings.replicas);
  options.waiting = static_cast<std::uint32_t>(settings.queue_capacity);
  options.verify.warmup_frames = static_cast<std::uint32_t>(settings.warmup_frames);
  options.verify.frame_timeout = at_pace(settings, options.verify.frame_timeout);
  if (is_rtl(settings)) {
    options.verify.warmup_frames = 0;  // a simulated card needs no warm-up
    options.verify.frame_timeout = kRtlPatience;
  }
  return options;
}

Result<models::RepositoryOptions> repository_options_from(const Settings& settings) {
  models::RepositoryOptions options;
  MILLRACE_ASSIGN(options.mode, models::parse_mode(settings.repository_mode));
  MILLRACE_ASSIGN(options.policy, models::parse_policy(settings.repository_policy));
  options.load = settings.repository_load;
  options.poll = settings.repository_poll;
  options.compilations = settings.repository_compilations;
  options.strict = settings.repository_strict;
  if (settings.repository_root.empty()) return options;
  options.root = settings.repository_root;
  MILLRACE_ASSIGN(options.compiler, compiler_for(settings.cluster));
  MILLRACE_ASSIGN(options.cache,
                  settings.repository_cache.empty() ? Cache::open() : Cache::open(settings.repository_cache));
  return options;
}

}  // namespace millrace::cli
