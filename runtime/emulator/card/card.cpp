#include "runtime/emulator/card/card.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

namespace millrace::runtime::emulator {

namespace abi = plan::abi;
using Clock = std::chrono::steady_clock;

Card::Card(SharedMemory control_memory, SharedMemory memory, SharedMemory fabric, int image)
    : control_memory_(std::move(control_memory)),
      fabric_memory_(std::move(fabric)),
      memory_(std::move(memory)),
      image_file_(image),
      doorbell_(fabric_memory_.as<Fabric>().doorbell[control().card]),
      spin_nanoseconds_(fabric_memory_.as<Fabric>().spin_nanoseconds),
      memory_view_(memory_.data(), memory_.bytes()),
      completions_(control(), control_memory_.data() + kPacketsOffset),
      services_{memory_view_, completions_, 0, 0, 0, fabric_memory_.as<Fabric>().rtl != 0} {}

void Card::run() {
  for (;;) {
    const auto rung = doorbell_.rung.load(std::memory_order_seq_cst);
    const bool moved = step();
    completions_.flush();
    if (!moved) sleep(rung);
  }
}

// hot path
void Card::sleep(std::uint32_t rung) {
  if (spin_nanoseconds_ > 0) {
    const auto end = Clock::now() + std::chrono::nanoseconds(spin_nanoseconds_);
    while (Clock::now() < end) {
      if (doorbell_.rung.load(std::memory_order_acquire) != rung) return;
      __builtin_ia32_pause();
    }
  }
  doorbell_.sleeping.store(1, std::memory_order_seq_cst);
  if (doorbell_.rung.load(std::memory_order_seq_cst) == rung) futex_wait(doorbell_.sleeping, 1);
  doorbell_.sleeping.store(0, std::memory_order_relaxed);
}

bool Card::step() {
  bool moved = take_commands();
  moved |= answer_call();
  if (image_ == nullptr) return moved;
  for (auto& partition : image_->partitions) moved |= partition.advance();
  collect_faults();
  moved |= tell_supervisor();
  return moved;
}

bool Card::take_commands() {
  auto& c = control();
  const auto submitted = c.submitted.load(std::memory_order_acquire);
  if (taken_ == submitted) return false;
  if (submitted - taken_ > kPacketSlots) taken_ = submitted - kPacketSlots;
  for (; taken_ != submitted; ++taken_) {
    const auto submission = c.submissions[taken_ % kPacketSlots].load(std::memory_order_relaxed);
    take_command(decode_command(control_memory_.data() + kPacketsOffset, submission));
  }
  c.taken.store(taken_, std::memory_order_release);
  return true;
}

void Card::take_command(const Command& command) {
  if (image_ == nullptr || command.unit >= image_->units.size())
    return completions_.finish(command, PacketState::kError);
  auto& unit = *image_->units[command.unit];
  switch (unit.kind) {
    case UnitKind::kEmpty:
      return completions_.finish(command, PacketState::kCompleted);
    case UnitKind::kControl:
      return completions_.finish(command, PacketState::kError);  // the host drives this unit itself
    default:
      unit.queue.push(command);
  }
}
// hot path ends

bool Card::answer_call() {
  auto& call = control().call;
  const auto asked = call.asked.load(std::memory_order_acquire);
  if (asked == answered_) return false;
  std::string why;
  std::uint32_t value = call.value;
  switch (call.request) {
    case Request::kLoad:
      call.status = load(why);
      break;
    case Request::kReadRegister:
      call.status = read_register(call.unit, call.offset, value);
      break;
    case Request::kWriteRegister:
      call.status = write_register(call.unit, call.offset, value);
      break;
    case Request::kAbort:
      call.status = abort(call.unit);
      break;
    default:
      call.status = -EINVAL;
  }
  call.value = value;
  call.message[why.copy(call.message, sizeof call.message - 1)] = '\0';
  completions_.flush();  // report what the call completed before the call returns
  answered_ = asked;
  call.answered.store(asked, std::memory_order_release);
  futex_wake(call.answered, 1);
  return true;
}

std::int32_t Card::load(std::string& why) {
  drop_image();
  struct stat status {};
  if (fstat(image_file_, &status) != 0 || static_cast<std::uint64_t>(status.st_size) < sizeof(ImageHeader))
    return -EIO;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* file = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, image_file_, 0);
  if (file == MAP_FAILED) {
    why = "no memory to read the image";
    return -ENOMEM;
  }
  ImageHeader header;
  std::memcpy(&header, file, sizeof header);
  header.units = std::min(header.units, ImageHeader::kMaxUnits);
  header.banks = std::min(header.banks, ImageHeader::kMaxBanks);
  memory_view_.lay_out(std::span(header.bank, header.banks));
  std::int32_t result = 0;
  try {
    const std::span data(static_cast<const std::byte*>(file) + sizeof header, bytes - sizeof header);
    auto image = build_image(header, data, fabric_memory_.data(), control().card, services_);
    if (image.ok()) {
      image_ = std::move(*image);
    } else {
      why = image.error().message();
      result = -EINVAL;
    }
  } catch (const std::exception& error) {  // std::bad_alloc above all
    why = std::string("the image is too large for this machine: ") + error.what();
    result = -ENOMEM;
  }
  munmap(file, bytes);
  return result;
}

