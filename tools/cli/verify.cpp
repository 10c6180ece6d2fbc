// `millrace verify`: runs frames through the cards and through kernels/reference, and compares every byte of
// every output.
//
// The keys of the JSON output are schema, model, fidelity, frames, mismatches (bytes that differ from the reference),
// mismatched_frames, first_difference (frame, output, element; if kernels/fast differs too, also partition, block,
// nodes, tensor), expect (compared, mismatches, largest_steps; only with --expect), cards. At rtl fidelity, the keys
// listed in verify_rtl_report.hpp are added.
#include <boost/json.hpp>

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <functional>
#include <ostream>

#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/dispatcher.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plugins/models.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/plugin_guard.hpp"
#include "tools/cli/verify_frames.hpp"
#include "tools/cli/verify_model.hpp"
#include "tools/cli/verify_rtl.hpp"
#include "tools/cli/verify_rtl_report.hpp"

namespace millrace::cli {

namespace plan = runtime::plan;
namespace json = boost::json;

namespace {

constexpr std::uint32_t kRandomFrames = 16, kRandomRtlFrames = 8;
constexpr std::chrono::seconds kFrameBound{60};  // far longer than any model needs on emulated cards

Status compare_frames(runtime::pipeline::Pipeline& pipeline, const ReferenceModel& reference,
                      const VerifyFrames& frames, const VerifyCommand& command, Findings& findings) {
  const plan::ModelInfo& model = pipeline.deployment().model;
  for (std::uint64_t index = 0; index < frames.inputs.size(); ++index) {
    // Compute this first. If a plugin fails, its own error says more than the loss of the card that calls the plugin.
    const auto wanted = reference.run(frames.inputs[index]);
    FrameData outputs;
    for (const plan::TensorSignature& output : model.outputs) outputs.emplace_back(output.bytes());
    runtime::pipeline::Frame frame;
    for (const Buffer& input : frames.inputs[index]) frame.inputs.emplace_back(input);
    for (Buffer& output : outputs) frame.outputs.emplace_back(output);
    frame.deadline = runtime::pipeline::Clock::now() + kFrameBound;
    if (Status inferred = pipeline.infer(frame); !inferred.ok()) {
      return inferred.error().within("frame " + std::to_string(index));
    }
    compare_frame(reference, model, command, frames, index, outputs, wanted, findings);
  }
  return {};
}

json::object to_json(const Findings& findings, const plan::Deployment& deployment,
                     const std::string& fidelity, std::size_t cards) {
  json::object document{{"schema", 1},
                        {"model", deployment.model.name},
                        {"deployment_digest", deployment.digest},
                        {"fidelity", fidelity},
                        {"cards", cards},
                        {"frames", findings.frames},
                        {"mismatches", findings.mismatches},
                        {"mismatched_frames", findings.mismatched_frames}};
  if (findings.mismatches > 0) {
    json::object first{{"frame", findings.first_frame},
                       {"output", findings.first_output},
                       {"element", findings.first_element}};
    if (findings.difference) {
      first["partition"] = findings.difference->partition;
      first["block"] = findings.difference->block;
      first["tensor"] = findings.difference->tensor;
      first["nodes"] = json::value_from(findings.difference->nodes);
    }
    document["first_difference"] = std::move(first);
  }
  if (findings.expected) {
    document["expect"] = {
        {"compared", findings.expect_compared},
        {"mismatches", findings.expect_mismatches},
        {"largest_steps",
         std::isfinite(findings.expect_largest) ? json::value(findings.expect_largest) : json::value()}};
  }
  return document;
}

void print_text(const Findings& findings, const plan::Deployment& deployment, std::size_t cards,
                std::ostream& out) {
  out << deployment.model.name << ": " << findings.frames << " frames over " << cards
      << (cards == 1 ? " card" : " cards")
      << ", every output compared with kernels/reference: " << findings.mismatches << " bytes differ\n";
  if (findings.mismatches > 0) {
    out << "first difference: frame " << findings.first_frame << ", output '" << findings.first_output
        << "', element " << findings.first_element << '\n';
    if (const auto& d = findings.difference) {
      out << "  the SIMD executor (kernels/fast) of this host differs from the reference, too: partition '"
          << d->partition << "', block '" << d->block << "', tensor '" << d->tensor << "'";
      for (const std::string& node : d->nodes) out << "\n  ONNX node '" << node << "'";
      out << '\n';
    } else {
      out << "  the SIMD executor (kernels/fast) of this host agrees with the reference, "
             "so the cards or the links caused the difference\n";
    }
  }
  if (findings.expected) {
    out << "compared with the file given: " << findings.expect_mismatches << " of "
        << findings.expect_compared << " elements differ by more than allowed";
    if (std::isfinite(findings.expect_largest))
      out << "; largest difference " << findings.expect_largest << " steps";
    out << '\n';
  }
}

/// Makes the directory of --dump-tensors and checks that it is writable. Called before any frame runs,
/// because a run at rtl fidelity takes minutes.
Status make_dump_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!failed && ::access(folder.c_str(), W_OK | X_OK) != 0)
    failed = std::error_code(errno, std::generic_category());
  if (!failed) return {};
  return Error(ErrorCode::kEnvironment, folder.string() + ": cannot be made or written: " + failed.message() +
                                            "; give --dump-tensors a directory that can be written");
}

