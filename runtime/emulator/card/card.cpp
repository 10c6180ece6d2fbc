// millrace-card: the program of one emulated FPGA card. libxrt_core.so.2 starts it with the descriptors that
// it needs; users never start it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "runtime/emulator/card/image.hpp"
#include "runtime/emulator/card/keep.hpp"
#include "runtime/emulator/shared_memory.hpp"

namespace millrace::runtime::emulator {

namespace abi = plan::abi;
using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

namespace {

/// Decodes the command packet that the host submitted. The packet's content is untrusted.
Command decode_command(const std::byte* packets, std::uint64_t submission) {
  Command command;
  command.slot = static_cast<std::uint32_t>(submission) % kPacketSlots;
  command.generation = static_cast<std::uint32_t>(submission >> 32);
  command.unit = ~0u;
  // The host may write to the packet meanwhile, so each word is read only once.
  const auto* words = reinterpret_cast<const Word*>(packets + std::uint64_t{command.slot} * kPacketBytes);
  const auto word = [&](std::size_t i) { return words[i].load(std::memory_order_relaxed); };
  const auto header = words[0].load(std::memory_order_acquire);
  const std::uint32_t masks = 1 + (header >> 10 & 3);                                // extra_cu_masks
  const std::uint32_t count = std::min(header >> 12 & 0x7ff, kPacketBytes / 4 - 1);  // words after the header
  if (count < masks) return command;
  for (std::uint32_t i = 0; i < masks && command.unit == ~0u; ++i)
    if (const auto mask = word(1 + i); mask != 0)
      command.unit = 32 * i + static_cast<std::uint32_t>(std::countr_zero(mask));
  command.words = std::min<std::uint32_t>(count - masks, Command::kWords);
  for (std::uint32_t i = 0; i < command.words; ++i) command.registers[i] = word(1 + masks + i);
  return command;
}

/// The emulated card: one event loop, on one thread, that reads commands, answers calls and runs partitions.
class Card {
 public:
  /// `image` is the descriptor of the memory to which the host writes FPGA images.
  Card(SharedMemory control, SharedMemory memory, SharedMemory fabric, int image);
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  /// Runs the event loop until the process ends.
  [[noreturn]] void run();

 private:
  ControlBlock& control() const { return control_memory_.as<ControlBlock>(); }
  bool step();
  void sleep(std::uint32_t rung);
  std::uint64_t wake_at() const;
  bool take_commands();
  void take_command(const Command& command);
  bool answer_call();
  std::int32_t load(std::string& why);
  void abort(std::uint32_t slot, PacketState state);
  std::int32_t read_register(std::uint32_t unit, std::uint32_t offset, std::uint32_t& value) const;
  std::int32_t write_register(std::uint32_t unit, std::uint32_t offset, std::uint32_t value);
  bool is_register(std::uint32_t unit, std::uint32_t offset) const;
  LinkPort* link_of(std::uint32_t offset) const;
  void drop_image();
  void reset_shell();
  void collect_faults();
  void report(abi::FaultCode code, std::uint32_t link, const std::string& detail);
  bool tell_supervisor();

  // The members below are constant after construction.
  SharedMemory control_memory_, fabric_memory_, memory_;
  const int image_file_;
  Doorbell& doorbell_;
  const std::uint64_t spin_nanoseconds_;

