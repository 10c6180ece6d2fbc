#include "compiler/generators/first_frame.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/generators/timing.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::generators {
namespace {

using runtime::plan::packet_bytes_on_wire;
constexpr std::uint64_t kPacketBytes = runtime::plan::kPacketBytes;

/// A tensor that a stage (a partition on a card, or a part of the model on the host) has made. Times are in cycles of
/// the fastest clock.
struct Made {
  std::size_t stage = 0;
  std::vector<double> beats;  // the times at which the beats left; a single time if the host made the tensor
  std::uint64_t beat_bits = 0;  // bits per beat; 0 if the host made the tensor
};

struct Packet {
  double whole = 0;         // the time at which the packet's last beat left
  std::uint64_t bytes = 0;  // bytes on the wire
  std::size_t channel = 0, number = 0;
};

/// A tensor on its way to a port of a partition on another card.
struct Channel {
  std::size_t reader = 0, port = 0;
  std::vector<double> arrivals;  // arrival times of the packets
};

std::uint64_t frame_bits(const Design& design, const PortDesign& port) {
  const Stream& stream = design.netlist.streams[port.stream];
  return std::uint64_t{stream.lanes} * stream.bits * stream.beats;
}

class Player {
 public:
  Player(const std::vector<Stage>& stages, const Links& links) : stages_(stages), links_(links) {
    for (const auto& stage : stages) fastest_ = std::max(fastest_, stage.clock_hz);
    arrivals_.resize(stages.size());
  }

