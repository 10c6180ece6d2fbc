#include "runtime/plan/transceivers.hpp"

#include <algorithm>

#include "runtime/base/text.hpp"

namespace millrace::runtime::plan {
namespace {

constexpr std::uint64_t kMaxLanes = 4;      // of a QSFP cable
constexpr double kMaxLaneGigabits = 32.75;  // the quickest transceiver (GTY) of UltraScale+

Result<Quad> read_quad(const yaml::Node& node, const std::string& file, const std::vector<Region>& regions) {
  MILLRACE_ASSIGN(const auto map,
                  yaml::Mapping::of(node, file, "quad", {"port", "reference_clock", "region"}));
  Quad quad;
  MILLRACE_ASSIGN(quad.port, map.text("port"));
  MILLRACE_ASSIGN(quad.reference_clock, map.text("reference_clock"));
  for (const auto& [key, name] :
       {std::pair("port", quad.port), std::pair("reference_clock", quad.reference_clock)})
    if (name.empty()) return map.error(key, "is empty; give the platform's name of the port");
  MILLRACE_ASSIGN(quad.region, map.text("region", ""));
  const auto is_named = [&](const Region& region) { return region.name == quad.region; };
  if (!quad.region.empty() && std::none_of(regions.begin(), regions.end(), is_named))
    return map.error("region", "the device has no region '" + quad.region + "'");
  return quad;
}

}  // namespace

Result<Transceivers> read_transceivers(const yaml::Mapping& device, const std::string& file,
                                       const std::vector<Region>& regions) {
  Transceivers out;
  const yaml::Node* const node = device.find("transceivers");
  if (node == nullptr) return out;
  MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(*node, file, "transceivers",
                                                    {"lanes", "gigabits_per_second", "reference_mhz",
                                                     "free_clock", "quads"}));
  MILLRACE_ASSIGN(const std::uint64_t lanes, map.integer("lanes"));
  if (lanes == 0 || lanes > kMaxLanes)
    return map.error("lanes", "must be 1 to " + std::to_string(kMaxLanes) + ", the lanes of a QSFP cable");
  out.lanes = static_cast<std::uint32_t>(lanes);
  MILLRACE_ASSIGN(out.lane_gigabits_per_second, map.number("gigabits_per_second"));
  if (!(out.lane_gigabits_per_second > 0) || out.lane_gigabits_per_second > kMaxLaneGigabits)
    return map.error("gigabits_per_second", "is the line rate of one lane; it must be above 0 and at most " +
                                                number_text(kMaxLaneGigabits));
  MILLRACE_ASSIGN(out.reference_mhz, map.number("reference_mhz"));
  if (!(out.reference_mhz >= 60) || out.reference_mhz > 820)
    return map.error("reference_mhz", "must be 60 to 820, the range of a transceiver's reference clock");
  MILLRACE_ASSIGN(out.free_clock, map.text("free_clock"));
  if (out.free_clock.empty())
    return map.error("free_clock", "is empty; give the platform's name of its 100 MHz clock");
  MILLRACE_ASSIGN(const auto* quads, map.sequence("quads"));
  if (quads->empty())
    return map.error("quads", "at least one quad is needed; if there is none, leave 'transceivers' out");
  for (const auto& one : *quads) {
    MILLRACE_ASSIGN(Quad quad, read_quad(one, file, regions));
    for (const Quad& other : out.quads)
      if (other.port == quad.port) return map.error("quads", "port '" + quad.port + "' is used twice");
    out.quads.push_back(std::move(quad));
  }
  return out;
}

double Transceivers::core_mhz() const {
  return core_gigabits_per_second() * 1000 / (8 * kPacketWordBytes);
}

void limit_rate(Cable& cable, const Device& a, const Device& b) {
  if (cable.protocol != CableProtocol::kAurora) return;
  const auto lower = [&](double rate, const std::string& what) {
    if (rate >= cable.gigabits_per_second) return;
    cable.gigabits_per_second = rate;
    cable.limit = what;
  };
  for (const Device* device : {&a, &b}) {
    const Transceivers& has = device->transceivers;
    if (has.lanes > 0)
      lower(has.core_gigabits_per_second(), "the Aurora core of device " + device->name + " (" +
                                                std::to_string(has.lanes) +
                                                (has.lanes == 1 ? " lane" : " lanes") + " at " +
                                                number_text(has.lane_gigabits_per_second) + " Gbit/s)");
    constexpr std::uint32_t kPortBits = 8 * kPacketWordBytes;
    if (device->clock_mhz > 0)
      lower(kPortBits * device->clock_mhz / 1000, "the link port of device " + device->name + " (" +
                                                      std::to_string(kPortBits) + " bits at " +
                                                      number_text(device->clock_mhz) + " MHz)");
  }
}

}  // namespace millrace::runtime::plan
