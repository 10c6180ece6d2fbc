#include "runtime/emulator/shim/emulated_card.hpp"

#include <ert.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "runtime/emulator/shim/costs.hpp"

namespace millrace::runtime::emulator {

namespace {

using Clock = std::chrono::steady_clock;

timespec until(Clock::time_point deadline) {
  const auto left = std::max(Clock::duration::zero(), deadline - Clock::now());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(seconds.count()),
          static_cast<long>(std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds).count())};
}

int errno_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalidInput:
      return EINVAL;
    case ErrorCode::kDoesNotFit:
      return ENOSPC;
    case ErrorCode::kResourceExhausted:
      return EAGAIN;
    case ErrorCode::kEnvironment:
      return ENOENT;
    default:
      return EIO;
  }
}

}  // namespace

EmulatedCard::EmulatedCard(std::uint32_t index, const Topology& topology, const SharedMemory& fabric,
                           SharedMemory control, SharedMemory memory, SharedMemory image, KeptCards* keeper)
    : index_(index),
      card_(topology.cards[index]),
      options_(topology.options),
      cables_(topology.cables),
      fabric_(fabric),
      keeper_(keeper),
      control_memory_(std::move(control)),
      image_memory_(std::move(image)),
      hardware_(topology.options.manners == Manners::kHardware),
      memory_(std::move(memory)),
      submitted_(kPacketSlots, 0) {
  free_packets_.reserve(kPacketSlots);
  for (std::uint32_t slot = kPacketSlots; slot-- > 0;) free_packets_.push_back(slot);
}

void EmulatedCard::opened() {
  const std::lock_guard lock(load_mutex_);
  ++handles_;
}

void EmulatedCard::closed() {
  const std::lock_guard lock(load_mutex_);
  if (--handles_ > 0 || hardware_) return;  // a real card keeps its image and its condition
  kill();
  await_end();
  const std::lock_guard image_lock(image_mutex_);
  uuid_ = {};
  loaded_ = false;
  contexts_.clear();
  memory_.lay_out({}, {});  // without handles there are no buffers and no image
}

bool EmulatedCard::has_image(const Uuid& uuid) const {
  const std::lock_guard lock(image_mutex_);
  return loaded_ && uuid_ == uuid;
}

bool EmulatedCard::busy_with_other(const Uuid& uuid) const {
  const std::lock_guard lock(image_mutex_);
  return uuid_ != uuid &&
         std::any_of(contexts_.begin(), contexts_.end(), [](const Context& c) { return c.users > 0; });
}

/// Sets up this process for the image that the card already runs, unless this process itself loaded the image.
void EmulatedCard::use_image_of_former_host(const ImageLayout& layout) {
  const std::lock_guard lock(image_mutex_);
  if (!contexts_.empty()) return;
  contexts_.assign(layout.header.units, {});
  memory_.lay_out(layout.banks(), layout.groups);
}

void EmulatedCard::load(const axlf* image) {
  const auto refuse = [this](int code, const std::string& why) {
    throw std::system_error(code, std::generic_category(), "emulated card " + card_.name + ": " + why);
  };
  const std::lock_guard lock(load_mutex_);
  // Check for a bad state first. XRT's driver does so, too, before it compares the uuid with that of the
  // loaded image.
  if (condition() != Condition::kWorks)
    refuse(EDEADLK, "the card is in a bad state after a loss; reset the device (xbutil reset)");
  auto layout = read_layout(image, card_.memory_bytes);
  if (!layout.ok()) refuse(errno_of(layout.error()), layout.error().message());
  if (alive() && has_image(layout->uuid)) return use_image_of_former_host(*layout);
  if (busy_with_other(layout->uuid))
    refuse(EBUSY, "compute units of the loaded image are in use; release its kernels first");
  if (!memory_.lay_out(layout->banks(), layout->groups))
    refuse(EBUSY,
           "buffers are allocated, and the new image has other memory banks; release the buffers first");
  {
    const std::lock_guard image_lock(image_mutex_);
    if (uuid_ != layout->uuid) contexts_.assign(layout->header.units, {});
    uuid_ = layout->uuid;
    resettable_ = layout->resettable;
    loaded_ = false;
    set_image(nullptr);
  }
  auto status = alive() ? Status() : start();
  if (status.ok()) status = program(*layout);
  if (!status.ok()) refuse(errno_of(status.error()), status.error().message());
  const std::lock_guard image_lock(image_mutex_);
  loaded_ = true;
  set_image(&*layout);
}

Status EmulatedCard::program(const ImageLayout& layout) {
  const int file = image_memory_.descriptor();
  const auto data = layout.emulation_data;
  const iovec parts[] = {{const_cast<ImageHeader*>(&layout.header), sizeof layout.header},
                         {const_cast<std::byte*>(data.data()), data.size()}};
  const auto bytes = static_cast<off_t>(sizeof layout.header + data.size());
  if (ftruncate(file, bytes) != 0 || pwritev(file, parts, 2, 0) != bytes) {
    (void)!ftruncate(file, 0);
    return Error(ErrorCode::kResourceExhausted,
                 std::string("no memory for the image: ") + std::strerror(errno));
  }
  set_cables(false);
  std::this_thread::sleep_for(options_.program_time);
  std::uint32_t unused = 0;
  std::string message;
  const int status = call(Request::kLoad, 0, 0, unused, &message);
  (void)!ftruncate(file, 0);
  if (status == -EIO)
    return Error(ErrorCode::kUnavailable, "the card process ended while it loaded the image");
  if (status != 0) return Error(ErrorCode::kInvalidInput, message);
  set_cables(true);
  return {};
}