  Result<std::vector<Passage>> run() {
    std::vector<Passage> out(stages_.size());
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (stages_[s].design == nullptr)
        on_host(s);
      else
        MILLRACE_TRY(on_card(s, out[s]));
    }
    const double began = std::isfinite(began_) ? began_ : 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (stages_[s].design == nullptr) continue;
      out[s].first_output = (out[s].first_output - began) / fastest_;
      out[s].last_output = (out[s].last_output - began) / fastest_;
    }
    return out;
  }

 private:
  void on_host(std::size_t s) {
    double all = 0;
    for (const auto& tensor : stages_[s].inputs)
      if (const auto made = made_.find(tensor); made != made_.end())
        all = std::max(all, made->second.beats.back());
    all += stages_[s].host_seconds * fastest_;
    for (const auto& tensor : stages_[s].outputs) made_[tensor] = {s, {all}, 0};
  }

  Status on_card(std::size_t s, Passage& passage) {
    const Stage& stage = stages_[s];
    const Design& design = *stage.design;
    const double own = stage.clock_hz / fastest_;
    TimingOptions options;
    options.frames = 1;
    for (std::size_t i = 0; i < design.inputs.size(); ++i) {
      const PortDesign& port = design.inputs[i];
      const std::uint64_t beats = design.netlist.streams[port.stream].beats;
      std::vector<double> there(beats, 0);
      if (const auto carried = arrivals_[s].find(i); carried != arrivals_[s].end())
        there = carried->second;
      else if (const auto made = made_.find(port.tensor); made != made_.end())
        there.assign(beats, made->second.beats.back());
      auto& ticks = options.arrivals.emplace_back();
      for (const double time : there)
        ticks.push_back(static_cast<std::uint64_t>(std::ceil(time * own - 1e-9)));
    }
    MILLRACE_ASSIGN(const Timing timing, simulate(design.netlist, options));
    began_ = std::min(began_, static_cast<double>(timing.first_input_cycle) / own);
    passage.first_output = std::numeric_limits<double>::infinity();
    for (std::size_t o = 0; o < design.outputs.size(); ++o) {
      const PortDesign& port = design.outputs[o];
      const Stream& stream = design.netlist.streams[port.stream];
      Made made{s, {}, std::uint64_t{stream.lanes} * stream.bits};
      for (const auto tick : timing.departures[o]) made.beats.push_back(static_cast<double>(tick) / own);
      passage.first_output = std::min(passage.first_output, made.beats.front());
      passage.last_output = std::max(passage.last_output, made.beats.back());
      made_[port.tensor] = std::move(made);
    }
    return send(s);
  }

  /// Sends the tensors of a stage (a partition on a card, or a part of the model on the host) in packets to all later
  /// stages on other cards that read them.
  Status send(std::size_t s) {
    std::map<std::uint32_t, std::vector<Channel>> to;  // the key is the receiving card
    std::map<std::uint32_t, std::vector<Packet>> packets;
    for (std::size_t r = s + 1; r < stages_.size(); ++r) {
      const Design* reader = stages_[r].design;
      if (reader == nullptr || stages_[r].card == stages_[s].card) continue;
      for (std::size_t i = 0; i < reader->inputs.size(); ++i) {
        const auto made = made_.find(reader->inputs[i].tensor);
        if (made == made_.end() || made->second.stage != s || made->second.beat_bits == 0) continue;
        auto& channels = to[stages_[r].card];
        cut(made->second, frame_bits(*reader, reader->inputs[i]), channels.size(), packets[stages_[r].card]);
        channels.push_back({r, i, {}});
      }
    }
    for (auto& [card, channels] : to) {
      const auto link = links_.find({stages_[s].card, card});
      if (link == links_.end())
        return Error(ErrorCode::kInternal, "no cable joins the cards of partition '" +
                                               stages_[s].design->partition + "' and its readers");
      carry({stages_[s].card, card}, link->second, packets[card], channels);
      for (const auto& channel : channels) unpack(channel);
    }
    return {};
  }

  /// Cuts a tensor into packets. A packet is complete when the beat with the packet's last bit has left.
  static void cut(const Made& made, std::uint64_t bits, std::size_t channel, std::vector<Packet>& out) {
    const std::uint64_t bytes = (bits + 7) / 8;
    for (std::uint64_t begin = 0, number = 0; begin < bytes; begin += kPacketBytes, ++number) {
      const std::uint64_t payload = std::min(kPacketBytes, bytes - begin);
      const std::uint64_t last_bit = std::min(bits, (begin + payload) * 8) - 1;
      const auto beat = std::min<std::size_t>(last_bit / made.beat_bits, made.beats.size() - 1);
      out.push_back({made.beats[beat], packet_bytes_on_wire(payload), channel, number});
    }
  }

  void carry(std::pair<std::uint32_t, std::uint32_t> ends, const Link& link, std::vector<Packet>& packets,
             std::vector<Channel>& channels) {
    if (link.whole_tensors) {
      std::vector<double> complete(channels.size(), 0);
      for (const auto& packet : packets)
        complete[packet.channel] = std::max(complete[packet.channel], packet.whole);
      for (auto& packet : packets) packet.whole = complete[packet.channel];
    }
    std::stable_sort(packets.begin(), packets.end(),
                     [](const Packet& a, const Packet& b) { return a.whole < b.whole; });
    double& free = free_[ends];
    for (const auto& packet : packets) {
      // Sending begins one cycle after the packet's last beat or, if later, when the previous packet has been sent.
      const double start = packet.whole + 1 <= std::ceil(free) ? free : packet.whole + 1;
      free = start + static_cast<double>(packet.bytes) / link.bytes_per_second * fastest_;
      // A packet arrives at the earliest in the cycle after its last bit was sent.
      channels[packet.channel].arrivals.push_back(
          std::max(free + link.latency_seconds * fastest_, std::ceil(free) + 1));
    }
    if (!link.whole_tensors) return;
    for (auto& channel : channels)
      std::fill(channel.arrivals.begin(), channel.arrivals.end(), channel.arrivals.back());
  }

  /// Computes when a tensor's beats arrive: each arrives with the packet that contains the beat's last bit.
  void unpack(const Channel& channel) {
    const Design& reader = *stages_[channel.reader].design;
    const Stream& stream = reader.netlist.streams[reader.inputs[channel.port].stream];
    const std::uint64_t beat_bits = std::uint64_t{stream.lanes} * stream.bits;
    auto& times = arrivals_[channel.reader][channel.port];
    for (std::uint64_t beat = 0; beat < stream.beats; ++beat) {
      const std::uint64_t packet = ((beat + 1) * beat_bits - 1) / (kPacketBytes * 8);
      times.push_back(channel.arrivals[std::min<std::size_t>(packet, channel.arrivals.size() - 1)]);
    }
  }

  const std::vector<Stage>& stages_;
  const Links& links_;
  double fastest_ = 1, began_ = std::numeric_limits<double>::infinity();
  std::map<std::string, Made> made_;                                  // the key is the tensor's name
  std::vector<std::map<std::size_t, std::vector<double>>> arrivals_;  // times of beats, by stage and by port
  /// For each direction of a cable, the time at which it is free again.
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> free_;
};

}  // namespace

Result<std::vector<Passage>> play_first_frame(const std::vector<Stage>& stages, const Links& links) {
  return Player(stages, links).run();
}

}  // namespace millrace::compiler::generators
