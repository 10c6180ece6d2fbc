#include "tools/cli/verify_rtl.hpp"
#include "compiler/emit/communication.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "kernels/program/packing.hpp"
#include "runtime/base/log.hpp"
#include "runtime/pipeline/binding.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/parameters.hpp"
#include "runtime/rtl/build.hpp"
#include "runtime/rtl/executor.hpp"
#include "tools/cli/verify_udp.hpp"

namespace millrace::cli {

namespace plan = runtime::plan;
namespace rtl = runtime::rtl;
using Clock = std::chrono::steady_clock;
using Key = ReferenceModel::Key;
using End = rtl::System::End;

namespace {

Buffer packed_form(kernels::ElementType type, std::uint64_t elements, const Buffer& storage) {
  Buffer packed(kernels::packed_bytes(type, elements));
  kernels::pack(type, storage, packed);
  return packed;
}

/// One verification: the simulated system, and the host, which feeds the system and computes the host partitions.
class Run {
 public:
  Run(const VerifyCommand& command, const plan::LoadedDeployment& deployment, const ReferenceModel& reference,
      const VerifyFrames& frames, Findings& findings, RtlFindings& out)
      : command_(command),
        deployment_(deployment),
        plan_(deployment.plan),
        reference_(reference),
        frames_(frames),
        findings_(findings),
        out_(out),
        system_({command.stall, command.seed}) {}

  Status prepare(const plan::Cluster& cluster) {
    rtl::BuildOptions options;
    options.progress = [](const std::string& line) { log::info("rtl", line); };
    MILLRACE_ASSIGN(const auto built, rtl::build_simulations(deployment_, options));
    for (std::size_t i = 0; i < built.size(); ++i) MILLRACE_TRY(add_partition(built[i], i));
    MILLRACE_ASSIGN(const auto binding,
                    runtime::pipeline::bind_endpoints(plan_, deployment_.records, cluster,
                                                      [](const plan::ClusterCard&) { return true; }));
    out_.cards = binding.cards.size();
    std::map<const plan::Cable*, std::size_t> loads;  // cable -> number of channels
    for (const auto& bound : binding.channels) ++loads[cable_of(bound, binding, cluster)];
    for (const auto& bound : binding.channels) {
      const plan::Channel& channel = plan_.channels[bound.channel];
      const plan::Cable* const cable = cable_of(bound, binding, cluster);
      if (cable == nullptr)
        return Error(ErrorCode::kInternal, "channel '" + channel.name + "' was bound to no cable");
      if (loads.at(cable) == 1 && has_udp_hardware(plan_, channel, *cable, system_.clock_mhz())) {
        MILLRACE_TRY(add_udp_channel(channel, *cable, options));
      } else {
        add_channel(channel, *cable, cluster.cards[binding.cards[bound.producer].card].name);
      }
      linked_.insert({channel.consumer.partition, channel.consumer.port});
      slowest_channel_ = std::max(slowest_channel_, cycles_of(channel, *cable));
      // Add 2: one cycle until the last packet starts, and one until the packet's last word leaves.
      hops_ += std::ceil(cycles_of(channel, *cable) + cable->latency_ns * system_.clock_mhz() / 1000) + 2;
    }
    for (const plan::Channel& channel : plan_.channels) {
      const Key consumer{channel.consumer.partition, channel.consumer.port};
      sources_[consumer] = {channel.producer.partition, channel.producer.port};
      if (ends_in_.contains(consumer) && !linked_.contains(consumer)) fed_.push_back(consumer);
    }
    values_.resize(frames_.inputs.size());
    return {};
  }

  Status simulate() {
    for (std::uint64_t frame = 0; frame < frames_.inputs.size(); ++frame) {
      wanted_.push_back(reference_.ports(frames_.inputs[frame]));
      for (std::size_t i = 0; i < plan_.model.inputs.size(); ++i)
        values_[frame][{"", plan_.model.inputs[i].name}] = frames_.inputs[frame][i];
      compute_on_host(frame);
    }
    differs_.resize(frames_.inputs.size());
    auto told = Clock::now();
    const auto tell = [&] {
      if (Clock::now() - told < std::chrono::seconds(2)) return;
      told = Clock::now();
      log::info("rtl", "cycle " + std::to_string(system_.cycles()) + ", " + std::to_string(given_) + " of " +
                           std::to_string(frames_.inputs.size() * count_outputs()) + " frames given out");
    };
    const auto on_frame = [&](End end, std::uint64_t frame, const Buffer& packed) {
      take(end, frame, packed);
    };
    MILLRACE_TRY(system_.run(frames_.inputs.size(), on_frame, tell));
    if (!system_.standstill().has_value()) compare_outputs();
    return {};
  }

