#include "runtime/rtl/system.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/plan/cluster.hpp"
#include "runtime/rtl/bits.hpp"
#include "runtime/rtl/executor.hpp"

namespace millrace::runtime::rtl {

namespace {

constexpr std::uint64_t kProgressCycles = 4096;

std::uint64_t threshold_of(double probability) {
  return static_cast<std::uint64_t>(std::ldexp(std::clamp(probability, 0.0, 1.0), 53)) << 11U;
}

/// Models the packets of a channel. The model only counts bits; the data stays in the sender's frames.
struct Packets {
  Packets(std::uint64_t bits_of_frame, std::uint32_t packet_bytes, std::uint32_t most_credits)
      : frame_bits(bits_of_frame),
        packet_bits(std::uint64_t{packet_bytes} * 8),
        packets_a_frame((frame_bits + packet_bits - 1) / packet_bits),
        credits(most_credits) {}

  std::uint64_t begin_of(std::uint64_t packet) const {
    return packet / packets_a_frame * frame_bits + packet % packets_a_frame * packet_bits;
  }
  std::uint64_t end_of_previous(std::uint64_t packet) const {
    return packet % packets_a_frame == 0 ? packet / packets_a_frame * frame_bits : begin_of(packet);
  }
  bool has_room() const { return accepted - begin_of(sent) < 2 * packet_bits; }
  bool is_whole(std::uint64_t packet) const { return accepted >= end_of_previous(packet + 1); }
  std::uint64_t readable() const { return end_of_previous(arrived) - read; }
  void take(std::uint64_t bits, double now, double latency) {
    read += bits;
    for (; freed < arrived && end_of_previous(freed + 1) <= read; ++freed) returns.push_back(now + latency);
  }

  const std::uint64_t frame_bits, packet_bits, packets_a_frame, credits;
  std::uint64_t accepted = 0, read = 0;               // numbers of bits
  std::uint64_t sent = 0, arrived = 0, returned = 0;  // numbers of packets; sent: the last bit left
  std::uint64_t freed = 0;                            // number of packets that were read completely
  std::uint64_t starved = 0;                          // cycles in which a complete packet waited for credit
  std::deque<double> arrivals, returns;               // ascending times at which packets and credits arrive
};

}  // namespace

struct System::Channel {
  std::string name;
  Packets packets;
  Cable* cable = nullptr;
  Frames frames;  // the sender appends to the last frame, the receiver reads the first
};

/// One direction of a cable. Times are in cycles of the simulated clock.
struct System::Cable {
  /// Simulates one cycle of the clock, at time `now`. Returns true if a packet left or arrived.
  bool advance(double now);
  bool begin_packet(double at);

