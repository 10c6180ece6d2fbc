// The far ends of the shell's AXI ports: a register master and a memory, with random delays, that check the
// protocol.
//
// Every cycle: drive() before the model is evaluated, sample() after it settled, before the clock rises.
// Broken rules are reported through `report` with the rule's name.
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

/// Valid stays and its payload with it until ready: for what the model drives.
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

/// AXI4-Lite master: accesses in order, address and data of a write in any order, responses taken late.
///
/// Of its own accord it adds what must change nothing: writes without the low byte ahead of a write, and
/// beside an access of one direction one of the other: a write without strobes, a read of an argument or of
/// no register.
class RegisterMaster {
 public:
  RegisterMaster(Ports& ports, const std::string& prefix, Rng& rng, Report report);
  void write(std::uint32_t address, std::uint32_t data, std::function<void()> then = {});
  /// Of a register that takes single bytes and gives back what was written: sometimes in two writes.
  void write_argument(std::uint32_t address, std::uint32_t data, std::function<void()> then = {});
  void read(std::uint32_t address, std::function<void(std::uint32_t)> then);
  bool idle() const { return accesses_.empty(); }
  unsigned overlapped() const { return overlapped_; }  // cycles with an access under way in both directions
  void reset();  // forgets what it was asked for: both ends of the port are reset
  void drive();
  void sample();

 private:
  struct Access {
    bool is_write;
    std::uint32_t address, data, strobes;
    std::function<void(std::uint32_t)> then;
    bool asked = true;  // by the bench
  };
  /// What is under way in one direction; of reads there is no data to offer.
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
  std::deque<Access> accesses_;  // the first of them may be under way
  Direction writing_, reading_;
  bool first_under_way_ = false;
  unsigned overlapped_ = 0;
  std::map<std::uint32_t, std::uint32_t> arguments_;  // what they must read as
  StableUntilTaken write_response_, read_response_;
};

/// AXI4 memory of `bytes` bytes at `base`: a port for reads, one for writes, or both, as the model has them.
class Memory {
 public:
  Memory(Ports& ports, const std::string& prefix, std::uint64_t base, std::size_t bytes,
         unsigned longest_burst, Rng& rng, Report report);
  std::uint64_t base() const { return base_; }
  std::vector<std::uint8_t>& content() { return content_; }
  double pace = 0.5;     // chance of progress, a channel and a cycle
  bool failing = false;  // answers SLVERR
  bool failing_reads = false;
  void reset();  // forgets the bursts it owes: both ends of the port are reset
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
  std::deque<std::vector<Beat>> written_;  // complete bursts of data that wait for their address
  std::vector<Beat> incoming_;
  unsigned responses_ = 0;
  bool reading_ = false, responding_ = false;
  std::vector<StableUntilTaken> rules_;
};

}  // namespace millrace::kernels::tb