  void report() {
    out_.seed = command_.seed;
    out_.stall = command_.stall;
    out_.clock_mhz = system_.clock_mhz();
    out_.cycles = system_.cycles();
    for (const auto& channel : system_.channels())
      if (!channel.cable.empty()) out_.channels.push_back(channel);
    out_.standstill = system_.standstill();
    for (std::size_t p = 0; p < designs_.size(); ++p) out_.partitions.push_back(report_partition(p));
    measure_system();
    predict_system();
  }

 private:
  Status add_partition(const rtl::BuiltPartition& built, std::size_t number) {
    const plan::Partition& partition = *plan_.find_partition(built.partition);
    MILLRACE_ASSIGN(auto simulation, rtl::Simulation::open(built.entry, command_.seed + number));
    MILLRACE_TRY(rtl::check_ports(simulation->design(), reference_.program(partition.name)));
    if (const auto file = deployment_.parameters.find(partition.name); file != deployment_.parameters.end()) {
      MILLRACE_ASSIGN(const auto header, plan::read_parameter_header(file->second));
      MILLRACE_TRY(
          simulation->load_constants(std::span(file->second).subspan(header.load.offset, header.load.bytes)));
      MILLRACE_TRY(simulation->hold_weights(
          std::span(file->second).subspan(header.streamed.offset, header.streamed.bytes)));
    }
    const double image_clock = deployment_.records.at(partition.image).clock_mhz;
    const double clock = image_clock > 0 ? image_clock : simulation->design().clock_mhz;
    if (!(clock > 0))
      return Error(ErrorCode::kCorrupt, "image '" + partition.image + "' has no clock frequency");
    const std::size_t place = system_.add_partition(partition.name, std::move(simulation), clock);
    for (std::size_t i = 0; i < partition.inputs.size(); ++i)
      ends_in_[{partition.name, partition.inputs[i].name}] = {place, i};
    for (std::size_t i = 0; i < partition.outputs.size(); ++i)
      ends_out_[{partition.name, partition.outputs[i].name}] = {place, i};
    card_partitions_.push_back(&partition);
    designs_.push_back(built.design);
    return {};
  }

  /// Returns the cable that a channel was bound to.
  const plan::Cable* cable_of(const runtime::pipeline::BoundChannel& bound,
                              const runtime::pipeline::Binding& binding, const plan::Cluster& cluster) const {
    const auto& sender = binding.cards[bound.producer];
    const auto row = std::find_if(sender.links.begin(), sender.links.end(),
                                  [&](const auto& link) { return link.row_index == bound.producer_row; });
    const std::string& card = cluster.cards[sender.card].name;
    for (const plan::Cable& cable : cluster.cables)
      for (const plan::CableEnd* const end : {&cable.a, &cable.b})
        if (end->card == card && end->connector == row->row.connector) return &cable;
    return nullptr;
  }

  /// Adds a channel of a card as a model of its packets.
  void add_channel(const plan::Channel& channel, const plan::Cable& cable, const std::string& card) {
    const auto [place, fresh] = cables_.try_emplace({cable.name, card}, 0);
    if (fresh)
      place->second =
          system_.add_cable(cable.name + " from " + card, rate_of(channel, cable), cable.latency_ns);
    system_.add_channel(channel.name, ends_out_.at({channel.producer.partition, channel.producer.port}),
                        ends_in_.at({channel.consumer.partition, channel.consumer.port}), place->second,
                        {channel.packet_bytes, channel.credits});
  }

