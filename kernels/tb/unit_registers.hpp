// The register slaves of the units in an emitted partition. The top module has one slave for each unit. The Vitis
// kernel around the top has one slave in total, with a window for each unit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/tb/axi.hpp"

namespace millrace::kernels::tb {

/// The AXI ports of a simulated card. They belong to the partition's top module or to the Vitis kernel around the top.
class Bus {
 public:
  Bus(Ports& all, const std::string& windows, Rng& rng, const Report& report)
      : ports(all), rng_(rng), report_(report), is_kernel_(all.contains("s_axi_control_awvalid")) {
    std::istringstream words(windows);
    for (std::string word; words >> word;) windows_.push_back(word);
    if (is_kernel_) masters_.push_back(std::make_unique<RegisterMaster>(ports, "s_axi_control", rng, report));
  }

  /// Returns the names of the units that have registers.
  std::vector<std::string> units() const {
    if (is_kernel_) return windows_;
    const std::string suffix = "_axil_awvalid";
    std::vector<std::string> found;
    for (const auto& [port, unused] : ports)
      if (port.ends_with(suffix)) found.push_back(port.substr(0, port.size() - suffix.size()));
    return found;
  }
  bool has(const std::string& unit) const {
    const auto all = units();
    return std::find(all.begin(), all.end(), unit) != all.end();
  }
  /// Returns the prefix of the names of a unit's memory port.
  std::string memory(const std::string& unit) const {
    return is_kernel_ ? "m_axi_" + unit + "_" : unit + "_axi_";
  }
  bool interrupts(const std::string& unit) const {
    return ports.at(is_kernel_ ? "interrupt" : unit + "_irq").get() != 0;
  }
  /// Returns the register slave of a unit, and the offset of the unit's registers in the slave.
  std::pair<RegisterMaster*, std::uint32_t> registers(const std::string& unit) {
    if (!is_kernel_) {
      masters_.push_back(std::make_unique<RegisterMaster>(ports, unit + "_axil", rng_, report_));
      return {masters_.back().get(), 0};
    }
    const auto found = std::find(windows_.begin(), windows_.end(), unit);
    if (found == windows_.end()) throw std::runtime_error("the kernel has no window of " + unit);
    return {masters_.front().get(), kWindowBytes * static_cast<std::uint32_t>(found - windows_.begin())};
  }

  void drive() {
    ports.at(is_kernel_ ? "ap_rst_n" : "rst").set(in_reset != is_kernel_);
    for (auto& master : masters_) master->drive();
  }
  void sample() {
    for (auto& master : masters_) master->sample();
    if (is_kernel_) check_constants();
  }
  void clock(bool high) { ports.at(is_kernel_ ? "ap_clk" : "clk").set(high); }
  bool raises_error() const { return !is_kernel_ && ports.at("error").get() != 0; }

  Ports& ports;
  bool in_reset = true;

 private:
  static constexpr std::uint32_t kWindowBytes = 0x1000;

  /// Checks the constants that the kernel adds to the top's AXI masters: incrementing bursts of whole 64-byte words.
  void check_constants() {
    for (const auto& [name, port] : ports) {
      if ((name.ends_with("_awsize") || name.ends_with("_arsize")) && port.get() != 6)
        report_(name + ": not words of 64 bytes");
      if ((name.ends_with("_awburst") || name.ends_with("_arburst")) && port.get() != 1)
        report_(name + ": not incrementing");
      if (name.starts_with("m_axi_") && name.ends_with("_wstrb") && port.get() != ~std::uint64_t{0})
        report_(name + ": not whole words");
      if (name.ends_with("_rx_tready") && port.get() != 1) report_(name + ": not ready");
    }
  }

  Rng& rng_;
  const Report report_;
  bool is_kernel_;
  std::vector<std::string> windows_;
  std::vector<std::unique_ptr<RegisterMaster>> masters_;
};

/// The registers of one unit. A run of the unit raises an interrupt at its end.
class Registers {
 public:
  Registers(Bus& bus, std::string unit, Report report)
      : bus_(bus), unit_(std::move(unit)), report_(std::move(report)) {
    std::tie(master_, base_) = bus_.registers(unit_);
  }

  void write(std::uint32_t address, std::uint32_t data, std::function<void()> then = {}) {
    ++waiting_;
    master_->write(base_ + address, data, [this, then = std::move(then)] {
      --waiting_;
      if (then) then();
    });
  }
  void write_argument(std::uint32_t address, std::uint32_t data) {
    ++waiting_;
    master_->write_argument(base_ + address, data, [this] { --waiting_; });
  }
  void read(std::uint32_t address, std::function<void(std::uint32_t)> then) {
    ++waiting_;
    master_->read(base_ + address, [this, then = std::move(then)](std::uint32_t data) {
      --waiting_;
      then(data);
    });
  }
  bool idle() const { return waiting_ == 0; }

  /// Starts a run whose arguments were already written. Calls `then` after the start was written.
  void start(std::function<void()> then = {}) {
    write(0x04, 1);
    write(0x08, 1);
    write(0x00, 1, std::move(then));
  }
  /// Polls until the run is done, acknowledges the end, and then calls `then`.
  void finish(std::function<void()> then) {
    read(0x00, [this, then = std::move(then)](std::uint32_t control) mutable {
      if ((control & 2u) == 0) return finish(std::move(then));
      if (!bus_.interrupts(unit_)) report_(unit_ + ": done without an interrupt");
      write(0x0c, 1);
      write(0x00, 0x10, std::move(then));
    });
  }

 private:
  Bus& bus_;
  std::string unit_;
  Report report_;
  RegisterMaster* master_ = nullptr;
  std::uint32_t base_ = 0;
  unsigned waiting_ = 0;
};

}  // namespace millrace::kernels::tb
