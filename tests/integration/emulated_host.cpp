#include "emulated_host.hpp"

#include <unistd.h>

#include <experimental/xrt_xclbin.h>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "tests/support/wait.hpp"

namespace millrace::tests {

namespace abi = runtime::plan::abi;
namespace fs = std::filesystem;

namespace {
/// Rounds a buffer size up to whole pages. libxrt allocates the host's copy of a buffer with
/// aligned_alloc(4096, size), which requires whole pages.
std::size_t whole_pages(std::size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}
}  // namespace

xrt::device& device(unsigned index) {
  static auto& devices =
      *new std::map<unsigned, xrt::device>;  // never destroyed: XRT's own objects may end before static ones
  auto found = devices.find(index);
  if (found == devices.end()) found = devices.emplace(index, xrt::device(index)).first;
  return found->second;
}

xrt::uuid load(unsigned card, const Bytes& image) {
  return device(card).load_xclbin(
      xrt::xclbin(std::vector<char>(reinterpret_cast<const char*>(image.data()),
                                    reinterpret_cast<const char*>(image.data()) + image.size())));
}

bool await_end(pid_t process) {
  return wait_until([&] { return !fs::exists("/proc/" + std::to_string(process)); });
}

IngressUnit::IngressUnit(unsigned card, const xrt::uuid& image, const std::string& unit, std::size_t bytes)
    : kernel_(device(card), image, std::string(abi::kIngressKernel) + ":{" + unit + "}"),
      buffer_(device(card), whole_pages(bytes), kernel_.group_id(abi::kIngressBuffer)),
      run_(kernel_) {
  run_.set_arg(abi::kIngressBuffer, buffer_);
  run_.set_arg(abi::kIngressBytes, static_cast<std::uint32_t>(bytes));
}

void IngressUnit::start(const Frame& frame, std::uint32_t epoch, std::uint64_t sequence) {
  std::memcpy(buffer_.map<std::byte*>(), frame.data(), frame.size());
  buffer_.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  run_.set_arg(abi::kIngressEpoch, epoch);
  run_.set_arg(abi::kIngressSequence, sequence);
  run_.start();
}

EgressUnit::EgressUnit(unsigned card, const xrt::uuid& image, const std::string& unit, std::size_t bytes)
    : bytes_(bytes),
      kernel_(device(card), image, std::string(abi::kEgressKernel) + ":{" + unit + "}"),
      buffer_(device(card), whole_pages(abi::egress_buffer_bytes(bytes)),
              kernel_.group_id(abi::kEgressBuffer)),
      run_(kernel_) {
  run_.set_arg(abi::kEgressBuffer, buffer_);
  run_.set_arg(abi::kEgressBytes, static_cast<std::uint32_t>(bytes));
}

void EgressUnit::start(std::uint32_t epoch, std::uint64_t sequence) {
  run_.set_arg(abi::kEgressEpoch, epoch);
  run_.set_arg(abi::kEgressSequence, sequence);
  run_.start();
}

abi::StatusTrailer EgressUnit::trailer() {
  buffer_.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  abi::StatusTrailer trailer;
  std::memcpy(&trailer, buffer_.map<std::byte*>() + abi::trailer_offset(bytes_), sizeof trailer);
  return trailer;
}

Frame EgressUnit::frame() {
  buffer_.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  const auto* data = buffer_.map<std::byte*>();
  return {data, data + bytes_};
}

Control::Control(unsigned card, const xrt::uuid& image)
    : ip_(device(card), image, std::string(abi::kControlKernel) + ":{" + abi::kControlUnit + "}") {}

void Control::link(std::uint32_t row, std::uint32_t connector, std::uint32_t tag, std::uint32_t packet_bytes,
                   std::uint32_t credits) {
  const auto base = abi::kLinkTable + row * abi::kLinkRowBytes;
  write(base + abi::kLinkConnector, connector);
  write(base + abi::kLinkTag, tag);
  write(base + abi::kLinkPacketBytes, packet_bytes);
  write(base + abi::kLinkCredits, credits);
}

void Control::enable(std::uint32_t row, bool enabled) {
  write(abi::kLinkTable + row * abi::kLinkRowBytes + abi::kLinkEnable, enabled ? 1 : 0);
}

std::uint32_t Control::link_register(std::uint32_t row, std::uint32_t offset) {
  return read(abi::kLinkTable + row * abi::kLinkRowBytes + offset);
}

Supervisor::Supervisor(unsigned card, const xrt::uuid& image)
    : kernel_(device(card), image, std::string(abi::kSupervisorKernel) + ":{" + abi::kSupervisorUnit + "}"),
      buffer_(device(card), whole_pages(sizeof(abi::FaultReport)), kernel_.group_id(abi::kSupervisorReport)),
      run_(kernel_) {
  run_.set_arg(abi::kSupervisorReport, buffer_);
}

abi::FaultReport Supervisor::report() {
  buffer_.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  abi::FaultReport report;
  std::memcpy(&report, buffer_.map<std::byte*>(), sizeof report);
  return report;
}

Frame random_frame(std::size_t elements, std::uint32_t seed) {
  std::mt19937 random(seed);
  Frame frame(elements);
  for (auto& byte : frame) byte = static_cast<std::byte>(random());
  return frame;
}

}  // namespace millrace::tests