  /// Adds a channel over UDP as SystemVerilog, which is one more part of the system. Wires without limits join this part
  /// with the partitions.
  Status add_udp_channel(const plan::Channel& channel, const plan::Cable& cable,
                         const rtl::BuildOptions& options) {
    constexpr double kWireGigabits = 1e6;
    constexpr std::uint32_t kWireBytes = 64, kWireCredits = 1U << 20U;
    const End producer = ends_out_.at({channel.producer.partition, channel.producer.port}),
              consumer = ends_in_.at({channel.consumer.partition, channel.consumer.port});
    MILLRACE_ASSIGN(const rtl::Source sender,
                    rtl::read_source(deployment_.directory, channel.producer.partition));
    MILLRACE_ASSIGN(const rtl::Source receiver,
                    rtl::read_source(deployment_.directory, channel.consumer.partition));
    const rtl::Port &from = sender.design.outputs.at(producer.port),
                    &to = receiver.design.inputs.at(consumer.port);
    const double clock = system_.clock_mhz(producer.partition);
    const std::size_t number = out_.udp_channels.size();
    MILLRACE_ASSIGN(const rtl::Source source,
                    udp_channel_source(sender, receiver, from, to, channel, cable, clock, number));
    MILLRACE_ASSIGN(const Cache cache, Cache::open());
    MILLRACE_ASSIGN(const rtl::Toolchain tools, rtl::Toolchain::find());
    MILLRACE_ASSIGN(const auto entry, rtl::build_simulation(cache, tools, source, options));
    MILLRACE_ASSIGN(auto simulation, rtl::Simulation::open(entry, command_.seed + designs_.size() + number));
    const std::size_t place = system_.add_partition(channel.name, std::move(simulation), clock);
    const auto wire = [&](End output, End input, const rtl::Port& port) {
      const auto beat = static_cast<std::uint32_t>((port.beat_bits() + 7) / 8);
      system_.add_channel({}, output, input, system_.add_cable({}, kWireGigabits, 0),
                          {std::max(kWireBytes, 8 * beat), kWireCredits});
    };
    wire(producer, {place, 0}, from);
    wire({place, 0}, consumer, to);
    out_.udp_channels.push_back(channel.name);
    return {};
  }

  /// Returns the rate of a channel's cable in Gbit/s. A packed image can have another clock than the cluster's device, and
  /// then its link ports have another rate.
  double rate_of(const plan::Channel& channel, const plan::Cable& cable) const {
    double rate = cable.gigabits_per_second;
    if (cable.protocol != plan::CableProtocol::kAurora) return rate;
    for (const auto& end : {channel.producer, channel.consumer}) {
      const double clock = deployment_.records.at(plan_.find_partition(end.partition)->image).clock_mhz;
      if (clock > 0) rate = std::min(rate, 8 * plan::kPacketWordBytes * clock / 1000);
    }
    return rate;
  }

  /// Returns the number of clock cycles for which a frame of the channel occupies the cable.
  double cycles_of(const plan::Channel& channel, const plan::Cable& cable) const {
    const std::uint64_t bytes = compiler::emit::bytes_on_wire(channel);
    return static_cast<double>(bytes) * 8 * system_.clock_mhz() / (rate_of(channel, cable) * 1000);
  }

  /// Computes every host partition whose inputs for the frame are complete, and feeds the results to the cards.
  void compute_on_host(std::uint64_t frame) {
    auto& values = values_[frame];
    for (const plan::Partition& partition : plan_.partitions) {
      if (partition.kind != plan::PartitionKind::kHost) continue;
      std::vector<Buffer> inputs;
      for (const plan::Port& port : partition.inputs) {
        const auto value = values.find(sources_.at({partition.name, port.name}));
        if (value != values.end()) inputs.push_back(value->second);
      }
      const bool known =
          std::all_of(partition.outputs.begin(), partition.outputs.end(), [&](const auto& port) {
            return values.contains({partition.name, port.name});
          });
      if (known || inputs.size() != partition.inputs.size()) continue;
      auto outputs = kernels::reference::run(partition.program, inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i)
        values[{partition.name, partition.outputs[i].name}] = std::move(outputs[i]);
    }
    for (const Key& consumer : fed_) {
      const auto value = values.find(sources_.at(consumer));
      if (value == values.end() || !done_.insert({frame, consumer}).second) continue;
      const End end = ends_in_.at(consumer);
      const plan::Port& port = card_partitions_[end.partition]->inputs[end.port];
      system_.feed(end, packed_form(port.type, port.elements(), value->second));
    }
  }

  /// Compares one output of a card partition with the reference, stores it, and continues the host's work on the frame.
  void take(End end, std::uint64_t frame, const Buffer& packed) {
    const bool is_link = end.partition >= card_partitions_.size();
    if (frame >= frames_.inputs.size() || is_link) return;
    ++given_;
    const plan::Partition& partition = *card_partitions_[end.partition];
    const plan::Port& port = partition.outputs[end.port];
    const Key key{partition.name, port.name};
    Buffer got(port.storage_bytes());
    kernels::unpack(port.type, packed, got);
    const Buffer& wanted = wanted_[frame].at(key);
    if (const std::uint64_t bytes = differing_bytes(got, wanted); bytes != 0) {
      if (findings_.mismatches == 0) {
        const auto at = std::mismatch(got.begin(), got.end(), wanted.begin()).first;
        findings_.first_frame = frame;
        findings_.first_output = partition.name + "." + port.name;
        findings_.first_element = static_cast<std::uint64_t>(at - got.begin()) / port.type.storage_bytes();
      }
      findings_.mismatches += bytes;
      differs_[frame] = true;
    }
    values_[frame][key] = std::move(got);
    compute_on_host(frame);
  }