  std::string name;
  double gigabits_per_second, latency_ns;
  double bits_per_cycle = 0, latency_cycles = 0;  // computed once all clocks are known
  std::vector<Packets*> channels;
  std::size_t next = 0;
  Packets* sending = nullptr;
  double free_at = 0;  // when the last bit of the latest packet leaves the sender
  double busy = 0;
};

bool System::Cable::advance(double now) {
  bool moved = false;
  for (Packets* channel : channels) {
    for (; !channel->arrivals.empty() && channel->arrivals.front() <= now; moved = true) {
      channel->arrivals.pop_front();
      ++channel->arrived;
    }
    for (; !channel->returns.empty() && channel->returns.front() <= now; moved = true) {
      channel->returns.pop_front();
      ++channel->returned;
    }
  }
  // If the simulated clock is slow, several packets may end within one of its cycles.
  while (sending != nullptr && free_at <= now) {
    sending->arrivals.push_back(free_at + latency_cycles);
    ++sending->sent;
    sending = nullptr;
    moved = true;
    begin_packet(free_at);
  }
  if (sending == nullptr) moved |= begin_packet(now);
  return moved;
}

bool System::Cable::begin_packet(double at) {
  for (std::size_t i = 0; i < channels.size(); ++i) {
    Packets& channel = *channels[(next + i) % channels.size()];
    if (!channel.is_whole(channel.sent)) continue;
    if (channel.sent - channel.returned >= channel.credits) {
      ++channel.starved;
      continue;
    }
    const std::uint64_t payload = channel.end_of_previous(channel.sent + 1) - channel.begin_of(channel.sent);
    const double bits = static_cast<double>(plan::packet_bytes_on_wire((payload + 7) / 8)) * 8;
    const double duration = bits / bits_per_cycle;
    next = (next + i + 1) % channels.size();
    sending = &channel;
    free_at = at + duration;
    busy += duration;
    return true;
  }
  return false;
}

System::System(const SystemOptions& options)
    : options_(options), threshold_(threshold_of(options.stall)), random_(options.seed) {}
System::~System() = default;

std::size_t System::add_partition(std::string name, std::unique_ptr<Simulation> simulation,
                                  double clock_mhz) {
  simulation->stall_memory(options_.stall, options_.seed + parts_.size());
  Part& part = parts_.emplace_back();
  for (const Port& port : simulation->design().inputs) {
    Input& input = part.inputs.emplace_back();
    input.beat_bits = port.beat_bits();
    input.beats = port.beats;
  }
  for (const Port& port : simulation->design().outputs) {
    Output& output = part.outputs.emplace_back();
    output.beat_bits = port.beat_bits();
    output.beats = port.beats;
    output.frame.resize((port.beat_bits() * port.beats + 7) / 8);
  }
  part.name = std::move(name);
  part.clock_mhz = clock_mhz;
  part.simulation = std::move(simulation);
  clock_mhz_ = std::max(clock_mhz_, clock_mhz);
  return parts_.size() - 1;
}

std::size_t System::add_cable(std::string name, double gigabits_per_second, double latency_ns) {
  cables_.push_back(std::make_unique<Cable>());
  cables_.back()->name = std::move(name);
  cables_.back()->gigabits_per_second = gigabits_per_second;
  cables_.back()->latency_ns = latency_ns;
  return cables_.size() - 1;
}

std::size_t System::add_channel(std::string name, End output, End input, std::size_t cable,
                                PacketSize packets) {
  Input& to = parts_[input.partition].inputs[input.port];
  channels_.push_back(
      std::make_unique<Channel>(Channel{std::move(name),
                                        Packets(to.beat_bits * to.beats, packets.bytes, packets.credits),
                                        cables_[cable].get(),
                                        {}}));
  to.channel = channels_.back().get();
  cables_[cable]->channels.push_back(&to.channel->packets);
  parts_[output.partition].outputs[output.port].channels.push_back(to.channel);
  return channels_.size() - 1;
}

void System::feed(End input, std::vector<std::byte> packed) {
  parts_[input.partition].inputs[input.port].fed.push_back(std::move(packed));
}

/// How many cycles may pass in which no data moves before the simulation counts as stuck.
std::uint64_t System::patience() const {
  std::uint64_t patience = 10'000;
  for (const Part& part : parts_) {
    const Cycles& predicted = part.simulation->design().predicted;
    const double slower = clock_mhz_ / part.clock_mhz;
    patience +=
        static_cast<std::uint64_t>(2 * slower * static_cast<double>(predicted.latency + predicted.interval));
  }
  for (const auto& cable : cables_) patience += static_cast<std::uint64_t>(4 * cable->latency_cycles);
  return static_cast<std::uint64_t>(static_cast<double>(patience) / (1 - options_.stall));
}

Status System::check_assertions() const {
  for (const Part& part : parts_)
    if (const std::string failed = part.simulation->failure(); !failed.empty())
      return Error(ErrorCode::kInternal,
                   "partition '" + part.name + "', before cycle " + std::to_string(now_) + ": " + failed);
  return {};
}

Status System::run(std::uint64_t frames, const OnFrame& on_frame, const std::function<void()>& progress) {
  for (const auto& cable : cables_) {
    cable->bits_per_cycle = cable->gigabits_per_second * 1000 / clock_mhz_;
    cable->latency_cycles = cable->latency_ns * clock_mhz_ / 1000;
  }
  const std::uint64_t most = patience();
  moved_at_ = now_;
  while (!is_finished(frames)) {
    for (const auto& cable : cables_)
      if (cable->advance(static_cast<double>(now_))) moved_at_ = now_;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].phase += parts_[i].clock_mhz;
      if (parts_[i].phase < clock_mhz_) continue;
      parts_[i].phase -= clock_mhz_;
      tick(i, on_frame);
    }
    ++now_;
    if (now_ - moved_at_ > most) {
      stand_still();
      return {};
    }
    if (now_ % kProgressCycles != 0) continue;
    if (progress) progress();
    MILLRACE_TRY(check_assertions());
  }
  return check_assertions();
}

