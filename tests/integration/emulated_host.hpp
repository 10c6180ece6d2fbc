// The parts of a small host program for tests. They use only XRT's public API, and do not catch XRT's exceptions.
#pragma once

#include <sys/types.h>

#include <experimental/xrt_ip.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "card_process.hpp"
#include "emulated_images.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::tests {

using Frame = std::vector<std::byte>;

/// Returns the device object of card `index`. A process has only one such object per card.
xrt::device& device(unsigned index);
xrt::uuid load(unsigned card, const Bytes& image);

/// Waits until the process has ended. Returns false if it still runs after a minute.
bool await_end(pid_t process);

/// An ingress unit, which sends frames into the card. It has at most one XRT run at a time.
class IngressUnit {
 public:
  IngressUnit(unsigned card, const xrt::uuid& image, const std::string& unit, std::size_t bytes);
  void start(const Frame& frame, std::uint32_t epoch, std::uint64_t sequence);
  ert_cmd_state wait() { return run_.wait(std::chrono::milliseconds(10'000)); }
  xrt::run& run() { return run_; }

 private:
  xrt::kernel kernel_;
  xrt::bo buffer_;
  xrt::run run_;
};

/// An egress unit, which receives frames from the card. It has at most one XRT run at a time.
class EgressUnit {
 public:
  EgressUnit(unsigned card, const xrt::uuid& image, const std::string& unit, std::size_t bytes);
  void start(std::uint32_t epoch, std::uint64_t sequence);
  ert_cmd_state wait(std::chrono::milliseconds limit = std::chrono::milliseconds(10'000)) {
    return run_.wait(limit);
  }
  /// Returns the status trailer of a completed run: the bytes that follow the frame's payload in memory.
  runtime::plan::abi::StatusTrailer trailer();
  Frame frame();
  xrt::run& run() { return run_; }

 private:
  std::size_t bytes_;
  xrt::kernel kernel_;
  xrt::bo buffer_;
  xrt::run run_;
};

class Control {
 public:
  Control(unsigned card, const xrt::uuid& image);
  void link(std::uint32_t row, std::uint32_t connector, std::uint32_t tag, std::uint32_t packet_bytes,
            std::uint32_t credits);
  void enable(std::uint32_t row, bool enabled = true);
  std::uint32_t link_register(std::uint32_t row, std::uint32_t offset);
  void epoch(std::uint32_t value) { write(runtime::plan::abi::kRegEpoch, value); }
  std::uint32_t read(std::uint32_t offset) { return ip_.read_register(offset); }
  void write(std::uint32_t offset, std::uint32_t value) { ip_.write_register(offset, value); }

 private:
  xrt::ip ip_;
};

class Supervisor {
 public:
  Supervisor(unsigned card, const xrt::uuid& image);
  void start() { run_.start(); }
  ert_cmd_state wait(std::chrono::milliseconds limit = std::chrono::milliseconds(10'000)) {
    return run_.wait(limit);
  }
  runtime::plan::abi::FaultReport report();

 private:
  xrt::kernel kernel_;
  xrt::bo buffer_;
  xrt::run run_;
};

Frame random_frame(std::size_t elements, std::uint32_t seed);

}  // namespace millrace::tests