  void compare_outputs() {
    for (std::uint64_t frame = 0; frame < frames_.inputs.size(); ++frame) {
      FrameData outputs, wanted;
      for (const plan::TensorSignature& output : plan_.model.outputs) {
        const Key source = sources_.at({"", output.name});
        outputs.push_back(values_[frame].at(source));
        wanted.push_back(wanted_[frame].at(source));
      }
      const std::uint64_t before = findings_.mismatched_frames;
      compare_frame(reference_, plan_.model, command_, frames_, frame, outputs, wanted, findings_);
      if (differs_[frame] && findings_.mismatched_frames == before) ++findings_.mismatched_frames;
    }
  }

  std::size_t count_outputs() const {
    std::size_t count = 0;
    for (const plan::Partition* partition : card_partitions_) count += partition->outputs.size();
    return count;
  }

  /// Returns the clock cycles between the ends of successive frames, averaged over the later half of the
  /// frames. `last` returns the end of one frame.
  template <class Last>
  std::optional<double> interval(const std::vector<rtl::FramePassage>& passages, Last last) const {
    const std::size_t n = std::min<std::size_t>(passages.size(), frames_.inputs.size());
    if (n < 3 || system_.standstill().has_value()) return std::nullopt;
    const std::size_t over = n / 2;
    return static_cast<double>(last(passages[n - 1]) - last(passages[n - 1 - over])) /
           static_cast<double>(over);
  }

  static std::optional<double> larger(std::optional<double> a, std::optional<double> b) {
    return !a ? b : !b ? a : std::max(*a, *b);
  }

  RtlPartition report_partition(std::size_t place) const {
    const rtl::Simulation& simulation = system_.simulation(place);
    const rtl::Design& design = designs_[place];
    RtlPartition out;
    out.name = system_.name(place);
    out.clock_mhz = system_.clock_mhz(place);
    out.predicted = {static_cast<double>(design.predicted.interval), design.predicted.latency,
                     design.predicted.first_output};
    std::optional<std::uint64_t> begin;
    for (std::size_t i = 0; i < design.inputs.size(); ++i)
      if (const auto& passages = system_.input_passages({place, i}); !passages.empty())
        begin = std::min(begin.value_or(passages[0].first_of_own), passages[0].first_of_own);
    for (std::size_t i = 0; i < design.outputs.size(); ++i) {
      const auto& passages = system_.output_passages({place, i});
      out.measured.interval =
          larger(out.measured.interval,
                 interval(passages, [](const rtl::FramePassage& passage) { return passage.last_of_own; }));
      if (passages.empty() || !begin || system_.standstill().has_value()) continue;
      out.measured.latency = std::max(out.measured.latency.value_or(0), passages[0].last_of_own - *begin);
      const std::uint64_t first = passages[0].first_of_own - *begin;
      out.measured.first_output = std::min(out.measured.first_output.value_or(first), first);
    }
    for (std::size_t i = 0; i < design.streams.size(); ++i)
      out.streams.push_back({design.streams[i].name, design.streams[i].depth, simulation.high_water(i),
                             design.streams[i].high_water});
    for (std::size_t i = 0; i < design.layers.size(); ++i) {
      const rtl::Layer& layer = design.layers[i];
      std::optional<double> busy;
      if (!system_.standstill().has_value())
        busy = simulation.busy_cycles(i) / static_cast<double>(frames_.inputs.size());
      out.layers.push_back({layer.name, layer.multiply_accumulates, layer.dsp, layer.busy_cycles, busy});
    }
    return out;
  }

  /// Measures the whole system at the host: the interval between frames, and the first frame's latency.
  void measure_system() {
    if (system_.standstill().has_value()) return;
    std::optional<std::uint64_t> begin;
    for (const Key& consumer : fed_)
      if (const auto& passages = system_.input_passages(ends_in_.at(consumer)); !passages.empty())
        begin = std::min(begin.value_or(passages[0].first), passages[0].first);
    for (const plan::Channel& channel : plan_.channels) {
      const auto end = ends_out_.find({channel.producer.partition, channel.producer.port});
      if (end == ends_out_.end() || runtime::pipeline::is_link(channel)) continue;
      const auto& passages = system_.output_passages(end->second);
      out_.measured.interval =
          larger(out_.measured.interval,
                 interval(passages, [](const rtl::FramePassage& passage) { return passage.last; }));
      if (passages.empty() || !begin) continue;
      out_.measured.latency = std::max(out_.measured.latency.value_or(0), passages[0].last - *begin);
      out_.measured.first_output =
          std::max(out_.measured.first_output.value_or(0), passages[0].first - *begin);
    }
  }