void System::tick(std::size_t partition, const OnFrame& on_frame) {
  Part& part = parts_[partition];
  Simulation& simulation = *part.simulation;
  for (std::size_t i = 0; i < part.inputs.size(); ++i) offer(part.inputs[i], simulation.input(i));
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    const auto& channels = part.outputs[i].channels;
    const bool room = std::all_of(channels.begin(), channels.end(),
                                  [](const Channel* channel) { return channel->packets.has_room(); });
    *simulation.output(i).ready = room && !stalls() ? 1 : 0;
  }
  simulation.settle();
  for (std::size_t i = 0; i < part.inputs.size(); ++i)
    if (*simulation.input(i).valid != 0 && *simulation.input(i).ready != 0) take(part, part.inputs[i]);
  for (std::size_t i = 0; i < part.outputs.size(); ++i)
    if (*simulation.output(i).valid != 0 && *simulation.output(i).ready != 0)
      accept({partition, i}, on_frame);
  simulation.tick();
  ++part.ticks;
}

void System::offer(Input& input, const abi::Port& port) {
  if (!input.offered) {
    const Frames& frames = input.channel != nullptr ? input.channel->frames : input.fed;
    const bool here =
        !frames.empty() && (input.channel == nullptr || input.channel->packets.readable() >= input.beat_bits);
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
  Channel* const channel = input.channel;
  if (channel != nullptr)
    channel->packets.take(input.beat_bits, static_cast<double>(now_), channel->cable->latency_cycles);
  if (++input.beat < input.beats) return;
  input.beat = 0;
  (channel != nullptr ? channel->frames : input.fed).pop_front();
}

void System::accept(End end, const OnFrame& on_frame) {
  Part& part = parts_[end.partition];
  Output& output = part.outputs[end.port];
  moved_at_ = now_;
  const std::uint8_t* data = part.simulation->output(end.port).data;
  if (output.beat == 0) {
    output.passages.push_back({now_, now_, part.ticks, part.ticks});
    std::fill(output.frame.begin(), output.frame.end(), std::byte{0});
    for (Channel* channel : output.channels) channel->frames.emplace_back(output.frame.size());
  }
  copy_bits_in(data, output.beat_bits, output.frame.data(), output.beat * output.beat_bits);
  for (Channel* channel : output.channels) {
    copy_bits_in(data, output.beat_bits, channel->frames.back().data(), output.beat * output.beat_bits);
    channel->packets.accepted += output.beat_bits;
  }
  output.passages.back().last = now_;
  output.passages.back().last_of_own = part.ticks;
  if (++output.beat < output.beats) return;
  output.beat = 0;
  ++output.whole;
  on_frame(end, output.whole - 1, output.frame);
}

bool System::is_finished(std::uint64_t frames) const {
  return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return std::all_of(part.outputs.begin(), part.outputs.end(),
                       [&](const Output& output) { return output.whole >= frames; });
  });
}

void System::stand_still() {
  Standstill still;
  still.cycle = moved_at_;
  for (const Part& part : parts_) {
    const auto& design = part.simulation->design();
    still.message += (still.message.empty() ? "" : "\n") + std::string("  ") + part.name + ": ";
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      const Input& input = part.inputs[i];
      still.message += design.inputs[i].name +
                       (input.offered ? " is offered a beat but does not accept it" : " receives no beat") +
                       " (" + std::to_string(input.beat) + " of " + std::to_string(input.beats) +
                       " taken of frame " +
                       std::to_string(input.passages.size() - (input.beat != 0 ? 1 : 0)) + "); ";
    }
    for (std::size_t i = 0; i < part.outputs.size(); ++i)
      still.message += design.outputs[i].name + " gave " + std::to_string(part.outputs[i].whole) +
                       " frames and " + std::to_string(part.outputs[i].beat) + " beats; ";
    still.message += "streams: " + waiting_streams(*part.simulation);
    for (std::size_t i = 0; i < design.streams.size(); ++i) {
      const auto state = part.simulation->state(i);
      if (state == Simulation::StreamState::kFull || state == Simulation::StreamState::kWaiting)
        still.streams.push_back(part.name + "." + design.streams[i].name);
    }
  }
  standstill_ = std::move(still);
}

std::vector<System::ChannelReport> System::channels() const {
  std::vector<ChannelReport> out;
  for (const auto& channel : channels_) {
    const Packets& packets = channel->packets;
    const double busy = now_ == 0 ? 0 : channel->cable->busy / static_cast<double>(now_);
    out.push_back({channel->name, channel->cable->name, packets.sent, packets.end_of_previous(packets.sent),
                   packets.starved, std::min(1.0, busy)});
  }
  return out;
}

}  // namespace millrace::runtime::rtl