  MemoryView memory_view_;
  Completions completions_;
  UdpLinks udp_links_;
  CardServices services_;
  std::unique_ptr<LoadedImage> image_;
  abi::FaultReport fault_;  // kNone if there is nothing to report
  std::uint64_t taken_ = 0;
  std::uint32_t answered_ = 0;
};

Card::Card(SharedMemory control_memory, SharedMemory memory, SharedMemory fabric, int image)
    : control_memory_(std::move(control_memory)),
      fabric_memory_(std::move(fabric)),
      memory_(std::move(memory)),
      image_file_(image),
      doorbell_(fabric_memory_.as<Fabric>().doorbell[control().card]),
      spin_nanoseconds_(fabric_memory_.as<Fabric>().spin_nanoseconds),
      memory_view_(memory_.data(), memory_.bytes()),
      completions_(control(), control_memory_.data() + kPacketsOffset),
      udp_links_(fabric_memory_.as<Fabric>(), control().card),
      services_{memory_view_,
                completions_,
                fabric_memory_.data(),
                control().card,
                fabric_memory_.as<Fabric>().rtl != 0,
                udp_links_,
                fabric_memory_.as<Fabric>().pace} {
  if (services_.pace > 0) prctl(PR_SET_TIMERSLACK, 1UL);  // by default, timers may be 50 us late
}

void Card::run() {
  for (;;) {
    const auto rung = doorbell_.rung.load(std::memory_order_seq_cst);
    const bool moved = step();
    completions_.flush();
    if (!moved) sleep(rung);
  }
}

// The hot path begins here.
void Card::sleep(std::uint32_t rung) {
  if (spin_nanoseconds_ > 0) {
    const auto end = Clock::now() + std::chrono::nanoseconds(spin_nanoseconds_);
    while (Clock::now() < end) {
      if (doorbell_.rung.load(std::memory_order_acquire) != rung) return;
      __builtin_ia32_pause();
    }
  }
  const std::uint64_t end = wake_at();
  timespec left{};
  if (end != kNever) {
    const auto now = now_nanoseconds();
    if (now >= end) return;
    left = {static_cast<time_t>((end - now) / 1'000'000'000), static_cast<long>((end - now) % 1'000'000'000)};
  }
  doorbell_.sleeping.store(1, std::memory_order_seq_cst);
  if (doorbell_.rung.load(std::memory_order_seq_cst) == rung)
    futex_wait(doorbell_.sleeping, 1, end != kNever ? &left : nullptr);
  doorbell_.sleeping.store(0, std::memory_order_relaxed);
}

/// Returns the time at which a partition can next advance although nobody rings the doorbell; kNever if there is none.
std::uint64_t Card::wake_at() const {
  std::uint64_t soonest = kNever;
  if (image_ != nullptr)
    for (const auto& partition : image_->partitions) soonest = std::min(soonest, partition.wake_at());
  return soonest;
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
      return completions_.finish(command, PacketState::kError);  // the host accesses these registers itself
    default:
      unit.queue.push_back(command);
  }
}
// The hot path ends here.

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
      abort(call.unit, value == static_cast<std::uint32_t>(PacketState::kTimeout) ? PacketState::kTimeout
                                                                                  : PacketState::kAbort);
      call.status = 0;
      break;
    default:
      call.status = -EINVAL;
  }
  call.value = value;
  call.message[why.copy(call.message, sizeof call.message - 1)] = '\0';
  completions_.flush();  // wake waiters for commands that this call completed
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
    auto image = build_image(header, data, services_);
    if (image.ok()) {
      image_ = std::move(*image);
    } else {
      why = image.error().message();
      result = -EINVAL;
    }
  } catch (const std::exception& error) {  // usually std::bad_alloc
    why = std::string("the image is too large for this machine: ") + error.what();
    result = -ENOMEM;
  }
  munmap(file, bytes);
  return result;
}

/// Drops the image: ends queued commands with an error and disables the links.
void Card::drop_image() {
  if (image_ != nullptr) {
    for (auto& unit : image_->units)
      for (const Command& command : unit->queue) completions_.finish(command, PacketState::kError);
    for (auto& link : image_->links)
      if (link != nullptr) link->disable();
    image_.reset();
  }
  services_.epoch = 0;
  services_.frames = 0;
  services_.busy_nanoseconds = 0;
  fault_ = {};
}

void Card::abort(std::uint32_t slot, PacketState state) {
  if (image_ == nullptr) return;
  take_commands();  // the command may still be in the submission ring
  for (auto& unit : image_->units) {
    const auto found = std::find_if(unit->queue.begin(), unit->queue.end(),
                                    [slot](const Command& command) { return command.slot == slot; });
    if (found == unit->queue.end()) continue;
    completions_.finish(*found, state);
    unit->queue.erase(found);
  }
}

/// Whether the host may access this register. Only the unit millrace_control has such registers.
bool Card::is_register(std::uint32_t unit, std::uint32_t offset) const {
  return image_ != nullptr && unit < image_->units.size() &&
         image_->units[unit]->kind == UnitKind::kControl && offset % 4 == 0;
}

/// Returns the port whose row of the link table has a register at this offset, or null.
LinkPort* Card::link_of(std::uint32_t offset) const {
  const auto row = (offset - abi::kLinkTable) / abi::kLinkRowBytes;
  return offset < abi::kLinkTable || row >= image_->links.size() ? nullptr : image_->links[row].get();
}

std::int32_t Card::read_register(std::uint32_t unit, std::uint32_t offset, std::uint32_t& value) const {
  if (!is_register(unit, offset)) return -EINVAL;
  if (const LinkPort* const link = link_of(offset)) {
    value = link->read((offset - abi::kLinkTable) % abi::kLinkRowBytes);
    return 0;
  }
  constexpr std::uint32_t kRunControl = 0, kIdle = 4;
  const auto busy = services_.busy_nanoseconds / 1000;
  const std::pair<std::uint32_t, std::uint64_t> values[] = {
      {kRunControl, kIdle},
      {abi::kRegAbiVersion, abi::kAbiVersion},
      {abi::kRegEpoch, services_.epoch},
      {abi::kRegLinkPorts, image_->links.size()},
      {abi::kRegFramesLow, services_.frames},
      {abi::kRegFramesHigh, services_.frames >> 32},
      {abi::kRegBusyLow, busy},
      {abi::kRegBusyHigh, busy >> 32},
      {abi::kRegReset, abi::kResetExists},
  };
  for (const auto& [at, content] : values) {
    if (at != offset) continue;
    value = static_cast<std::uint32_t>(content);
    return 0;
  }
  return -EINVAL;
}

