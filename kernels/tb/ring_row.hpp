// What the benches of mr_ring_in and mr_ring_out share: a host that follows runtime/plan/ring_abi.hpp, a card around
// the unit, and checks that hold in every cycle.
//
// The host learns what the card has done only from memory and registers. The checks know more: which registers the host
// has written, and every access of the unit to memory.
#pragma once

#include <cstdio>
#include <optional>
#include <stdexcept>

#include "kernels/tb/integers.hpp"
#include "kernels/tb/ring_memory.hpp"
#include "runtime/plan/ring_abi.hpp"

namespace millrace::kernels::tb {

namespace abi = runtime::plan::abi;

/// One row of the module's table. The rows run one after the other, because each host's script steps the model itself.
class RingRow {
 public:
  RingRow(const Parameters& parameters, Model& model, Ports& ports, std::uint64_t seed);
  virtual ~RingRow() = default;
  int run(int rounds);  // returns the number of failures

 protected:
  struct Stuck : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  /// How the host makes the unit disabled and quiet before it configures it.
  enum class Stop { kDisable, kReset };

  // The stream side of the unit, which the card drives and checks
  virtual void drive_stream() = 0;
  virtual void sample_stream() = 0;
  virtual void reset_flow() = 0;  // the card's dataflow is reset with a flush
  // The host's part of the traffic
  virtual void host_cycle() = 0;     // what the host does in a cycle with traffic
  virtual void begin_session() = 0;  // all counts are zero, and the host may ring doorbells
  virtual void leave_session() = 0;  // the unit is quiet: nothing of the session can follow
  virtual bool drained() const = 0;  // all frames have come through
  virtual void hurry() = 0;          // the card's side of the stream never waits
  virtual void measure() = 0;        // latency and interval at full speed, compared with the module's header
  virtual void misuse() = 0;         // hostile input that only this direction has
  // What a burst of the unit may be, at the moment of its address
  virtual void slot_written(std::uint64_t address, unsigned bytes) = 0;
  virtual void write_failed(std::uint64_t address) = 0;  // memory will answer this write with an error
  virtual std::uint32_t most_index() const = 0;          // upper bound for the index that the unit may report

  void step();
  template <class Condition>
  void until(Condition condition, const char* what, int limit = 60'000) {
    for (int i = 0; !condition(); ++i) {
      if (i == limit) throw Stuck(std::string("waits in vain: ") + what);
      step();
    }
  }
  void steps(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) step();
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return rng_.between(low, high); }
  void fail(const std::string& what);
  void expect(bool holds, const std::string& what) {
    if (!holds) fail(what);
  }
  void write(std::uint32_t address, std::uint32_t value) { registers_.write(address, value); }
  std::uint32_t read(std::uint32_t address);
  void settle() {
    until([this] { return registers_.idle(); }, "for an access to a register");
  }
  Port& port(const char* name) { return ports_.at(name); }
  bool fires(const char* valid, const char* ready) {
    return port(valid).get() != 0 && port(ready).get() != 0;
  }

  // The host's steps
  /// Disables the unit, gives it a new ring, and enables it. With `slots`, the ring is in host memory and has so many slots.
  void boot(Stop how, std::uint32_t slots = 0);
  void stop(Stop how);
  void configure(std::uint32_t slots = 0);
  void enable();
  void change_epoch();
  void traffic(std::int64_t cycles);
  void drain();
  void ring(std::uint32_t count);  // a doorbell of the present epoch
  void arm(std::uint32_t count);
  std::uint32_t known_index();  // from the status record; 0 as long as that has another epoch
  /// Whether memory shows an index above `count`.
  virtual bool host_sees_more_than(std::uint32_t count) = 0;

  std::uint64_t slot_address(std::uint32_t index) const { return base_ + index % slots_ * slot_bytes_; }
  bool working() const { return enabled_ && !flush_; }

  const Parameters& parameters_;
  Model& model_;
  Ports& ports_;
  Rng rng_;
  RegisterMaster registers_;
  RingMemory memory_;
  std::uint64_t payload_bytes_, slot_bytes_;
  unsigned lanes_, element_bytes_;
  ElementType type_;
  std::size_t elements_;

  std::uint64_t cycle_ = 0;
  std::uint64_t base_ = 0, status_base_ = 0;
  std::uint32_t slots_ = 2, mode_ = 0, epoch_ = 0;
  bool traffic_ = false;
  bool finishing_ = false;         // in traffic: no new frames
  std::function<void()> observe_;  // called in each cycle, before the clock rises
  std::uint32_t rung_ = 0;         // count of the last doorbell
  // What the checks know
  bool enabled_ = false;  // the host has written kRingEnable, and has not disabled the unit since
  bool quiet_ = true;     // the unit must access no memory
  bool flush_ = false;
  std::uint32_t card_epoch_ = 0;
  std::uint64_t now_ = 0;
  abi::RingError expected_error_ = abi::RingError::kNone;
  std::optional<std::uint32_t> expected_detail_;
  std::uint32_t faults_ = 0;
  bool error_seen_ = false;          // a record of this session has shown an error
  std::uint32_t written_index_ = 0;  // the way out: trailers whose address has been sent
  std::uint64_t frames_ = 0;
  std::string timing_;  // what was measured
  /// Compares a measured number of cycles with the number that the module's header states.
  void compare(const char* what, std::int64_t measured, std::int64_t stated);
  int failures_ = 0;

  Values random_frame() { return random_values(type_, elements_, rng_); }
  std::vector<std::uint8_t> stored(const Values& values) const;
  void expect_error(abi::RingError error, std::optional<std::uint32_t> detail);
  void recover();

 private:
  struct Armed {
    bool written = false;
    std::uint32_t count = 0, epoch = 0;
    std::uint64_t waits = 0;  // cycles in which memory already showed the event
  };
  void script(int rounds);
  void disturb();
  void raise(std::uint32_t epoch);
  void await_epoch();
  void late_doorbell();
  void wrong_doorbell();
  void wrong_configuration();
  void wrong_moment();
  void failing_write();
  void second_session();
  void expect_no_doorbell();
  void dead_host();
  void leave();
  void refused(std::uint32_t detail_bits);
  void check_status(const std::vector<std::uint8_t>& data);
  void check_cycle();
  void card();
  void watch_interrupt();

  bool flushed_ = false;
  int resetting_ = 0;
  std::uint64_t heartbeat_ = 0, status_cycle_ = 0;
  std::uint32_t seen_index_ = 0, sessions_ = 0, interrupts_ = 0, errors_ = 0;
  Armed armed_;
  std::optional<std::uint64_t> delivery_;  // the interrupt reaches the host once so many writes are visible
};

/// Runs the rows one after the other. Returns the number of failures.
template <class Row>
int run_ring_rows(std::uint64_t seed, int rounds) {
  const auto& parameters = model_rows();
  const auto model = make_model();
  for (std::size_t i = 0; i < parameters.size(); ++i) model->ports(i).at("rst").set(1);
  int failures = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    failures += Row(parameters[i], *model, model->ports(i), seed * 1000 + i).run(rounds);
  model->final();
  return failures;
}

}  // namespace millrace::kernels::tb
