// Simulates what a host and a card's memory do at the shell's AXI ports: a register master and a memory. Both add
// random delays and check the protocol.
//
// In every cycle, call drive() before the model is evaluated, and sample() after combinational logic has settled and
// before the clock rises. If a protocol rule is violated, `report` is called with the rule's name.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/tb/bench.hpp"

namespace millrace::kernels::tb {

using Ports = std::map<std::string, Port>;
using Report = std::function<void(const std::string&)>;

/// Checks an AXI channel that the model drives: valid, once high, must stay high with the same payload until ready.
class StableUntilTaken {
 public:
  StableUntilTaken(Ports& ports, const std::string& channel, std::vector<std::string> payload);
  void sample(const Report& report);
  void reset() { waiting_ = false; }

 private:
  std::string name_;
  Port valid_, ready_;
  std::vector<Port> payload_;
  bool waiting_ = false;
  std::vector<Beat> held_;
};

/// An AXI4-Lite master. Accesses run in order. A write offers its address and its data in any order, and responses are
/// taken with a delay.
///
/// The master also adds accesses that no bench asked for and that must not change anything. Before a write, it may add
/// a write without the low byte. During an access in one direction, it may add an access in the other direction: a
/// write without strobes, or a read of an argument or of an address without a register.
class RegisterMaster {
 public:
  RegisterMaster(Ports& ports, const std::string& prefix, Rng& rng, Report report);
  void write(std::uint32_t address, std::uint32_t data, std::function<void()> then = {});
  /// Writes a register that accepts single bytes and must read back as written. Sometimes splits the value into two
  /// writes.
  void write_argument(std::uint32_t address, std::uint32_t data, std::function<void()> then = {});
  void read(std::uint32_t address, std::function<void(std::uint32_t)> then);
  bool idle() const { return accesses_.empty(); }
  unsigned overlapped() const { return overlapped_; }  // cycles with accesses under way in both directions
  void reset();  // forgets all accesses, because both ends of the port are reset
  void drive();
  void sample();

 private:
  struct Access {
    bool is_write;
    std::uint32_t address, data, strobes;
    std::function<void(std::uint32_t)> then;
    bool asked = true;  // false for an access that the master added by itself
  };
  /// The access in progress in one direction (read or write). The members about data are for writes only.
  struct Direction {
    std::optional<Access> access;
    bool address_offered = false, address_taken = false, data_offered = false, data_taken = false;
  };
  const Port& port(const char* name) const { return ports_.at(prefix_ + name); }
  bool fires(const char* valid, const char* ready) const {
    return port(valid).get() != 0 && port(ready).get() != 0;
  }
  void push_write(std::uint32_t address, std::uint32_t data, std::uint32_t strobes,
                  std::function<void()> then = {});
  void push_decoy(std::uint32_t address);
  Access unasked(bool is_write);
  void launch();
  void complete(Direction& direction);

  Ports& ports_;
  std::string prefix_;
  Rng& rng_;
  Report report_;
  std::deque<Access> accesses_;  // the first access may be under way
  Direction writing_, reading_;
  bool first_under_way_ = false;
  unsigned overlapped_ = 0;
  std::map<std::uint32_t, std::uint32_t> arguments_;  // address -> value that the register must read back as
  StableUntilTaken write_response_, read_response_;
};

/// An AXI4 memory of `bytes` bytes at `base`. It has a read port, a write port or both, depending on the model.
class Memory {
 public:
  Memory(Ports& ports, const std::string& prefix, std::uint64_t base, std::size_t bytes,
         unsigned longest_burst, Rng& rng, Report report);
  std::uint64_t base() const { return base_; }
  std::vector<std::uint8_t>& content() { return content_; }
  double pace = 0.5;     // probability that a channel makes progress in a cycle
  bool failing = false;  // whether the memory answers SLVERR
  bool failing_reads = false;
  void reset();  // forgets all pending bursts, because both ends of the port are reset
  void drive();
  void sample();

 private:
  struct Burst {
    std::uint64_t address;
    unsigned words;
  };
  bool fires(const std::string& channel) const;
  void drive_reads();
  void drive_writes();
  void sample_writes();
  void check_burst(const char* channel, std::uint64_t address, unsigned words);
  std::size_t offset(std::uint64_t address) const { return static_cast<std::size_t>(address - base_); }

  const Port& port(const char* name) const { return ports_.at(prefix_ + name); }

  Ports& ports_;
  std::string prefix_;
  bool reads_it_, writes_it_;
  std::uint64_t base_;
  std::vector<std::uint8_t> content_;
  unsigned word_bytes_, longest_;
  Rng& rng_;
  Report report_;
  std::deque<Burst> reads_, writes_;
  std::deque<std::vector<Beat>> written_;  // complete bursts of data whose address was not yet received
  std::vector<Beat> incoming_;
  unsigned responses_ = 0;
  bool reading_ = false, responding_ = false;
  std::vector<StableUntilTaken> rules_;
};

}  // namespace millrace::kernels::tb
