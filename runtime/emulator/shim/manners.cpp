// What an emulated card with the option manners=hardware does after a loss: the driver's aborts, its bad
// state, and the reset of the device. README.md, "Manners", names the sources.
#include <ert.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

#include "runtime/emulator/shim/emulated_card.hpp"

namespace millrace::runtime::emulator {

namespace {

bool is_outstanding(std::uint32_t header) {
  const auto state = header & 0xfu;
  return state < ERT_CMD_STATE_COMPLETED || state == ERT_CMD_STATE_SUBMITTED;
}

}  // namespace

int EmulatedCard::refusal() const {
  if (condition() != Condition::kWorks) return -EDEADLK;
  return alive() ? 0 : -EIO;
}

/// Returns what the driver returns for a call to a card whose process has ended. The registers of a lost card read all
/// ones, and writes to them go nowhere; neither is an error.
int EmulatedCard::answer_of_lost_card(Request request, std::uint32_t& value) const {
  if (!reads_all_ones() || request == Request::kLoad) return -EIO;
  if (request == Request::kReadRegister) value = ~0u;
  return 0;
}

/// Whether the packet was submitted and its run has not ended. Called with submit_mutex_ held.
bool EmulatedCard::runs(std::uint32_t slot) const {
  return submitted_[slot] != 0 && is_outstanding(packet_header(slot).load(std::memory_order_acquire));
}

/// Returns the compute unit that the packet's command selects, or ~0.
std::uint32_t EmulatedCard::unit_of(std::uint32_t slot) const {
  ert_start_kernel_cmd command;
  std::memcpy(&command, packet(slot), sizeof command);
  const auto* const masks =
      reinterpret_cast<const std::uint32_t*>(packet(slot) + offsetof(ert_start_kernel_cmd, cu_mask));
  for (std::uint32_t word = 0; word <= command.extra_cu_masks; ++word)
    for (std::uint32_t bit = 0; bit < 32; ++bit)
      if ((masks[word] >> bit & 1u) != 0) return 32 * word + bit;
  return ~0u;
}

/// Ends all runs with this state and wakes their waiters. Called with submit_mutex_ held when the process has ended.
void EmulatedCard::end_runs(std::uint32_t state) {
  for (std::uint32_t slot = 0; slot < kPacketSlots; ++slot) {
    const bool outstanding = runs(slot);
    submitted_[slot] = 0;
    if (!outstanding) continue;
    auto& header = packet_header(slot);
    header.store((header.load(std::memory_order_relaxed) & ~0xfu) | state, std::memory_order_release);
  }
  auto& c = control();
  c.completions.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(c.completions, INT_MAX);
}

/// Aborts runs of a compute unit as XRT's driver does: the run of packet `only` or, without `only`, all. Runs that wait in
/// the unit's queue end as ERT_CMD_STATE_ABORT. The run that the unit executes ends as ERT_CMD_STATE_TIMEOUT after the
/// driver has reset the unit. If the unit has no reset, the card is then in a bad state, in which it serves nothing more.
void EmulatedCard::abort_runs(std::uint32_t unit, std::optional<std::uint32_t> only) {
  std::vector<std::uint32_t> slots;
  {
    const std::lock_guard lock(submit_mutex_);
    for (std::uint32_t slot = 0; slot < kPacketSlots; ++slot)
      if (runs(slot) && unit_of(slot) == unit) slots.push_back(slot);
    std::sort(slots.begin(), slots.end(),
              [this](std::uint32_t a, std::uint32_t b) { return submitted_[a] < submitted_[b]; });
  }
  if (slots.empty()) return;
  const std::uint32_t executing = slots.front();
  if (only.has_value() && std::find(slots.begin(), slots.end(), *only) == slots.end()) return;
  if (only.has_value()) slots.assign(1, *only);
  const bool stops_unit = slots.front() == executing;
  bool resettable = false;
  {
    const std::lock_guard lock(image_mutex_);
    resettable = unit < resettable_.size() && resettable_[unit];
  }
  if (stops_unit && !resettable) set_condition(Condition::kBad);
  // Abort the youngest run first, so that the unit does not begin a run that is about to be aborted.
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    std::uint32_t state = *slot == executing ? ERT_CMD_STATE_TIMEOUT : ERT_CMD_STATE_ABORT;
    (void)call(Request::kAbort, *slot, 0, state);
  }
}

