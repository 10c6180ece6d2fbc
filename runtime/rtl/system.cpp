#include "runtime/rtl/system.hpp"

#include <algorithm>
#include <cmath>
#include <deque>

#include "runtime/rtl/bits.hpp"
#include "runtime/rtl/executor.hpp"

namespace millrace::runtime::rtl {

namespace {

constexpr std::uint64_t kProgressCycles = 4096;

std::uint64_t threshold_of(double probability) {
  return static_cast<std::uint64_t>(std::ldexp(std::clamp(probability, 0.0, 1.0), 53)) << 11U;
}

/// Frames that wait to be read. The first one may be read in part.
using Frames = std::deque<std::vector<std::byte>>;

}  // namespace

struct System::Channel {
  std::string name;
  LinkChannel link;
  std::size_t cable = 0;
  Frames frames;  // the sender fills the last one, the receiver reads the first
};

struct System::Input {
  std::uint64_t beat_bits = 0, beats = 0, beat = 0;
  Frames fed;                  // by the host
  Channel* channel = nullptr;  // or from another partition
  bool offered = false;
  std::vector<FramePassage> passages;
};

struct System::Output {
  std::uint64_t beat_bits = 0, beats = 0, beat = 0;
  std::vector<std::byte> frame;
  std::vector<Channel*> channels;
  std::vector<FramePassage> passages;  // if beat > 0, the last one is under way
  std::uint64_t whole = 0;             // complete frames
};

struct System::Part {
  std::string name;
  std::unique_ptr<Simulation> simulation;
  double clock_mhz = 0, phase = 0;
  std::uint64_t ticks = 0;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

System::System(const SystemOptions& options)
    : options_(options), threshold_(threshold_of(options.stall)), random_(options.seed) {}
System::~System() = default;

std::size_t System::add_partition(std::string name, std::unique_ptr<Simulation> simulation,
                                  double clock_mhz) {
  auto part = std::make_unique<Part>();
  part->name = std::move(name);
  part->clock_mhz = clock_mhz;
  for (const Port& port : simulation->design().inputs) {
    Input& input = part->inputs.emplace_back();
    input.beat_bits = port.beat_bits();
    input.beats = port.beats;
  }
  for (const Port& port : simulation->design().outputs) {
    Output& output = part->outputs.emplace_back();
    output.beat_bits = port.beat_bits();
    output.beats = port.beats;
    output.frame.resize((port.beat_bits() * port.beats + 7) / 8);
  }
  simulation->stall_memory(options_.stall, options_.seed + parts_.size());
  part->simulation = std::move(simulation);
  clock_mhz_ = std::max(clock_mhz_, clock_mhz);
  parts_.push_back(std::move(part));
  return parts_.size() - 1;
}

std::size_t System::add_cable(std::string name, double gigabits_per_second, double latency_ns) {
  cables_.push_back(std::make_unique<CableDirection>(CableModel{std::move(name), 0, 0}));
  cable_figures_.emplace_back(gigabits_per_second, latency_ns);
  return cables_.size() - 1;
}

std::size_t System::add_channel(std::string name, End output, End input, std::size_t cable, Packets packets) {
  Input& to = parts_[input.partition]->inputs[input.port];
  channels_.push_back(std::make_unique<Channel>(Channel{
      std::move(name), LinkChannel(to.beat_bits * to.beats, packets.bytes, packets.credits), cable, {}}));
  to.channel = channels_.back().get();
  parts_[output.partition]->outputs[output.port].channels.push_back(to.channel);
  return channels_.size() - 1;
}

void System::feed(End input, std::vector<std::byte> packed) {
  parts_[input.partition]->inputs[input.port].fed.push_back(std::move(packed));
}

Status System::run(std::uint64_t frames, const OnFrame& on_frame, const std::function<void()>& progress) {
  for (std::size_t i = 0; i < cables_.size(); ++i) {
    const auto [gigabits, nanoseconds] = cable_figures_[i];
    *cables_[i] = CableDirection(
        {cables_[i]->model().name, gigabits * 1000 / clock_mhz_, nanoseconds * clock_mhz_ / 1000});
  }
  for (const auto& channel : channels_) cables_[channel->cable]->add(channel->link);
  std::uint64_t patience = options_.patience;
  if (patience == 0) {
    patience = 10'000;
    for (const auto& part : parts_) {
      const Cycles& predicted = part->simulation->design().predicted;
      const double slower = clock_mhz_ / part->clock_mhz;
      patience += static_cast<std::uint64_t>(2 * slower *
                                             static_cast<double>(predicted.latency + predicted.interval));
    }
    for (const auto& cable : cables_)
      patience += static_cast<std::uint64_t>(4 * cable->model().latency_cycles);
    patience = static_cast<std::uint64_t>(static_cast<double>(patience) / (1 - options_.stall));
  }
  moved_at_ = now_;
  while (!is_finished(frames)) {
    for (const auto& cable : cables_)
      if (cable->advance(static_cast<double>(now_))) moved_at_ = now_;
    for (const auto& part : parts_) {
      part->phase += part->clock_mhz;
      if (part->phase < clock_mhz_) continue;
      part->phase -= clock_mhz_;
      tick(*part, on_frame);
    }
    ++now_;
    if (now_ - moved_at_ > patience) {
      stand_still();
      return {};
    }
    if (now_ % kProgressCycles != 0) continue;
    if (progress) progress();
    for (const auto& part : parts_)
      if (const std::string failed = part->simulation->failure(); !failed.empty())
        return Error(ErrorCode::kInternal,
                     "partition '" + part->name + "', before cycle " + std::to_string(now_) + ": " + failed);
  }
  for (const auto& part : parts_)
    if (const std::string failed = part->simulation->failure(); !failed.empty())
      return Error(ErrorCode::kInternal, "partition '" + part->name + "': " + failed);
  return {};
}

void System::tick(Part& part, const OnFrame& on_frame) {
  Simulation& simulation = *part.simulation;
  for (std::size_t i = 0; i < part.inputs.size(); ++i) offer(part, part.inputs[i], simulation.input(i));
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    const auto& channels = part.outputs[i].channels;
    const bool room = std::all_of(channels.begin(), channels.end(),
                                  [](const Channel* channel) { return channel->link.has_room(); });
    *simulation.output(i).ready = room && !stalls() ? 1 : 0;
  }
  simulation.settle();
  const auto number = static_cast<std::size_t>(
      std::find_if(parts_.begin(), parts_.end(), [&](const auto& other) { return other.get() == &part; }) -
      parts_.begin());
  for (std::size_t i = 0; i < part.inputs.size(); ++i)
    if (*simulation.input(i).valid != 0 && *simulation.input(i).ready != 0) take(part, part.inputs[i]);
  for (std::size_t i = 0; i < part.outputs.size(); ++i)
    if (*simulation.output(i).valid != 0 && *simulation.output(i).ready != 0) accept(number, i, on_frame);
  simulation.tick();
  ++part.ticks;
}

void System::offer(Part&, Input& input, const abi::Port& port) {
  if (!input.offered) {
    const Frames& frames = input.channel != nullptr ? input.channel->frames : input.fed;
    const bool here =
        !frames.empty() && (input.channel == nullptr || input.channel->link.readable() >= input.beat_bits);
    if (here && !stalls()) {
      copy_bits_out(frames.front().data(), input.beat * input.beat_bits, input.beat_bits, port.data);
      input.offered = true;
    }
  }
  *port.valid = input.offered ? 1 : 0;
}

void System::take(Part& part, Input& input) {
  moved_at_ = now_;
  input.offered = false;
  if (input.beat == 0) input.passages.push_back({now_, now_, part.ticks, part.ticks});
  input.passages.back().last = now_;
  input.passages.back().last_of_own = part.ticks;
  if (input.channel != nullptr) {
    const CableDirection& cable = *cables_[input.channel->cable];
    input.channel->link.take(input.beat_bits, static_cast<double>(now_), cable.model().latency_cycles);
  }
  if (++input.beat < input.beats) return;
  input.beat = 0;
  (input.channel != nullptr ? input.channel->frames : input.fed).pop_front();
}

void System::accept(std::size_t partition, std::size_t port, const OnFrame& on_frame) {
  Part& part = *parts_[partition];
  Output& output = part.outputs[port];
  moved_at_ = now_;
  const std::uint8_t* data = part.simulation->output(port).data;
  if (output.beat == 0) {
    output.passages.push_back({now_, now_, part.ticks, part.ticks});
    std::fill(output.frame.begin(), output.frame.end(), std::byte{0});
    for (Channel* channel : output.channels) channel->frames.emplace_back(output.frame.size());
  }
  copy_bits_in(data, output.beat_bits, output.frame.data(), output.beat * output.beat_bits);
  for (Channel* channel : output.channels) {
    copy_bits_in(data, output.beat_bits, channel->frames.back().data(), output.beat * output.beat_bits);
    channel->link.accept(output.beat_bits);
  }
  output.passages.back().last = now_;
  output.passages.back().last_of_own = part.ticks;
  if (++output.beat < output.beats) return;
  output.beat = 0;
  ++output.whole;
  on_frame({partition, port}, output.whole - 1, output.frame);
}

bool System::is_finished(std::uint64_t frames) const {
  return std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) {
    return std::all_of(part->outputs.begin(), part->outputs.end(),
                       [&](const Output& output) { return output.whole >= frames; });
  });
}