std::int32_t Card::write_register(std::uint32_t unit, std::uint32_t offset, std::uint32_t value) {
  if (!is_register(unit, offset)) return -EINVAL;
  if (offset == abi::kRegEpoch) {
    services_.epoch = value;
    for (auto& link : image_->links)
      if (link != nullptr) link->set_epoch(value);
    for (auto& partition : image_->partitions) partition.drop_frames(false);
    return 0;
  }
  if (offset == abi::kRegReset) {
    if (value == 1) reset_shell();
    return 0;
  }
  if (offset == abi::kRegSupervisorStop) {
    report(abi::FaultCode::kStopped, 0, "stopped");
    tell_supervisor();
    return 0;
  }
  LinkPort* const link = link_of(offset);
  if (link == nullptr) return -EINVAL;
  const auto row = (offset - abi::kLinkTable) / abi::kLinkRowBytes;
  const auto in_row = (offset - abi::kLinkTable) % abi::kLinkRowBytes;
  const bool of_link = fault_.code == abi::FaultCode::kProtocol || fault_.code == abi::FaultCode::kLinkDown;
  if (in_row == abi::kLinkEnable && of_link && fault_.link_index == row)
    fault_ = {};  // drop a fault from before the row was disabled
  const int status = link->write(in_row, value);
  const bool taken = std::any_of(image_->links.begin(), image_->links.end(), [&](const auto& other) {
    return other != nullptr && link->collides(*other);
  });
  if (!taken) return status;
  link->disable();
  return -EBUSY;
}

/// Discards all frames and ends all runs of ingress and egress units.
void Card::reset_shell() {
  const auto epoch = services_.epoch;
  services_.epoch = ~epoch;  // with an epoch that no run has, partitions end every run
  for (auto& partition : image_->partitions) {
    partition.drop_frames(true);
    partition.advance();
  }
  services_.epoch = epoch;
}

void Card::collect_faults() {
  for (std::uint32_t row = 0; row < image_->links.size(); ++row)
    if (auto& link = image_->links[row]; link != nullptr && link->has_fault()) {
      const LinkPort::Fault fault = link->take_fault();
      report(fault.code, row, fault.text);
    }
  for (auto& partition : image_->partitions)
    if (const std::string fault = partition.take_fault(); !fault.empty()) {
      std::fprintf(stderr, "millrace-card: a frame was lost: %s\n", fault.c_str());
      report(abi::FaultCode::kInternal, 0, fault);
    }
}

/// Stores a fault for the next report of the supervisor (the unit that reports faults), unless an earlier fault is
/// still unreported. kStopped, which answers the host's request to stop, is dropped if the supervisor has no run.
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
  queue.pop_front();
  fault_ = {};
  return true;
}

/// Ends this process when the host closes its end of the socket or when the host ends in any way.
void end_with_the_host() {
  char byte;
  while (read(kLivenessFd, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

/// Maps the memory that the host shares with this process, and creates the card. The error says what failed.
Result<std::unique_ptr<Card>> open_card() {
  MILLRACE_ASSIGN(auto control, SharedMemory::open(kControlFd));
  MILLRACE_ASSIGN(auto memory, SharedMemory::open(kMemoryFd));
  MILLRACE_ASSIGN(auto fabric, SharedMemory::open(kFabricFd));
  if (control.bytes() != kControlBytes || control.as<ControlBlock>().magic != kProtocolMagic ||
      fabric.bytes() < sizeof(Fabric) || fabric.as<Fabric>().magic != kProtocolMagic ||
      control.as<ControlBlock>().card >= fabric.as<Fabric>().cards)
    return Error(ErrorCode::kEnvironment, "was not built together with libxrt_core.so.2; rebuild both");
  return std::make_unique<Card>(std::move(control), std::move(memory), std::move(fabric), kImageFd);
}

}  // namespace

}  // namespace millrace::runtime::emulator

int main(int count, char** arguments) {
  using namespace millrace::runtime::emulator;
  const char* name = count > 1 ? arguments[1] : "";
  if (count == 3 && std::strcmp(name, "--keep") == 0) return keep_cards(arguments[2]);
  if (fcntl(kLivenessFd, F_GETFD) < 0) {
    std::fprintf(stderr,
                 "do not start millrace-card by hand: Millrace starts it for each emulated card; "
                 "'millrace-card --keep SOCKET' keeps cards alive from one server to the next\n");
    return 2;
  }
  // The card must not end before the host. Ctrl-C and a service manager's SIGTERM reach the whole process
  // group while the host still completes its work. The card also closes all other descriptors of the host.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  syscall(SYS_close_range, kFirstOtherFd, ~0U, 0);
  std::thread(end_with_the_host).detach();
  auto card = open_card();
  if (!card.ok()) {
    std::fprintf(stderr, "millrace-card %s: %s\n", name, card.error().message().c_str());
    return 70;
  }
  (*card)->run();
}
