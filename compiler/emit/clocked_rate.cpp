#include "compiler/emit/clocked_rate.hpp"

#include <algorithm>

#include "compiler/emit/communication.hpp"
#include "compiler/generators/shell.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::emit {
namespace {

using namespace runtime::plan;

/// Finds the slowest of several rates.
class Slowest {
 public:
  void add(const std::string& what, std::uint64_t cycles, double clock_mhz) {
    if (cycles == 0 || !(clock_mhz > 0)) return;
    const double rate = clock_mhz * 1e6 / static_cast<double>(cycles);
    if (found_ && found_->frames_per_second <= rate) return;
    found_ = {rate, what + " (" + std::to_string(cycles) + " cycles a frame at " + number_text(clock_mhz) +
                        " MHz)"};
  }
  const std::optional<ClockedRate>& found() const { return found_; }

 private:
  std::optional<ClockedRate> found_;
};

std::uint64_t words(std::uint64_t bytes, std::uint64_t word_bytes) {
  return (bytes + word_bytes - 1) / word_bytes;
}

}  // namespace

std::optional<ClockedRate> clocked_rate(const Deployment& plan,
                                        const std::map<std::string, ImageRecord>& records) {
  const auto image_of = [&](const PortRef& end) {
    const Partition* const partition = plan.find_partition(end.partition);
    return partition == nullptr ? std::string() : partition->image;
  };
  const auto clock_of = [&](const std::string& image) {
    const auto record = records.find(image);
    return record == records.end() ? 0 : record->second.clock_mhz;
  };
  Slowest slowest;
  for (const auto& [image, record] : records)
    for (const ImagePartition& partition : record.partitions)
      slowest.add("the pipeline of partition '" + partition.name + "'", partition.interval_cycles,
                  record.clock_mhz);
  std::map<std::pair<std::string, std::string>, std::uint64_t>
      between;  // bytes of a frame from image to image
  for (const Channel& channel : plan.channels) {
    const std::string from = image_of(channel.producer), to = image_of(channel.consumer);
    if (passes_hosts(channel.transport)) {
      for (const std::string& image : {from, to})
        slowest.add("the host port of channel '" + channel.name + "' on image '" + image + "'",
                    words(channel.frame_bytes, generators::kDataBytes), clock_of(image));
    } else if (channel.transport == Transport::kAurora) {
      between[{from, to}] += bytes_on_wire(channel);
    }
  }
  for (const auto& [images, bytes] : between)
    slowest.add("the link ports from image '" + images.first + "' to image '" + images.second + "'",
                words(bytes, kPacketWordBytes), std::min(clock_of(images.first), clock_of(images.second)));
  return slowest.found();
}

}  // namespace millrace::compiler::emit
