#include "tools/cli/plan_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "compiler/front/model_file.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::cli {
namespace {

using compiler::explore::Shares;

constexpr double kLeastSeconds = 1e-9, kMostSeconds = 3600, kMostFrames = 1e12;
constexpr const char* kKinds[] = {"lut", "lutram", "ff", "dsp", "bram", "uram", "memory"};

/// Parses a utilisation limit: "0.7" for all kinds of resources, or "dsp=0.9" for one kind. `given` contains
/// the kinds that earlier options have set.
Status read_share(const std::string& text, Shares& shares, std::set<std::string>& given) {
  const auto equals = text.find('=');
  const std::string kind = equals == std::string::npos ? "" : text.substr(0, equals);
  const std::string figure = equals == std::string::npos ? text : text.substr(equals + 1);
  char* end = nullptr;
  const double share = std::strtod(figure.c_str(), &end);
  if (figure.empty() || *end != '\0' || !(share > 0) || share > 1)
    return Error(
        ErrorCode::kInvalidInput,
        "--max-utilisation " + text + ": give a share above 0 and at most 1, such as 0.8 or dsp=0.9");
  if (!given.insert(kind).second)
    return Error(ErrorCode::kInvalidInput, "--max-utilisation " + text + ": " +
                                               (kind.empty() ? "the share of all kinds" : kind) +
                                               " was given before; leave one out");
  bool found = kind.empty();
  for (std::size_t k = 0; k < shares.size(); ++k)
    if (kind.empty() || kind == kKinds[k]) {
      shares[k] = share;
      found = true;
    }
  if (!found)
    return Error(ErrorCode::kInvalidInput,
                 "--max-utilisation " + text + ": the kinds are lut, lutram, ff, dsp, bram, uram and memory");
  return {};
}

/// Parses a time such as "500us", "1.5ms" or "2s" into seconds. A number without a unit is in microseconds.
Result<double> seconds(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double factor = unit.empty() || unit == "us" ? 1e-6
                        : unit == "ms"               ? 1e-3
                        : unit == "ns"               ? 1e-9
                        : unit == "s"                ? 1
                                                     : 0;
  const double seconds = value * factor;
  if (end == text.c_str() || !(seconds >= kLeastSeconds && seconds <= kMostSeconds))
    return Error(ErrorCode::kInvalidInput,
                 option + " " + text + ": give a time from 1ns to 3600s, such as 500us, 1.5ms or 2s");
  return seconds;
}

/// Returns the command line's options, with missing ones taken from the millrace.yaml beside the model.
Result<PlanWhat> with_defaults(PlanWhat what, compiler::PlanOptions& options) {
  MILLRACE_ASSIGN(const compiler::CompileDefaults defaults, compiler::read_compile_defaults(what.model));
  if (what.weights.empty()) what.weights = defaults.weights;
  if (!what.plan.empty()) return what;  // the plan file determines everything else
  if (what.objective.empty()) what.objective = defaults.objective;
  if (!what.partitions) what.partitions = defaults.partitions;
  if (!what.replicas) what.replicas = defaults.replicas;
  if (!what.target_fps) what.target_fps = defaults.target_fps;
  if (what.max_latency.empty() && defaults.max_latency_us)
    options.targets.max_latency_seconds = *defaults.max_latency_us * 1e-6;
  return what;
}

}  // namespace

Result<std::vector<std::filesystem::path>> plugin_files(const std::vector<std::string>& values) {
  std::vector<std::filesystem::path> files;
  const auto add = [&files](const std::string& value, const std::string& name) -> Status {
    const auto refused = [&](const std::string& why) {
      return Error(ErrorCode::kInvalidInput, "--plugins " + value + ": " + why);
    };
    if (name.empty())
      return refused("an entry is empty; give the files of plugins, separated by single commas");
    std::error_code code;
    const auto file = std::filesystem::weakly_canonical(name, code);
    if (code || !std::filesystem::is_regular_file(file, code))
      return refused("there is no file '" + name + "'; give the path of a plugin");
    if (std::find(files.begin(), files.end(), file) != files.end())
      return refused("'" + name + "' is named twice; name each plugin once");
    files.push_back(file);
    return {};
  };
  for (const std::string& value : values)
    for (std::size_t begin = 0; begin <= value.size();) {
      const std::size_t end = std::min(value.find(',', begin), value.size());
      MILLRACE_TRY(add(value, value.substr(begin, end - begin)));
      begin = end + 1;
    }
  return files;
}

Status fill(const PlanWhat& given, compiler::PlanOptions& options) {
  MILLRACE_ASSIGN(const PlanWhat what, with_defaults(given, options));
  options.model = what.model;
  options.cluster = what.cluster;
  options.name = what.name;
  options.partitions = what.partitions;
  options.replicas = what.replicas;
  options.dump_after = what.dump_after;
  options.plan = what.plan;
  MILLRACE_ASSIGN(options.plugins, plugin_files(what.plugins));
  options.no_host = what.no_host;
  options.host_blocks = what.host_blocks;
  if (what.no_host && !what.host_blocks.empty())
    return Error(ErrorCode::kInvalidInput, "--no-host and --host contradict each other; leave one out");
  if (what.no_host && !what.host_time.empty())
    return Error(ErrorCode::kInvalidInput, "--no-host and --host-time contradict each other; leave one out");
  if (!what.host_time.empty()) {
    MILLRACE_ASSIGN(options.host_seconds, seconds("--host-time", what.host_time));
  }
  if (what.target_fps && *what.target_fps > kMostFrames)
    return Error(ErrorCode::kInvalidInput, "--target-fps: give at most 1e12 frames a second");
  options.targets.frames_per_second = what.target_fps;
  if (!what.max_latency.empty()) {
    MILLRACE_ASSIGN(options.targets.max_latency_seconds, seconds("--max-latency", what.max_latency));
  }
  using kernels::Placement;
  for (const auto placement : {Placement::kBaked, Placement::kLoaded, Placement::kStreamed})
    if (what.weights == kernels::to_string(placement)) options.weights = placement;
  using compiler::explore::Objective;
  options.baked_first = what.weights != "auto";
  options.targets.objective = what.objective == "latency"      ? Objective::kLatency
                              : what.objective == "throughput" ? Objective::kThroughput
                                                               : Objective::kCards;
  for (const auto& split : what.splits) {
    const auto equals = split.rfind('=');
    char* end = nullptr;
    const unsigned long parts =
        equals == std::string::npos ? 0 : std::strtoul(split.c_str() + equals + 1, &end, 10);
    if (parts < 2 || parts > 64 || *end != '\0')
      return Error(ErrorCode::kInvalidInput,
                   "--split " + split + ": give a block and 2 to 64 parts, such as conv_5=2");
    options.splits.push_back({split.substr(0, equals), static_cast<std::uint32_t>(parts)});
  }
  // A limit for one kind of resource overrides the limit for all kinds, whatever the order of the options.
  std::set<std::string> told;
  for (const bool one_kind : {false, true})
    for (const auto& share : what.max_utilisation)
      if ((share.find('=') != std::string::npos) == one_kind)
        MILLRACE_TRY(read_share(share, options.shares, told));
  return {};
}

}  // namespace millrace::cli