/// Ends queued commands with an error and takes links out of service.
void Card::drop_image() {
  if (image_ != nullptr) {
    for (auto& unit : image_->units)
      for (; !unit->queue.empty(); unit->queue.pop())
        completions_.finish(unit->queue.front(), PacketState::kError);
    for (auto& link : image_->links)
      if (link != nullptr) link->disable();
    image_.reset();
  }
  services_.epoch = 0;
  services_.frames = 0;
  services_.busy_nanoseconds = 0;
  fault_ = {};
}

std::int32_t Card::abort(std::uint32_t slot) {
  Command command;
  if (image_ != nullptr)
    for (auto& unit : image_->units)
      if (unit->queue.remove(slot, command)) completions_.finish(command, PacketState::kAbort);
  return 0;
}

bool Card::is_control(std::uint32_t unit) const {
  return image_ != nullptr && unit < image_->units.size() && image_->units[unit]->kind == UnitKind::kControl;
}

std::int32_t Card::read_register(std::uint32_t unit, std::uint32_t offset, std::uint32_t& value) const {
  if (!is_control(unit) || offset % 4 != 0) return -EINVAL;
  const auto busy = services_.busy_nanoseconds / 1000;
  switch (offset) {
    case 0:
      value = 4;
      return 0;  // ap_ctrl: idle
    case abi::kRegAbiVersion:
      value = abi::kAbiVersion;
      return 0;
    case abi::kRegEpoch:
      value = services_.epoch;
      return 0;
    case abi::kRegLinkPorts:
      value = static_cast<std::uint32_t>(image_->links.size());
      return 0;
    case abi::kRegFramesLow:
      value = static_cast<std::uint32_t>(services_.frames);
      return 0;
    case abi::kRegFramesHigh:
      value = static_cast<std::uint32_t>(services_.frames >> 32);
      return 0;
    case abi::kRegBusyLow:
      value = static_cast<std::uint32_t>(busy);
      return 0;
    case abi::kRegBusyHigh:
      value = static_cast<std::uint32_t>(busy >> 32);
      return 0;
    default:
      break;
  }
  const auto row = (offset - abi::kLinkTable) / abi::kLinkRowBytes;
  if (offset < abi::kLinkTable || row >= image_->links.size() || image_->links[row] == nullptr)
    return -EINVAL;
  value = image_->links[row]->read((offset - abi::kLinkTable) % abi::kLinkRowBytes);
  return 0;
}

std::int32_t Card::write_register(std::uint32_t unit, std::uint32_t offset, std::uint32_t value) {
  if (!is_control(unit) || offset % 4 != 0) return -EINVAL;
  if (offset == abi::kRegEpoch) {
    set_epoch(value);
    return 0;
  }
  if (offset == abi::kRegSupervisorStop) {
    report(abi::FaultCode::kStopped, 0, "stopped");
    tell_supervisor();
    return 0;
  }
  const auto row = (offset - abi::kLinkTable) / abi::kLinkRowBytes;
  if (offset < abi::kLinkTable || row >= image_->links.size() || image_->links[row] == nullptr)
    return -EINVAL;
  auto& link = *image_->links[row];
  const auto in_row = (offset - abi::kLinkTable) % abi::kLinkRowBytes;
  if (in_row == abi::kLinkEnable && fault_.code == abi::FaultCode::kProtocol && fault_.link_index == row)
    fault_ = {};  // an unreported fault of the row's last time in service
  const int status = link.write(in_row, value);
  const bool taken = std::any_of(image_->links.begin(), image_->links.end(), [&](const auto& other) {
    return other != nullptr && link.collides(*other);
  });
  if (!taken) return status;
  link.disable();
  return -EBUSY;
}

void Card::set_epoch(std::uint32_t epoch) {
  services_.epoch = epoch;
  for (auto& partition : image_->partitions) partition.flush();
}

void Card::collect_faults() {
  for (std::uint32_t row = 0; row < image_->links.size(); ++row)
    if (auto& link = image_->links[row]; link != nullptr && link->has_fault())
      report(abi::FaultCode::kProtocol, row, link->take_fault());
  for (auto& partition : image_->partitions)
    if (const std::string fault = partition.take_fault(); !fault.empty()) {
      std::fprintf(stderr, "millrace-card: the simulation lost a frame: %s\n", fault.c_str());
      report(abi::FaultCode::kInternal, 0, fault);
    }
}

/// Keeps the first fault. A stop counts only if the supervisor has a run.
void Card::report(abi::FaultCode code, std::uint32_t link, const std::string& detail) {
  const bool stop = code == abi::FaultCode::kStopped;
  if (fault_.code != abi::FaultCode::kNone) return;
  if (stop && (image_->supervisor == nullptr || image_->supervisor->queue.empty())) return;
  fault_.code = code;
  fault_.link_index = link;
  detail.copy(fault_.detail, sizeof fault_.detail - 1);
}

bool Card::tell_supervisor() {
  if (fault_.code == abi::FaultCode::kNone || image_->supervisor == nullptr ||
      image_->supervisor->queue.empty())
    return false;
  auto& queue = image_->supervisor->queue;
  auto* to = memory_view_.at(queue.front().u64(0x10), sizeof fault_);
  if (to != nullptr) std::memcpy(to, &fault_, sizeof fault_);
  completions_.finish(queue.front(), to != nullptr ? PacketState::kCompleted : PacketState::kError);
  queue.pop();
  fault_ = {};
  return true;
}

}  // namespace millrace::runtime::emulator