void System::stand_still() {
  Standstill still;
  still.cycle = moved_at_;
  for (const auto& part : parts_) {
    const auto& design = part->simulation->design();
    still.message += (still.message.empty() ? "" : "\n") + std::string("  ") + part->name + ": ";
    for (std::size_t i = 0; i < part->inputs.size(); ++i)
      still.message +=
          design.inputs[i].name +
          (part->inputs[i].offered ? " is offered a beat and does not take it" : " gets no beat") + " (" +
          std::to_string(part->inputs[i].beat) + " of " + std::to_string(part->inputs[i].beats) +
          " taken of frame " +
          std::to_string(part->inputs[i].passages.size() - (part->inputs[i].beat != 0 ? 1 : 0)) + "); ";
    for (std::size_t i = 0; i < part->outputs.size(); ++i)
      still.message += design.outputs[i].name + " gave " + std::to_string(part->outputs[i].whole) +
                       " frames and " + std::to_string(part->outputs[i].beat) + " beats; ";
    still.message += "streams: " + waiting_streams(*part->simulation);
    for (std::size_t i = 0; i < design.streams.size(); ++i) {
      const auto state = part->simulation->state(i);
      if (state == Simulation::StreamState::kFull || state == Simulation::StreamState::kWaiting)
        still.streams.push_back(part->name + "." + design.streams[i].name);
    }
  }
  standstill_ = std::move(still);
}

const Simulation& System::simulation(std::size_t partition) const {
  return *parts_[partition]->simulation;
}
const std::string& System::name(std::size_t partition) const {
  return parts_[partition]->name;
}
double System::clock_mhz(std::size_t partition) const {
  return parts_[partition]->clock_mhz;
}
const std::vector<FramePassage>& System::input_passages(End input) const {
  return parts_[input.partition]->inputs[input.port].passages;
}
const std::vector<FramePassage>& System::output_passages(End output) const {
  return parts_[output.partition]->outputs[output.port].passages;
}

std::vector<System::ChannelReport> System::channels() const {
  std::vector<ChannelReport> out;
  for (const auto& channel : channels_) {
    const CableDirection& cable = *cables_[channel->cable];
    out.push_back({channel->name, cable.model().name, channel->link.packets(), channel->link.bits(),
                   channel->link.starved_cycles(),
                   now_ == 0 ? 0 : std::min(1.0, cable.busy_cycles() / static_cast<double>(now_))});
  }
  return out;
}

}  // namespace millrace::runtime::rtl