int EmulatedCard::abort_run(std::uint32_t slot) {
  if (hardware_) {
    const auto unit = unit_of(slot);
    abort_runs(unit, slot);
    return 0;
  }
  std::uint32_t state = ERT_CMD_STATE_ABORT;
  return call(Request::kAbort, slot, 0, state);
}

int EmulatedCard::reset() {
  if (!hardware_) return -ENOSYS;
  const std::lock_guard lock(load_mutex_);
  {
    const std::lock_guard submit_lock(submit_mutex_);
    ends_by_reset_ = true;
  }
  kill();
  const bool ended = await_end();
  {
    const std::lock_guard submit_lock(submit_mutex_);
    ends_by_reset_ = false;
  }
  if (!ended) return -ETIMEDOUT;
  std::this_thread::sleep_for(options_.reset_time);
  const std::lock_guard image_lock(image_mutex_);
  uuid_ = {};
  loaded_ = false;
  set_image(nullptr);
  contexts_.clear();
  set_condition(Condition::kWorks);
  return 0;
}

/// Records the loaded image, or that there is none (null), for the next host. Called with image_mutex_ held.
void EmulatedCard::set_image(const ImageLayout* layout) {
  DriverState& driver = control().driver;
  driver.loaded.store(0);
  if (layout == nullptr) return;
  std::copy(layout->uuid.begin(), layout->uuid.end(), driver.uuid);
  driver.units = layout->header.units;
  std::copy(layout->resettable.begin(), layout->resettable.end(), driver.resettable);
  driver.loaded.store(1);
}

Status EmulatedCard::adopt(int liveness, int process) {
  const DriverState& driver = control().driver;
  {
    const std::lock_guard lock(submit_mutex_);
    liveness_ = liveness;
    process_ = process;
    alive_.store(true, std::memory_order_release);
  }
  if (!watch())
    return Error(ErrorCode::kResourceExhausted, "cannot watch the process of emulated card " + card_.name);
  if (driver.loaded.load() != 0 && driver.units <= DriverState::kMaxUnits) {
    const std::lock_guard lock(image_mutex_);
    std::copy(std::begin(driver.uuid), std::end(driver.uuid), uuid_.begin());
    resettable_.assign(driver.resettable, driver.resettable + driver.units);
    loaded_ = true;
  }
  control().waiters.store(0);
  abort_runs_of_former_host();
  return {};
}

void EmulatedCard::abort_runs_of_former_host() {
  {
    const std::lock_guard lock(submit_mutex_);
    for (std::uint32_t slot = 0; slot < kPacketSlots; ++slot) {
      const auto state = packet_header(slot).load(std::memory_order_acquire) & 0xfu;
      if (state == ERT_CMD_STATE_RUNNING) submitted_[slot] = 1 + slot;
    }
  }
  for (std::uint32_t unit = 0; unit < resettable_.size(); ++unit) abort_runs(unit, std::nullopt);
  const std::lock_guard lock(submit_mutex_);
  for (std::uint32_t slot = 0; slot < kPacketSlots; ++slot) {
    if (submitted_[slot] == 0) continue;
    submitted_[slot] = 0;
    control().generation[slot].fetch_add(1);  // the card then ignores commands that are still queued
    packet_header(slot).store(0);
  }
}

/// Stores the time at which the card's cables come up: after the delay `cable_time` if `up`, otherwise never.
/// Wakes the neighbour cards, so that they see the change at once.
void EmulatedCard::set_cables(bool up) {
  auto& f = fabric();
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      (std::chrono::steady_clock::now() + options_.cable_time).time_since_epoch());
  f.doorbell[index_].cables_up_at.store(up ? static_cast<std::uint64_t>(now.count()) : 0);
  for (const auto& cable : cables_) {
    if (cable.a.card == index_) ring(f.doorbell[cable.b.card]);
    if (cable.b.card == index_) ring(f.doorbell[cable.a.card]);
  }
  ring(f.doorbell[index_]);
}

}  // namespace millrace::runtime::emulator
