// Simulates the memory that a ring unit reads and writes: a host's memory behind PCIe, or a card's memory. Checks the
// rules of AXI4, and shows every access to the bench.
#pragma once

#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "kernels/tb/axi.hpp"

namespace millrace::kernels::tb {

/// A memory of any size at the ports `axi_` of a unit. Memory that was never stored reads as noise.
///
/// A write of the unit becomes visible some time after its data have arrived. With `ordered`, as over PCIe, all writes
/// become visible in their order and with increasing addresses, but perhaps after the unit got its response. Without
/// `ordered`, as in a card's memory for another reader, parts of different bursts become visible in any order, but before
/// the burst's response.
class RingMemory {
 public:
  RingMemory(Ports& ports, unsigned longest_burst, Rng& rng, Report report);

  double pace = 0.5;  // probability that a channel makes progress in a cycle
  bool ordered = true;
  std::function<void(std::uint64_t address, unsigned bytes)> read_asked, write_asked;
  std::function<void(std::uint64_t address, const std::vector<std::uint8_t>& data)> write_came;
  std::function<bool(std::uint64_t address)> read_fails, write_fails;  // whether the memory answers SLVERR

  void store(std::uint64_t address, const void* data, std::size_t bytes);
  void load(std::uint64_t address, void* data, std::size_t bytes);
  std::uint64_t word(std::uint64_t address);  // eight bytes, as one load

  unsigned unanswered_writes() const {
    return unanswered_;
  }                                                    // bursts whose address came and whose response did not
  std::uint64_t writes_came() const { return came_; }  // bursts, since the start
  std::uint64_t writes_visible() const { return visible_; }
  std::uint64_t reads_delivered() const { return delivered_; }  // words, since the start
  void drive();
  void sample();

 private:
  struct Burst {
    std::uint64_t address = 0;
    unsigned words = 0;
  };
  struct Write {
    std::uint64_t address = 0;
    std::vector<std::uint8_t> data;
    std::vector<bool> shown;  // for each eight bytes
    std::size_t left = 0;     // parts that are not visible
    bool fails = false, answered = false;
  };
  const Port& port(const char* name) const { return ports_.at(std::string("axi_") + name); }
  bool fires(const char* valid, const char* ready) const {
    return port(valid).get() != 0 && port(ready).get() != 0;
  }
  std::uint8_t& byte(std::uint64_t address);
  void drive_reads();
  void sample_reads();
  void sample_writes();
  void check(const char* channel, const Burst& burst);
  void show(Write& write, std::size_t part);
  void make_visible();

  Ports& ports_;
  Rng& rng_;
  Report report_;
  unsigned word_bytes_, longest_;
  bool reads_it_;
  std::unordered_map<std::uint64_t, std::vector<std::uint8_t>> pages_;
  std::deque<Burst> reads_, addresses_;
  bool reading_ = false, responding_ = false;
  std::deque<std::vector<std::uint8_t>> bursts_;  // complete, without an address yet
  std::vector<std::uint8_t> incoming_;
  std::deque<Write> writes_;  // not yet visible or not yet answered, oldest first
  unsigned unanswered_ = 0;
  std::uint64_t came_ = 0, visible_ = 0, delivered_ = 0;
  std::vector<StableUntilTaken> rules_;
};

}  // namespace millrace::kernels::tb
