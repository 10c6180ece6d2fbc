#include "tools/cli/verify_udp.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "runtime/base/digest.hpp"

namespace millrace::cli {

extern const std::string_view kUdpChannelTemplate;  // the content of udp_channel.sv.in

namespace json = boost::json;
namespace plan = runtime::plan;
namespace rtl = runtime::rtl;

namespace {

constexpr std::uint32_t kMostSlots = 64;  // of mr_udp_send and mr_udp_receive
constexpr std::uint32_t kWordBytes = 64;  // of the streams of a UDP network layer
// The simulated cable has a register for each cycle of its latency, and counts 65,536ths of a cycle in 32 bits.
constexpr double kMostLatencyCycles = 1 << 16;
constexpr double kMostCyclesOfByte = 1 << 14;

std::string filled(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    const std::string mark = "@" + name + "@";
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
      text.replace(at, mark.size(), value);
  }
  return text;
}

json::object port_json(const rtl::Port& port, const char* name) {
  using Kind = kernels::ElementType::Kind;
  return {{"port", name},
          {"tensor", port.tensor},
          {"kind", port.kind == Kind::kUnsigned ? "unsigned"
                   : port.kind == Kind::kSigned ? "signed"
                                                : "bipolar"},
          {"lanes", port.lanes},
          {"bits", port.bits},
          {"beats", port.beats}};
}

}  // namespace

bool has_udp_hardware(const plan::Deployment& plan, const plan::Channel& channel, const plan::Cable& cable,
                      double clock_mhz) {
  const auto has_other_links = [&](const std::string& partition) {
    return std::any_of(plan.channels.begin(), plan.channels.end(), [&](const plan::Channel& other) {
      return other.transport == plan::Transport::kAurora &&
             (other.producer.partition == partition || other.consumer.partition == partition);
    });
  };
  const bool cuts_at_words =
      channel.packet_bytes % kWordBytes == 0 || channel.packet_bytes >= channel.frame_bytes;
  const bool fits_cable = cable.latency_ns * clock_mhz / 1000 <= kMostLatencyCycles &&
                          8 * clock_mhz / (cable.gigabits_per_second * 1000) <= kMostCyclesOfByte;
  return channel.transport == plan::Transport::kUdp && channel.credits <= kMostSlots && cuts_at_words &&
         fits_cable && !has_other_links(channel.producer.partition) &&
         !has_other_links(channel.consumer.partition);
}

Result<rtl::Source> udp_channel_source(const rtl::Source& sender, const rtl::Source& receiver,
                                       const rtl::Port& from, const rtl::Port& to,
                                       const plan::Channel& channel, const plan::Cable& cable,
                                       double clock_mhz, std::size_t number) {
  const double cycles_of_byte = 8 * clock_mhz / (cable.gigabits_per_second * 1000);
  const auto latency = static_cast<std::uint64_t>(std::ceil(cable.latency_ns * clock_mhz / 1000));
  const std::uint64_t packet = (channel.packet_bytes + kWordBytes - 1) / kWordBytes * kWordBytes;
  const std::string name = "udp_channel" + std::to_string(number);
  const std::map<std::string, std::string> values{
      {"NAME", name},
      {"CHANNEL", std::to_string(number)},
      {"IN_BITS", std::to_string(from.beat_bits())},
      {"OUT_BITS", std::to_string(to.beat_bits())},
      {"IN_LANES", std::to_string(from.lanes)},
      {"OUT_LANES", std::to_string(to.lanes)},
      {"IN_BEATS", std::to_string(from.beats)},
      {"OUT_BEATS", std::to_string(to.beats)},
      {"BITS", std::to_string(from.bits)},
      {"PACKET", std::to_string(packet)},
      {"BYTES", std::to_string(channel.packet_bytes)},
      {"CREDITS", std::to_string(channel.credits)},
      {"SLOTS", std::to_string(std::max(2U, std::bit_ceil(channel.credits)))},
      {"CLOCK", std::to_string(std::llround(clock_mhz))},
      {"LATENCY", std::to_string(std::max<std::uint64_t>(latency, 1))},
      {"COST", std::to_string(std::llround(cycles_of_byte * 65536))},
      {"OVERHEAD", std::to_string(plan::kDatagramOverheadBytes - plan::kLinkHeaderBytes)}};
  rtl::Source source;
  for (const rtl::Source* partition : {&sender, &receiver})
    for (const auto& [path, content] : partition->files)
      if (path.starts_with("library/")) source.files[path] = content;
  for (const char* module : {"mr_udp_send", "mr_udp_receive", "mr_udp_in", "mr_udp_out"})
    if (!source.files.contains("library/" + std::string(module) + ".sv"))
      return Error(ErrorCode::kCorrupt, "channel '" + channel.name + "': the deployment lacks the module " +
                                            module + "; compile the model again");
  source.files[name + ".sv"] = filled(std::string(kUdpChannelTemplate), values);
  std::string lines;
  for (const auto& [path, content] : source.files) lines += sha256_hex(content) + "  " + path + "\n";
  // The first packet waits for the greeting: some round trips and the processing of four datagrams.
  const auto frame_cycles = static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(plan::frame_bytes_on_udp(channel.frame_bytes, channel.packet_bytes)) *
                cycles_of_byte));
  const std::uint64_t predicted = frame_cycles + 6 * latency + from.beats + to.beats + 1000;
  source.design_json =
      json::serialize(json::object{{"schema", 1},
                                   {"partition", name},
                                   {"dataflow", name},
                                   {"clock_mhz", clock_mhz},
                                   {"digest", sha256_hex(lines)},
                                   {"inputs", json::array{port_json(from, "in0")}},
                                   {"outputs", json::array{port_json(to, "out0")}},
                                   {"streams", json::array{}},
                                   {"predicted",
                                    {{"interval_cycles", std::max<std::uint64_t>(frame_cycles, 1)},
                                     {"latency_cycles", predicted},
                                     {"first_output_cycles", predicted}}}});
  MILLRACE_ASSIGN(source.design, rtl::parse_design(source.design_json));
  return source;
}

}  // namespace millrace::cli