/// Runs the frames on emulated or real cards, one frame at a time.
Status run_functional(const VerifyCommand& command,
                      const std::shared_ptr<const plan::LoadedDeployment>& loaded,
                      const plan::Cluster& cluster, const ReferenceModel& reference,
                      const VerifyFrames& frames, Findings& findings, std::size_t& cards) {
  MILLRACE_TRY(runtime::emulator::select_backend(cluster));
  runtime::pipeline::PipelineOptions options;
  options.stuck_after = kFrameBound;
  MILLRACE_ASSIGN(const auto pipeline,
                  runtime::pipeline::Dispatcher::open(loaded, cluster, options, loaded->plan.replicas));
  MILLRACE_TRY(compare_frames(*pipeline, reference, frames, command, findings));
  cards = pipeline->status().cards.size();
  pipeline->stop(std::chrono::milliseconds(1000));
  return {};
}

Status verify(const VerifyCommand& command, std::ostream& out) {
  const bool rtl = command.fidelity == "rtl";
  if (!rtl && command.fidelity != "functional") {
    return Error(ErrorCode::kInvalidInput,
                 "--fidelity '" + command.fidelity + "' is unknown; give functional or rtl");
  }
  if (!rtl && command.stall != 0) {
    return Error(ErrorCode::kInvalidInput, "--stall needs --fidelity rtl: only a simulation has a clock");
  }
  MILLRACE_ASSIGN(auto loaded, plan::load_deployment(command.deployment));
  const auto shared = std::make_shared<const plan::LoadedDeployment>(std::move(loaded));
  const plan::LoadedDeployment& deployment = *shared;
  MILLRACE_TRY(runtime::plugins::allow_plugins(deployment, command.allow_plugins));
  std::function<Status(kernels::Program&)> load = [](kernels::Program& program) {
    return runtime::plugins::load_models(program);
  };
  if (!deployment.plugins.empty()) {
    MILLRACE_ASSIGN(const PluginGuard guard, PluginGuard::continue_in_child());
    load = [guard](kernels::Program& program) { return guard.load_models(program); };
  }
  if (!command.dump_tensors.empty()) MILLRACE_TRY(make_dump_folder(command.dump_tensors));
  MILLRACE_ASSIGN(const VerifyFrames frames,
                  make_frames(command, deployment.plan.model, rtl ? kRandomRtlFrames : kRandomFrames));
  MILLRACE_ASSIGN(const plan::Cluster cluster,
                  command.cluster.empty() ? plan::emulated_cluster_for(deployment, deployment.plan.replicas)
                                          : plan::load_cluster(command.cluster));
  MILLRACE_ASSIGN(const ReferenceModel reference, ReferenceModel::make(deployment, load));
  if (command.tolerance > 0 && !reference.output_step(0))
    return Error(ErrorCode::kUnsupported,
                 "--tolerance " + std::to_string(command.tolerance) + ": output '" +
                     deployment.plan.model.outputs.at(0).name +
                     "' has no step: "
                     "the model must end in a DequantizeLinear, or in a DequantizeLinear and a Softmax; "
                     "without --tolerance, elements may differ by 1e-6 of the largest element");

  Findings findings;
  std::size_t cards = 0;
  RtlFindings simulated;
  if (rtl) {
    MILLRACE_TRY(run_rtl(command, deployment, cluster, reference, frames, findings, simulated));
    cards = simulated.cards;
  } else {
    MILLRACE_TRY(run_functional(command, shared, cluster, reference, frames, findings, cards));
  }
  if (!command.dump_tensors.empty()) {
    MILLRACE_TRY(reference.dump(frames.inputs[findings.first_frame], command.dump_tensors));
    log::info("verify", "tensors of frame " + std::to_string(findings.first_frame) + " are in " +
                            command.dump_tensors.string());
  }
  if (command.common.json) {
    json::object document = to_json(findings, deployment.plan, command.fidelity, cards);
    if (rtl) add_json(simulated, document);
    out << json::serialize(document) << '\n';
  } else {
    print_text(findings, deployment.plan, cards, out);
    if (rtl) print_text(simulated, out);
  }
  if (rtl) MILLRACE_TRY(verdict(simulated));
  return verdict(findings);
}

}  // namespace

Status run(const VerifyCommand& command, std::ostream& out) {
  try {
    return verify(command, out);
  } catch (const kernels::PluginFailure& failure) {
    return Error(ErrorCode::kInvalidInput,
                 std::string(failure.what()) + "; correct the plugin and compile the model again");
  }
}

}  // namespace millrace::cli
