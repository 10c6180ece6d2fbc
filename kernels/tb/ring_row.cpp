#include "kernels/tb/ring_row.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace millrace::kernels::tb {

namespace {
constexpr std::uint64_t kRingAlignment = 4096;
constexpr std::uint64_t kPatience = 2000;  // cycles beyond a heartbeat's period that slow memory may cost
constexpr int kFlowResetCycles = 4;        // of the dataflow, as in mr_control
}  // namespace

RingRow::RingRow(const Parameters& parameters, Model& model, Ports& ports, std::uint64_t seed)
    : parameters_(parameters),
      model_(model),
      ports_(ports),
      rng_(seed),
      registers_(ports, "axil", rng_, [this](const std::string& what) { fail(what); }),
      memory_(ports, std::max(positive(parameters, "BURST"), 64 / positive(parameters, "DATA_BYTES")), rng_,
              [this](const std::string& what) { fail(what); }),
      payload_bytes_(positive(parameters, "BYTES")),
      slot_bytes_((payload_bytes_ + 63) / 64 * 64 + 64),
      lanes_(positive(parameters, "LANES")),
      element_bytes_(positive(parameters, "EBYTES")),
      type_(element_type(parameters["AKIND"], parameters["ABITS"])),
      elements_(payload_bytes_ / element_bytes_) {
  memory_.write_asked = [this](std::uint64_t address, unsigned bytes) {
    if (address != status_base_) return slot_written(address, bytes);
    if (bytes != 64) fail("a status record of another size");
    status_cycle_ = cycle_;
  };
  memory_.write_came = [this](std::uint64_t address, const std::vector<std::uint8_t>& data) {
    if (address == status_base_) check_status(data);
  };
}

std::vector<std::uint8_t> RingRow::stored(const Values& values) const {
  std::vector<std::uint8_t> bytes;
  for (const std::int64_t value : values)
    for (unsigned b = 0; b < element_bytes_; ++b)
      bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * b)));
  return bytes;
}

void RingRow::fail(const std::string& what) {
  if (++failures_ <= 8)
    std::printf("  %s: cycle %" PRIu64 ": %s\n", parameters_.row().c_str(), cycle_, what.c_str());
}

int RingRow::run(int rounds) {
  try {
    script(rounds);
  } catch (const Stuck& stuck) {
    fail(stuck.what());
  }
  if (frames_ == 0 || errors_ == 0 || interrupts_ == 0)
    fail("the row tested no frame, no error or no interrupt");
  port("rst").set(1);
  std::printf("  %-8s %s:%s; %" PRIu64 " frames, %u sessions, %u errors, %u interrupts, %" PRIu64 " cycles\n",
              parameters_.row().c_str(), failures_ == 0 ? "ok" : "FAILED", timing_.c_str(), frames_,
              sessions_, errors_, interrupts_, cycle_);
  return failures_;
}

void RingRow::compare(const char* what, std::int64_t measured, std::int64_t stated) {
  timing_ += (timing_.empty() ? " " : ", ") + std::string(what) + " " + std::to_string(measured);
  if (measured != stated) fail(std::string(what) + ": the header states " + std::to_string(stated));
}

void RingRow::step() {
  port("rst").set(cycle_ < 4);
  port("flush").set(flush_);
  port("card_epoch").set(card_epoch_);
  port("now").set(now_);
  memory_.drive();
  registers_.drive();
  drive_stream();
  model_.eval();
  if (cycle_ >= 4) {
    memory_.sample();
    registers_.sample();
    check_cycle();
    if (!flush_) sample_stream();
    card();
    watch_interrupt();
    if (observe_) observe_();
    if (traffic_) host_cycle();
  }
  port("clk").set(1);
  model_.eval();
  port("clk").set(0);
  ++cycle_;
  ++now_;
}

