// What goes wrong between the host and a ring unit: the epoch changes, the host dies or breaks the rules, memory fails.
// After each disturbance, a session works again.
#include "kernels/tb/ring_row.hpp"

namespace millrace::kernels::tb {

void RingRow::disturb() {
  switch (between(0, 12)) {
    case 0:
      return drain();
    case 1:
      return late_doorbell();
    case 2:
      return wrong_doorbell();
    case 3:
      return wrong_configuration();
    case 4:
      return wrong_moment();
    case 5:
      return failing_write();
    case 6:
      return second_session();
    case 7:
      return dead_host();
    case 8:
      return boot(Stop::kReset);
    case 9:
      return misuse();
    case 10:
      return misuse();
    default:
      return change_epoch();
  }
}

/// Doorbells of an older epoch, which another thread of an honest host may write, must have no effect.
void RingRow::late_doorbell() {
  traffic_ = false;
  const std::uint32_t old = epoch_, before = rung_;
  raise(epoch_ + 1);
  for (int i = 0; i < 3; ++i) write(abi::kRingRegDoorbell, abi::ring_doorbell(old, before + 1));
  await_epoch();
  write(abi::kRingRegDoorbell, abi::ring_doorbell(old, slots_));
  expect_no_doorbell();
}

void RingRow::expect_no_doorbell() {
  expect(read(abi::kRingRegDoorbell) == abi::ring_doorbell(epoch_, 0), "a late doorbell was accepted");
  expect(read(abi::kRingRegError) == 0, "a late doorbell is an error");
}

void RingRow::expect_error(abi::RingError error, std::optional<std::uint32_t> detail) {
  expected_error_ = error;
  expected_detail_ = detail;
}

/// Waits for the expected error, and heals the unit.
void RingRow::recover() {
  until([this] { return memory_.word(status_base_ + offsetof(abi::RingStatus, error)) << 32 != 0; },
        "for an error");
  ++errors_;
  expect(read(abi::kRingRegError) == static_cast<std::uint32_t>(expected_error_), "register: another error");
  expect(read(abi::kRingRegFaults) == faults_ + 1, "register: faults");
  if (expected_detail_) expect(read(abi::kRingRegDetail) == *expected_detail_, "register: detail");
  traffic(between(0, 500));
  if (rng_.chance(0.5)) return change_epoch();
  boot(rng_.chance(0.5) ? Stop::kReset : Stop::kDisable);
}

void RingRow::wrong_doorbell() {
  traffic_ = false;
  settle();
  const auto offset = static_cast<std::uint32_t>(rng_.chance(0.5) ? 1 : between(1, 500));
  const std::uint32_t wrong =
      rng_.chance(0.5) && rung_ > 0 ? rung_ - offset : rung_ + slots_ + offset * offset / 9 + 1;
  const std::uint32_t value = abi::ring_doorbell(epoch_, wrong);
  expect_error(abi::RingError::kDoorbell, value);
  write(abi::kRingRegDoorbell, value);
  recover();
}

/// Expects that the unit has refused to be enabled, with some of these bits.
void RingRow::refused(std::uint32_t detail_bits) {
  expect((read(abi::kRingRegControl) & abi::kRingEnable) == 0, "enabled against the rules");
  expect(read(abi::kRingRegError) == static_cast<std::uint32_t>(abi::RingError::kConfiguration),
         "no refusal");
  const std::uint32_t detail = read(abi::kRingRegDetail);
  expect(detail != 0 && (detail & ~detail_bits) == 0,
         "refused for another reason: " + std::to_string(detail));
  ++faults_;
}

void RingRow::wrong_configuration() {
  stop(Stop::kDisable);
  configure();
  raise(epoch_ + 1);
  until([this] { return !flush_; }, "for the end of a flush");
  const auto bit = [this](int low, int high) { return 1u << between(low, high); };
  std::uint32_t reason = 0;
  switch (between(0, 4)) {
    case 0:
      write(abi::kRingRegBaseLow, static_cast<std::uint32_t>(base_) | bit(0, 11)), reason = abi::kRingBadBase;
      break;
    case 1:
      write(abi::kRingRegBaseHigh, bit(16, 31)), reason = abi::kRingBadBase;
      break;
    case 2:
      write(abi::kRingRegStatusBaseLow, static_cast<std::uint32_t>(status_base_) | bit(0, 5));
      reason = abi::kRingBadStatusBase;
      break;
    case 3:
      write(abi::kRingRegStatusBaseHigh, bit(16, 31)), reason = abi::kRingBadStatusBase;
      break;
    default: {
      const std::uint32_t slots[] = {0, 1, 3, 5, 24, 255, 257, 512, 0x10040, 0x80000000};
      write(abi::kRingRegSlots, slots[between(0, 9)]);
      reason = abi::kRingBadSlots;
    }
  }
  write(abi::kRingRegControl, abi::kRingEnable);
  settle();
  refused(reason);
  steps(300);
  boot(Stop::kDisable);
}

/// Writes registers at moments at which they must have no effect.
void RingRow::wrong_moment() {
  for (const std::uint32_t address : {abi::kRingRegBaseLow, abi::kRingRegBaseHigh, abi::kRingRegStatusBaseLow,
                                      abi::kRingRegStatusBaseHigh, abi::kRingRegSlots, abi::kRingRegMode}) {
    const std::uint32_t before = read(address);
    write(address, before ^ static_cast<std::uint32_t>(between(1, 0xffffffff)));
    expect(read(address) == before,
           "register " + std::to_string(address) + " changes while the unit is enabled");
  }
  traffic(between(0, 300));
  armed_ = {};
  settle();

  write(abi::kRingRegControl, 0);
  write(abi::kRingRegControl, abi::kRingEnable);
  settle();
  enabled_ = false;
  refused(abi::kRingNotQuiet | abi::kRingOldEpoch);

  boot(Stop::kDisable);
}

void RingRow::failing_write() {
  if (read(abi::kRingRegError) != 0) return;
  int left = static_cast<int>(between(0, 12));
  expect_error(abi::RingError::kWriteFailed, std::nullopt);
  memory_.write_fails = [this, &left](std::uint64_t address) {
    if (left-- != 0) return false;
    write_failed(address);
    return true;
  };
  traffic_ = true;
  until([&left] { return left < 0; }, "for a write that fails");
  traffic_ = false;
  recover();
  memory_.write_fails = {};
}

/// Disables the unit in the traffic, and tries to enable it again in the same epoch.
void RingRow::second_session() {
  stop(Stop::kDisable);
  configure();
  write(abi::kRingRegControl, abi::kRingEnable);
  settle();
  refused(abi::kRingOldEpoch);
  steps(200);
  boot(Stop::kDisable);
}

/// The host stops in the traffic without any farewell. Later its successor starts with other memory.
void RingRow::dead_host() {
  traffic_ = false;
  steps(between(0, 2000));
  boot(rng_.chance(0.3) ? Stop::kReset : Stop::kDisable);
}

}  // namespace millrace::kernels::tb
