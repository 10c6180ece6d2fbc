// `millrace devices --check --deployment DIR`: programs the cards of a deployment, checks each cable that the deployment
// uses, and computes probe frames whose outputs it compares with kernels/reference.
//
// The keys of the JSON output are schema, emulated, devices[] (name, endpoint, replica, image, bdf, shell,
// host_memory_bytes (null if unknown), state, problem), cables[] (name, a, b, channels, state, up_after_ms (null unless up),
// problem), probe (state: right, wrong, failed or skipped; frames, milliseconds, problem).
#include "tools/cli/preflight.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iomanip>
#include <memory>
#include <ostream>

#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/dispatcher.hpp"
#include "runtime/pipeline/preflight.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plugins/models.hpp"
#include "tools/cli/plugin_guard.hpp"
#include "tools/cli/verify_frames.hpp"
#include "tools/cli/verify_model.hpp"

namespace millrace::cli {

namespace pipeline = runtime::pipeline;
namespace plan = runtime::plan;
namespace json = boost::json;
using pipeline::CableCheck;
using pipeline::CardCheck;

namespace {

constexpr std::uint32_t kLeastProbeFrames = 8;
constexpr std::chrono::seconds kFrameBound{60};  // far longer than any model needs

struct Probe {
  std::string state = "skipped";  // "right", "wrong", "failed" or "skipped"
  std::string problem;
  std::uint32_t frames = 0;
  double milliseconds = 0;  // of the first frame
  std::vector<pipeline::LinkStatus> links;
};

/// Computes frames on the cards and compares every byte with kernels/reference.
Probe send_probe(const std::shared_ptr<const plan::LoadedDeployment>& deployment,
                 const plan::Cluster& cluster, const ReferenceModel& reference) {
  Probe probe;
  const auto failed = [&](const Error& error) {
    probe.state = "failed";
    probe.problem = error.message();
    return probe;
  };
  VerifyCommand random;
  // Idle replicas take turns, so each of them computes at least one frame.
  random.frames = std::max(kLeastProbeFrames, deployment->plan.replicas);
  const auto frames = make_frames(random, deployment->plan.model, random.frames);
  if (!frames.ok()) return failed(frames.error());
  const auto opened = pipeline::Dispatcher::open(deployment, cluster, {}, deployment->plan.replicas);
  if (!opened.ok()) return failed(opened.error());
  pipeline::Pipeline& cards = **opened;
  probe.state = "right";
  for (const FrameData& inputs : frames->inputs) {
    FrameData outputs;
    for (const plan::TensorSignature& output : deployment->plan.model.outputs)
      outputs.emplace_back(output.bytes());
    pipeline::Frame frame;
    for (const Buffer& input : inputs) frame.inputs.emplace_back(input);
    for (Buffer& output : outputs) frame.outputs.emplace_back(output);
    frame.deadline = pipeline::Clock::now() + kFrameBound;
    const auto begin = pipeline::Clock::now();
    if (const Status done = cards.infer(frame); !done.ok()) {
      if (probe.state == "wrong") break;  // the wrong result says more
      return failed(done.error());
    }
    const std::chrono::duration<double, std::milli> took = pipeline::Clock::now() - begin;
    if (probe.frames++ == 0) probe.milliseconds = took.count();
    const auto wanted = reference.run(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (differing_bytes(outputs[i], wanted[i]) != 0) {
        probe.state = "wrong";
        probe.problem = "output '" + deployment->plan.model.outputs[i].name +
                        "' differs from kernels/reference; `millrace verify` finds the first difference";
      }
  }
  probe.links = cards.status().links;
  cards.stop(std::chrono::milliseconds(1000));
  return probe;
}

/// Returns what the cable repaired or dropped while the probe frames passed, or an empty text.
std::string repairs_of(const plan::Cable& cable, const Probe& probe) {
  std::uint64_t repeats = 0, damaged = 0, dropped = 0;
  for (const pipeline::LinkStatus& link : probe.links) {
    const bool here = (link.producer_card == cable.a.card && link.consumer_card == cable.b.card) ||
                      (link.producer_card == cable.b.card && link.consumer_card == cable.a.card);
    if (!here) continue;
    repeats += link.repeats;
    damaged += link.damaged;
    dropped += link.dropped;
  }
  if (repeats + damaged == 0) return {};
  return ", degraded: " + std::to_string(repeats) + " packets repeated, " + std::to_string(damaged) +
         " damaged, " + std::to_string(dropped) + " dropped";
}

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string host_memory_text(const CardCheck& card, bool emulated) {
  if (emulated) return "n/a (emulated)";
  if (card.state != CardCheck::State::kReady) return "-";
  if (card.host_memory_bytes.value_or(0) == 0) return "none";
  return std::to_string(*card.host_memory_bytes >> 20U) + " MiB";
}

std::string end_text(const plan::CableEnd& end) {
  return end.card + "/" + std::to_string(end.connector);
}

void print_text(const pipeline::Preflight& found, const plan::Cluster& cluster, const Probe& probe,
                std::ostream& out) {
  const auto row = [&](const std::string& a, const std::string& b, const std::string& c, const std::string& d,
                       const std::string& state) {
    out << std::left << std::setw(16) << a << ' ' << std::setw(20) << b << ' ' << std::setw(10) << c << ' '
        << std::setw(14) << d << ' ' << state << '\n';
  };
  row("card", "endpoint", "image", "host memory", "state");
  for (const CardCheck& card : found.cards)
    row(card.card,
        (card.endpoint.empty() ? "-" : card.endpoint) +
            (card.replica == 0 ? "" : " of replica " + std::to_string(card.replica)),
        card.image.empty() ? "-" : card.image, host_memory_text(card, cluster.emulated),
        to_string(card.state) + (card.problem.empty() ? "" : ": " + card.problem));
  if (!found.cables.empty()) row("cable", "ends", "protocol", "channels", "state");
  for (std::size_t i = 0; i < found.cables.size(); ++i) {
    const CableCheck& check = found.cables[i];
    const plan::Cable& cable = cluster.cables[i];
    std::string state = to_string(check.state);
    if (check.state == CableCheck::State::kUp)
      state += " after " + std::to_string(check.up_after.count()) + " ms" + repairs_of(cable, probe);
    if (!check.problem.empty()) state += ": " + check.problem;
    row(check.cable, end_text(cable.a) + " - " + end_text(cable.b),
        cable.protocol == plan::CableProtocol::kUdp ? "udp" : "aurora", std::to_string(check.channels),
        state);
  }
  out << "probe frames: ";
  if (probe.state == "right")
    out << probe.frames << " frames, every byte right; the first took " << fixed(probe.milliseconds)
        << " ms\n";
  else
    out << probe.state << ": " << probe.problem << '\n';
  if (!cluster.emulated)
    out << "host memory is as XRT reports it (`xbutil configure --host-mem`); the images of this version do "
           "not use it\n";
}

void print_json(const pipeline::Preflight& found, const plan::Cluster& cluster, const Probe& probe,
                std::ostream& out) {
  json::array devices, cables;
  for (const CardCheck& card : found.cards)
    devices.push_back(
        {{"name", card.card},
         {"endpoint", card.endpoint},
         {"replica", card.replica},
         {"image", card.image},
         {"bdf", card.info.bdf},
         {"shell", card.info.name},
         {"host_memory_bytes", card.host_memory_bytes ? json::value(*card.host_memory_bytes) : json::value()},
         {"state", to_string(card.state)},
         {"problem", card.problem}});
  for (std::size_t i = 0; i < found.cables.size(); ++i) {
    const CableCheck& check = found.cables[i];
    const plan::Cable& cable = cluster.cables[i];
    cables.push_back(
        {{"name", check.cable},
         {"a", {{"card", cable.a.card}, {"connector", cable.a.connector}}},
         {"b", {{"card", cable.b.card}, {"connector", cable.b.connector}}},
         {"channels", check.channels},
         {"state", to_string(check.state)},
         {"up_after_ms",
          check.state == CableCheck::State::kUp ? json::value(check.up_after.count()) : json::value()},
         {"problem", check.problem}});
  }
  out << json::serialize(json::object{{"schema", 1},
                                      {"emulated", cluster.emulated},
                                      {"devices", std::move(devices)},
                                      {"cables", std::move(cables)},
                                      {"probe",
                                       {{"state", probe.state},
                                        {"frames", probe.frames},
                                        {"milliseconds", probe.milliseconds},
                                        {"problem", probe.problem}}}})
      << '\n';
}

/// Returns the first problem: a fault of a card explains that of its cables, and both explain that of the probe frames.
Status verdict_of(const pipeline::Preflight& found, const Probe& probe) {
  for (const CardCheck& card : found.cards)
    if (card.state != CardCheck::State::kReady && card.state != CardCheck::State::kUnused)
      return Error(ErrorCode::kDoesNotFit,
                   "card '" + card.card + "' is " + to_string(card.state) + ": " + card.problem);
  for (const CableCheck& cable : found.cables)
    if (cable.state != CableCheck::State::kUp && cable.state != CableCheck::State::kUnused)
      return Error(ErrorCode::kDoesNotFit,
                   "cable '" + cable.cable + "' is " + to_string(cable.state) + ": " + cable.problem);
  if (probe.state != "right")
    return Error(ErrorCode::kDoesNotFit, "probe frames " + probe.state + ": " + probe.problem);
  return {};
}

Status check(const DevicesCommand& command, std::ostream& out) {
  MILLRACE_ASSIGN(auto loaded, plan::load_deployment(command.deployment));
  const auto deployment = std::make_shared<const plan::LoadedDeployment>(std::move(loaded));
  MILLRACE_TRY(runtime::plugins::allow_plugins(*deployment, command.allow_plugins));
  std::function<Status(kernels::Program&)> load = [](kernels::Program& program) {
    return runtime::plugins::load_models(program);
  };
  if (!deployment->plugins.empty()) {
    MILLRACE_ASSIGN(const PluginGuard guard, PluginGuard::continue_in_child());
    load = [guard](kernels::Program& program) { return guard.load_models(program); };
  }
  MILLRACE_ASSIGN(const plan::Cluster cluster,
                  command.cluster.empty() ? plan::emulated_cluster_for(*deployment, deployment->plan.replicas)
                                          : plan::load_cluster(command.cluster));
  MILLRACE_ASSIGN(const ReferenceModel reference, ReferenceModel::make(*deployment, load));
  MILLRACE_TRY(runtime::emulator::select_backend(cluster));
  MILLRACE_ASSIGN(const pipeline::Preflight found,
                  pipeline::check_before_traffic(*deployment, cluster, {}, deployment->plan.replicas,
                                                 pipeline::xrt_cards(), {.up = command.timeout}));
  Probe probe;
  probe.problem = "a card or a cable is not ready";
  Probe ready;
  ready.state = "right";
  if (verdict_of(found, ready).ok()) probe = send_probe(deployment, cluster, reference);
  if (command.common.json) {
    print_json(found, cluster, probe, out);
  } else {
    print_text(found, cluster, probe, out);
  }
  return verdict_of(found, probe);
}

}  // namespace

Status preflight(const DevicesCommand& command, std::ostream& out) {
  try {
    return check(command, out);
  } catch (const kernels::PluginFailure& failure) {
    return Error(ErrorCode::kInvalidInput,
                 std::string(failure.what()) + "; correct the plugin and compile the model again");
  }
}

}  // namespace millrace::cli