/// Checks what must hold in each cycle: no access to memory while the unit is quiet, and heartbeats in time otherwise.
void RingRow::check_cycle() {
  const bool reads = ports_.contains("axi_arvalid") && port("axi_arvalid").get() != 0;
  if ((quiet_ || flushed_) && (reads || port("axi_awvalid").get() != 0 || port("axi_wvalid").get() != 0))
    fail("accesses memory although it is quiet");
  const auto period =
      std::uint64_t{positive(parameters_, "CLOCK_MHZ")} * positive(parameters_, "HEARTBEAT_US");
  if (!working()) status_cycle_ = cycle_;
  if (cycle_ - status_cycle_ > period + kPatience) {
    fail("no heartbeat");
    status_cycle_ = cycle_;
  }
}

/// Simulates the card's control unit: a flush lasts until all ports are quiet, then the dataflow is reset.
void RingRow::card() {
  if (!flush_) return;
  if (resetting_ == 0) {
    if (port("quiet").get() == 0 || !rng_.chance(0.2)) return;
    resetting_ = kFlowResetCycles;
    flushed_ = true;
    leave();
    reset_flow();
  } else if (--resetting_ == 0) {
    flush_ = flushed_ = false;
  }
}

void RingRow::leave() {
  leave_session();
  rung_ = written_index_ = seen_index_ = 0;
  error_seen_ = false;
  if (expected_error_ != abi::RingError::kNone) {
    expected_error_ = abi::RingError::kNone;
    ++faults_;
  }
}

void RingRow::check_status(const std::vector<std::uint8_t>& data) {
  abi::RingStatus status;
  std::memcpy(&status, data.data(), sizeof status);
  if (status.magic != abi::RingStatus{}.magic || status.version != abi::kRingAbiVersion)
    fail("status record: magic or version");
  if (status.heartbeat != ++heartbeat_) fail("status record: heartbeat " + std::to_string(status.heartbeat));
  heartbeat_ = status.heartbeat;
  if (status.epoch != card_epoch_ && !flush_) fail("status record: another epoch");
  if (status.now > now_ || status.now + 3000 < now_) fail("status record: a wrong time");
  if (status.index > most_index() || status.index < seen_index_)
    fail("status record: index " + std::to_string(status.index) + " of " + std::to_string(most_index()));

  seen_index_ = status.index;
  const std::uint32_t count = status.doorbell & 0xffffu;
  if (status.doorbell != abi::ring_doorbell(status.epoch, count) || count > rung_)
    fail("status record: doorbell " + std::to_string(status.doorbell));
  const bool some = status.error != abi::RingError::kNone;
  if (some && status.error != expected_error_)
    fail("status record: error " + std::to_string(static_cast<unsigned>(status.error)));
  if (!some && error_seen_) fail("status record: the error has gone");
  // A record can be on its way while the unit refuses to be enabled again.
  const std::uint32_t faults = faults_ + (some ? 1 : 0);
  if (status.faults != faults && (enabled_ || status.faults + 1 != faults))
    fail("status record: faults " + std::to_string(status.faults));
  if (status.detail != (some ? expected_detail_.value_or(status.detail) : 0))
    fail("status record: detail " + std::to_string(status.detail));
  error_seen_ = error_seen_ || some;
}

std::uint32_t RingRow::known_index() {
  const std::uint64_t word = memory_.word(status_base_ + offsetof(abi::RingStatus, index));
  return word >> 32 == epoch_ ? static_cast<std::uint32_t>(word) : 0;
}

std::uint32_t RingRow::read(std::uint32_t address) {
  std::uint32_t value = 0;
  registers_.read(address, [&value](std::uint32_t got) { value = got; });
  settle();
  // Over PCIe, the answer to a read arrives after all writes that the card sent before it.
  const std::uint64_t came = memory_.writes_came();
  until([&] { return memory_.writes_visible() >= came; }, "for writes to become visible");
  return value;
}

void RingRow::ring(std::uint32_t count) {
  rung_ = count;
  write(abi::kRingRegDoorbell, abi::ring_doorbell(epoch_, count));
}