  void predict_system() {
    double interval = slowest_channel_, bound = hops_, latency = 0;
    bool played = true;
    for (std::size_t place = 0; place < out_.partitions.size(); ++place) {
      const RtlPartition& partition = out_.partitions[place];
      const double slower = out_.clock_mhz / partition.clock_mhz;
      const auto passage = static_cast<double>(designs_[place].predicted.passage);
      interval = std::max(interval, *partition.predicted.interval * slower);
      bound += static_cast<double>(*partition.predicted.latency) * slower;
      latency = std::max(latency, passage * slower);
      played = played && passage > 0;
    }
    out_.predicted.interval = interval;
    out_.predicted.latency = static_cast<std::uint64_t>(std::llround(played ? latency : bound));
    out_.latency_is_bound = out_.partitions.size() > 1 && !played;
    if (out_.partitions.size() == 1) out_.predicted.first_output = out_.partitions[0].predicted.first_output;
  }

  const VerifyCommand& command_;
  const plan::LoadedDeployment& deployment_;
  const plan::Deployment& plan_;
  const ReferenceModel& reference_;
  const VerifyFrames& frames_;
  Findings& findings_;
  RtlFindings& out_;

  rtl::System system_;
  std::vector<const plan::Partition*> card_partitions_;  // indexed by partition number
  std::vector<rtl::Design> designs_;                     // indexed by partition number
  std::map<Key, End> ends_in_, ends_out_;
  std::map<Key, Key> sources_;                                         // consumer -> producer
  std::set<Key> linked_;                                               // inputs that a cable feeds
  std::vector<Key> fed_;                                               // inputs that the host feeds
  std::map<std::pair<std::string, std::string>, std::size_t> cables_;  // name, sending card
  double slowest_channel_ = 0, hops_ = 0;                              // in clock cycles

  std::vector<std::map<Key, Buffer>> wanted_, values_;  // one element per frame
  std::set<std::pair<std::uint64_t, Key>> done_;        // (frame, input) pairs that were fed
  std::vector<bool> differs_;
  std::uint64_t given_ = 0;
};

}  // namespace

std::optional<bool> RtlFindings::reaches_interval() const {
  if (standstill) return false;
  if (stall != 0 || !measured.interval) return std::nullopt;
  return *measured.interval <= 1.01 * *predicted.interval;
}

DspUse RtlPartition::dsp_use(const RtlLayer& layer) const {
  const double work = static_cast<double>(layer.multiply_accumulates),
               slices = static_cast<double>(layer.dsp);
  DspUse use;
  if (layer.busy_cycles > 0) use.busy = work / (slices * *layer.busy_cycles);
  if (measured.interval) use.interval = work / (slices * *measured.interval);
  return use;
}

DspUse RtlPartition::dsp_use() const {
  double work = 0, slices = 0, busy = 0;
  for (const auto& layer : layers) {
    work += static_cast<double>(layer.multiply_accumulates);
    slices += static_cast<double>(layer.dsp);
    busy += static_cast<double>(layer.dsp) * layer.busy_cycles.value_or(0);
  }
  DspUse use;
  if (busy > 0) use.busy = work / busy;
  if (slices != 0 && measured.interval) use.interval = work / (slices * *measured.interval);
  return use;
}

std::vector<std::string> RtlFindings::wasteful_streams() const {
  std::vector<std::string> out;
  for (const RtlPartition& partition : partitions)
    for (const RtlStream& stream : partition.streams)
      if (stream.is_wasteful()) out.push_back(partition.name + "." + stream.name);
  return out;
}

Status run_rtl(const VerifyCommand& command, const plan::LoadedDeployment& deployment,
               const plan::Cluster& cluster, const ReferenceModel& reference, const VerifyFrames& frames,
               Findings& findings, RtlFindings& out) {
  Run run(command, deployment, reference, frames, findings, out);
  MILLRACE_TRY(run.prepare(cluster));
  MILLRACE_TRY(run.simulate());
  run.report();
  return {};
}

}  // namespace millrace::cli