int EmulatedCard::open_context(const Uuid& uuid, std::uint32_t unit, bool shared) {
  if (const int refused = refusal(); refused != 0) return refused;
  const std::lock_guard lock(image_mutex_);
  if (!loaded_ || uuid_ != uuid) return -EBUSY;
  if (unit >= contexts_.size()) return -EINVAL;
  auto& context = contexts_[unit];
  if (context.users > 0 && (context.exclusive || !shared)) return -EBUSY;
  ++context.users;
  context.exclusive = !shared;
  return 0;
}

void EmulatedCard::close_context(std::uint32_t unit) {
  {
    const std::lock_guard lock(image_mutex_);
    if (unit >= contexts_.size() || contexts_[unit].users == 0) return;
    if (--contexts_[unit].users > 0) return;
  }
  if (hardware_) abort_runs(unit, std::nullopt);
}

std::optional<std::uint32_t> EmulatedCard::allocate_packet() {
  const std::lock_guard lock(submit_mutex_);
  if (free_packets_.empty()) return std::nullopt;
  const auto slot = free_packets_.back();
  free_packets_.pop_back();
  std::memset(packet(slot), 0, kPacketBytes);
  return slot;
}

void EmulatedCard::free_packet(std::uint32_t slot) {
  const std::lock_guard lock(submit_mutex_);
  control().generation[slot].fetch_add(1);  // the card then ignores its commands of this packet
  submitted_[slot] = 0;
  free_packets_.push_back(slot);
}

std::byte* EmulatedCard::packet(std::uint32_t slot) const {
  return control_memory_.data() + kPacketsOffset + std::uint64_t{slot} * kPacketBytes;
}

Word& EmulatedCard::packet_header(std::uint32_t slot) const {
  return *reinterpret_cast<Word*>(packet(slot));
}

// The hot path begins here.
int EmulatedCard::submit(std::uint32_t slot) {
  auto& c = control();
  spend(options_.start_cost);
  {
    const std::lock_guard lock(submit_mutex_);
    if (const int refused = refusal(); refused != 0) return refused;
    const auto number = c.submitted.load(std::memory_order_relaxed);
    if (number - c.taken.load(std::memory_order_acquire) >= kPacketSlots) return -EBUSY;
    auto& header = packet_header(slot);
    header.store((header.load(std::memory_order_relaxed) & ~0xfu) | ERT_CMD_STATE_RUNNING,
                 std::memory_order_relaxed);
    const auto generation = c.generation[slot].load(std::memory_order_relaxed) + 1;
    c.generation[slot].store(generation, std::memory_order_relaxed);
    submitted_[slot] = number + 1;
    c.submissions[number % kPacketSlots].store(std::uint64_t{generation} << 32 | slot,
                                               std::memory_order_relaxed);
    c.submitted.store(number + 1, std::memory_order_release);
  }
  ring(fabric().doorbell[index_]);
  return 0;
}

int EmulatedCard::wait(int milliseconds) {
  // Each thread remembers how many completions it has seen. If all threads shared this number, one thread
  // could notice the completion of another thread's command and hide that completion from the other thread.
  thread_local std::uint32_t seen[kMaxCards] = {};
  auto& c = control();
  auto& mine = seen[index_];
  const auto look = [&] {
    const auto now = c.completions.load(std::memory_order_seq_cst);
    const bool changed = now != mine;
    mine = now;
    return changed;
  };
  if (look()) return 1;
  const auto start = Clock::now();
  if (options_.spin.count() > 0) {
    while (Clock::now() < start + options_.spin) {
      if (look()) return 1;
      __builtin_ia32_pause();
    }
  }
  const auto deadline = start + std::chrono::milliseconds(std::max(milliseconds, 0));
  c.waiters.fetch_add(1, std::memory_order_seq_cst);
  bool changed = false;
  while (!(changed = look()) && Clock::now() < deadline) {
    const auto left = until(deadline);
    futex_wait(c.completions, mine, &left);
  }
  c.waiters.fetch_sub(1, std::memory_order_relaxed);
  return changed ? 1 : 0;
}
// The hot path ends here.

int EmulatedCard::call(Request request, std::uint32_t unit, std::uint32_t offset, std::uint32_t& value,
                       std::string* message) {
  const std::lock_guard lock(call_mutex_);
  if (!alive()) return answer_of_lost_card(request, value);
  if (request == Request::kReadRegister || request == Request::kWriteRegister) spend(options_.register_cost);
  auto& c = control().call;
  const auto number = c.asked.load(std::memory_order_relaxed) + 1;
  c.request = request;
  c.unit = unit;
  c.offset = offset;
  c.value = value;
  c.asked.store(number, std::memory_order_release);
  ring(fabric().doorbell[index_]);

  const auto patience =
      request == Request::kLoad ? options_.call_timeout + std::chrono::seconds(60) : options_.call_timeout;
  const auto deadline = Clock::now() + patience;
  for (;;) {
    const auto answered = c.answered.load(std::memory_order_acquire);
    if (answered == kCardGone) return answer_of_lost_card(request, value);
    if (answered == number) break;
    if (Clock::now() >= deadline) {
      kill();
      await_end();
      return answer_of_lost_card(request, value);
    }
    const auto left = until(deadline);
    futex_wait(c.answered, answered, &left);
  }
  value = c.value;
  if (message != nullptr) message->assign(c.message, strnlen(c.message, sizeof c.message));
  return c.status;
}

}  // namespace millrace::runtime::emulator