void RingRow::arm(std::uint32_t count) {
  if (armed_.written || delivery_) return;
  armed_ = {true, count, epoch_, 0};
  write(abi::kRingRegArm, abi::ring_doorbell(epoch_, count));
}

/// Delivers the interrupt, and checks that the host then sees in memory for what it has waited.
void RingRow::watch_interrupt() {
  const bool high = port("irq").get() != 0;
  const auto happened = [this] {
    const std::uint64_t now = memory_.word(status_base_ + offsetof(abi::RingStatus, index));
    return now >> 32 != armed_.epoch ||
           memory_.word(status_base_ + offsetof(abi::RingStatus, error)) << 32 != 0 ||
           host_sees_more_than(armed_.count);
  };
  if (!high) {
    if (armed_.written && working() && happened() && ++armed_.waits > kPatience) {
      fail("no interrupt, although memory shows what the host waits for");
      armed_ = {};
    }
    return;
  }
  if (!armed_.written) return;  // the write that clears the interrupt is on its way
  if (!delivery_) delivery_ = memory_.writes_came();
  if (memory_.ordered && memory_.writes_visible() < *delivery_) return;
  if (!happened()) fail("an interrupt was raised before the change that causes it was visible in memory");
  ++interrupts_;
  armed_ = {};
  registers_.write(abi::kRingRegInterruptStatus, 1, [this] {
    delivery_.reset();
    if (port("irq").get() != 0) fail("the interrupt does not fall after its delivery");
  });
}

/// Disables the unit, and waits until it is quiet.
void RingRow::stop(Stop how) {
  traffic_ = false;
  armed_ = {};  // a later write to ISR would set the bit that a reset has cleared
  settle();
  write(abi::kRingRegControl, how == Stop::kReset ? abi::kRingReset : 0);
  settle();
  enabled_ = false;
  std::uint32_t control = 0;
  for (int i = 0; (control & abi::kRingQuiet) == 0; ++i) {
    if (i == 2000) throw Stuck("does not become quiet");
    control = read(abi::kRingRegControl);
    if ((control & abi::kRingEnable) != 0) fail("still enabled");
    if ((control & abi::kRingReset) != 0 && (control & abi::kRingQuiet) != 0)
      fail("quiet before the reset is done");
  }
  quiet_ = true;
  leave();
  delivery_.reset();
  if (how == Stop::kReset) {
    faults_ = 0;
    expect(port("irq").get() == 0, "a reset does not clear the interrupt");
    for (const std::uint32_t address :
         {abi::kRingRegSlots, abi::kRingRegMode, abi::kRingRegError, abi::kRingRegFaults,
          abi::kRingRegGlobalInterrupt, abi::kRingRegInterruptEnable})
      expect(read(address) == 0, "a reset does not clear register " + std::to_string(address));
  } else if (port("irq").get() != 0) {
    write(abi::kRingRegInterruptStatus, 1);
    settle();
    expect(port("irq").get() == 0, "the interrupt does not fall");
  }
}

/// Gives the unit a new ring and a new status record. The old ones stay where they are, so that late accesses show.
void RingRow::configure(std::uint32_t slots) {
  slots_ = slots != 0 ? slots : 1u << between(1, payload_bytes_ > 500 ? 2 : rng_.chance(0.1) ? 8 : 4);
  base_ = static_cast<std::uint64_t>(between(1, (std::int64_t{1} << 36) - 1024)) * kRingAlignment;
  status_base_ = static_cast<std::uint64_t>(between(1, (std::int64_t{1} << 36) - 1)) * kRingAlignment +
                 64 * static_cast<std::uint64_t>(between(0, 63));
  mode_ = slots == 0 && rng_.chance(0.5) ? abi::kRingCardMemory : 0;
  memory_.ordered = mode_ == 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> writes = {
      {abi::kRingRegBaseLow, static_cast<std::uint32_t>(base_)},
      {abi::kRingRegBaseHigh, static_cast<std::uint32_t>(base_ >> 32)},
      {abi::kRingRegStatusBaseLow, static_cast<std::uint32_t>(status_base_)},
      {abi::kRingRegStatusBaseHigh, static_cast<std::uint32_t>(status_base_ >> 32)},
      {abi::kRingRegSlots, slots_},
      {abi::kRingRegMode, mode_},
      {abi::kRingRegGlobalInterrupt, 1},
      {abi::kRingRegInterruptEnable, 1}};
  std::rotate(writes.begin(), writes.begin() + between(0, 7), writes.end());
  for (const auto& [address, value] : writes) write(address, value);
  for (const auto& [address, value] : writes)
    expect(read(address) == value, "register " + std::to_string(address) + " does not read back");
  const std::vector<std::uint8_t> zeros(64);
  memory_.store(status_base_, zeros.data(), zeros.size());
}

void RingRow::enable() {
  write(abi::kRingRegControl, abi::kRingEnable);
  enabled_ = true;
  quiet_ = false;
  await_epoch();
}

/// Waits for the record of the present epoch, and then begins a session.
void RingRow::await_epoch() {
  until(
      [this] {
        return memory_.word(status_base_ + offsetof(abi::RingStatus, index)) == std::uint64_t{card_epoch_}
                                                                                    << 32 &&
               memory_.word(status_base_ + offsetof(abi::RingStatus, heartbeat)) != 0 && !flush_;
      },
      "for the epoch's status record");
  ++sessions_;
  const std::uint64_t zero = 0;
  for (std::uint32_t i = 0; i < slots_; ++i)
    memory_.store(slot_address(i) + slot_bytes_ - 8, &zero, sizeof zero);
  begin_session();
}

void RingRow::raise(std::uint32_t epoch) {
  epoch_ = card_epoch_ = epoch;
  flush_ = true;
  resetting_ = 0;
}

/// Raises the epoch at any moment of the traffic. Sometimes a reset of the shell comes first, which is a flush without
/// another epoch.
void RingRow::change_epoch() {
  traffic_ = false;
  if (rng_.chance(0.2)) {
    raise(epoch_);
    steps(between(1, 200));
    if (rng_.chance(0.5)) {
      for (std::uint32_t i = 0; i < 3; ++i) write(abi::kRingRegDoorbell, abi::ring_doorbell(epoch_, i));
      until([this] { return !flush_; }, "for the end of a flush");
      write(abi::kRingRegDoorbell, abi::ring_doorbell(epoch_, 1));
      expect_no_doorbell();
    }
  }
  raise(epoch_ + static_cast<std::uint32_t>(between(1, 3)));
  await_epoch();
}

void RingRow::boot(Stop how, std::uint32_t slots) {
  stop(how);
  configure(slots);
  raise(epoch_ + 1);
  enable();
}

void RingRow::traffic(std::int64_t cycles) {
  memory_.pace = rng_.chance(0.3) ? 1.0 : 0.1 * static_cast<double>(between(2, 9));
  traffic_ = true;
  steps(cycles);
  traffic_ = false;
}

void RingRow::drain() {
  hurry();
  memory_.pace = 1;
  traffic_ = finishing_ = true;
  until([this] { return drained(); }, "for the last frames");
  traffic_ = finishing_ = false;
}

void RingRow::script(int rounds) {
  until([this] { return cycle_ >= 4; }, "for the reset");
  expect(read(abi::kRingRegVersion) == abi::kRingAbiVersion, "another version");
  expect(read(abi::kRingRegPayloadBytes) == payload_bytes_, "another payload");
  expect(read(abi::kRingRegHeartbeat) == positive(parameters_, "HEARTBEAT_US"), "another heartbeat");
  expect(read(abi::kRingRegControl) == abi::kRingQuiet, "not quiet after a reset");
  measure();
  for (int i = 0; i < 60 * rounds; ++i) {
    traffic(rng_.chance(0.5) ? between(0, 300) : between(300, 4000));
    disturb();
  }
  traffic(3000);
  drain();
}

}  // namespace millrace::kernels::tb
