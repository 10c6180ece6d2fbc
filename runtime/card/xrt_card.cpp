// The Card implementation for real use. It calls XRT's public C++ API and converts every XRT exception to an error.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <experimental/xrt_ip.h>
#include <experimental/xrt_xclbin.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include "runtime/card/card.hpp"
#include "runtime/card/device_pool.hpp"
#include "runtime/card/loaded_image.hpp"
#include "runtime/card/reset.hpp"
#include "runtime/card/sensors.hpp"
#include "runtime/plan/parameters.hpp"

namespace millrace::runtime::card {

namespace abi = plan::abi;

namespace {

// Returns a compute unit's name in the form that XRT expects: "millrace_ingress:{p0_in0}".
std::string unit_name(const char* kernel, const char* unit) {
  return std::string(kernel) + ":{" + unit + "}";
}

/// Runs `action` and converts an exception of XRT to an error with the given code.
template <class Action>
auto guarded(ErrorCode code, const char* what, Action action) -> decltype(action()) {
  try {
    return action();
  } catch (const std::exception& problem) {
    return Error(code, std::string(what) + ": " + problem.what());
  }
}

// XRT allocates buffers with aligned_alloc() and page alignment. aligned_alloc() requires a multiple of the
// alignment, so sizes are rounded up to whole pages.
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Converts an argument's memory bank, whose type is signed in one XRT function and unsigned in another.
xrt::memory_group bank(int group_id) {
  return static_cast<xrt::memory_group>(group_id);
}

/// Converts the state in a run's packet. There, TIMEOUT means that the driver aborted the run and had to reset its unit;
/// ABORT and NORESPONSE are further ends of a run that a driver gave up.
RunState to_state(ert_cmd_state state) {
  if (state == ERT_CMD_STATE_COMPLETED) return RunState::kDone;
  if (state < ERT_CMD_STATE_COMPLETED || state == ERT_CMD_STATE_SUBMITTED) return RunState::kRunning;
  return RunState::kFailed;
}

RunState state_of(const xrt::run& run) {
  try {
    return to_state(run.state());
  } catch (const std::exception&) {
    return RunState::kFailed;
  }
}

RunState wait_for(const xrt::run& run, std::chrono::milliseconds bound) {
  try {
    // wait() returns TIMEOUT both if the time limit passes and if the driver has aborted the run. The state
    // in the run's packet tells which of the two has happened.
    const ert_cmd_state state = run.wait(std::max(bound, std::chrono::milliseconds(1)));
    return to_state(state == ERT_CMD_STATE_TIMEOUT ? run.state() : state);
  } catch (const std::exception&) {
    return RunState::kFailed;
  }
}

/// Whether the run was started and has not ended.
bool is_outstanding(const xrt::run& run) {
  try {
    const ert_cmd_state state = run.state();
    return state != ERT_CMD_STATE_NEW && to_state(state) == RunState::kRunning;
  } catch (const std::exception&) {
    return false;
  }
}

/// A slot of a unit: a buffer, the buffer's host mapping, and a run whose constant arguments are set.
struct Slot {
  xrt::bo buffer;
  std::byte* mapped = nullptr;
  xrt::run run;
  bool started = false;
};

// Ingress and egress units have the same arguments at the same offsets.
static_assert(+abi::kIngressBuffer == +abi::kEgressBuffer && +abi::kIngressBytes == +abi::kEgressBytes &&
              +abi::kIngressEpoch == +abi::kEgressEpoch && +abi::kIngressSequence == +abi::kEgressSequence);

/// The runs that may be outstanding on a card. Only the thread of the card's owner uses this set.
using Runs = std::set<xrt::run*>;

/// The compute unit of an input port or an output port. Callers use a unit only as an Ingress or only as an Egress.
class Unit final : public Ingress, public Egress {
 public:
  Unit(const xrt::device& device, const LoadedImage& image, const std::string& name, bool feeds,
       std::uint64_t payload_bytes, std::uint32_t slots, std::shared_ptr<Runs> runs)
      : feeds_(feeds),
        payload_bytes_(payload_bytes),
        buffer_bytes_(feeds ? payload_bytes : abi::egress_buffer_bytes(payload_bytes)),
        runs_(std::move(runs)),
        kernel_(image.kernel(name)) {
    slots_.reserve(slots);  // because runs_ has pointers to the slots' runs
    for (std::uint32_t index = 0; index < slots; ++index) {
      Slot slot;
      slot.buffer = xrt::bo(device, whole_pages(buffer_bytes_), bank(kernel_.group_id(abi::kIngressBuffer)));
      slot.mapped = slot.buffer.map<std::byte*>();
      std::memset(slot.mapped, 0, buffer_bytes_);
      slot.run = xrt::run(kernel_);
      slot.run.set_arg(abi::kIngressBuffer, slot.buffer);
      slot.run.set_arg(abi::kIngressBytes, static_cast<std::uint32_t>(payload_bytes));
      slots_.push_back(std::move(slot));
      runs_->insert(&slots_.back().run);
    }
  }
  ~Unit() override {
    for (Slot& slot : slots_) runs_->erase(&slot.run);
  }

  Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) override {
    return guarded(ErrorCode::kUnavailable, feeds_ ? "ingress" : "egress", [&]() -> Status {
      Slot& s = slots_[slot];
      if (feeds_) s.buffer.sync(XCL_BO_SYNC_BO_TO_DEVICE, buffer_bytes_, 0);
      s.run.set_arg(abi::kIngressEpoch, epoch);
      s.run.set_arg(abi::kIngressSequence, sequence);
      s.run.start();
      s.started = true;
      return {};
    });
  }

  std::span<std::byte> buffer(std::uint32_t slot) override { return {slots_[slot].mapped, payload_bytes_}; }

  RunState state(std::uint32_t slot) override {
    const Slot& s = slots_[slot];
    return s.started ? state_of(s.run) : RunState::kDone;
  }

  RunState wait(std::uint32_t slot, std::chrono::milliseconds bound) override {
    const Slot& s = slots_[slot];
    return s.started ? wait_for(s.run, bound) : RunState::kDone;
  }

  Result<abi::StatusTrailer> fetch(std::uint32_t slot) override {
    return guarded(ErrorCode::kUnavailable, "egress", [&]() -> Result<abi::StatusTrailer> {
      Slot& s = slots_[slot];
      s.buffer.sync(XCL_BO_SYNC_BO_FROM_DEVICE, buffer_bytes_, 0);
      abi::StatusTrailer trailer;
      std::memcpy(&trailer, s.mapped + abi::trailer_offset(payload_bytes_), sizeof trailer);
      return trailer;
    });
  }

  std::span<const std::byte> payload(std::uint32_t slot) const override {
    return {slots_[slot].mapped, payload_bytes_};
  }

 private:
  const bool feeds_;
  const std::uint64_t payload_bytes_, buffer_bytes_;
  const std::shared_ptr<Runs> runs_;
  // Runs and buffers are destroyed before the kernel, because XRT refuses a new image while they exist.
  xrt::kernel kernel_;
  std::vector<Slot> slots_;
};

class XrtCard final : public Card {
 public:
  XrtCard(unsigned index, xrt::device device) : index_(index), device_(std::move(device)) {}
  ~XrtCard() override {
    unload();
    DevicePool::instance().release(index_);
  }

  Result<bool> load(std::span<const std::byte> image) override {
    unload();
    const auto* const bytes = reinterpret_cast<const char*>(image.data());
    xrt::xclbin xclbin;
    try {
      xclbin = xrt::xclbin(std::vector<char>(bytes, bytes + image.size()));
    } catch (const std::exception& problem) {
      return Error(ErrorCode::kCorrupt, std::string("XRT rejects the image: ") + problem.what());
    }
    const bool programmed = image_uuid_of(device_) != xclbin.get_uuid().to_string();
    try {
      image_ = LoadedImage(device_, xclbin);
    } catch (const std::system_error& problem) {
      // If XRT's driver could not end a run, it refuses every call with EDEADLK until the device is reset.
      const bool bad_state = std::abs(problem.code().value()) == EDEADLK;
      return Error(bad_state ? ErrorCode::kUnavailable : ErrorCode::kEnvironment,
                   std::string("loading the image: ") + problem.what());
    } catch (const std::exception& problem) {
      return Error(ErrorCode::kEnvironment, std::string("loading the image: ") + problem.what());
    }
    return guarded(ErrorCode::kEnvironment, "opening the image", [&]() -> Result<bool> {
      resettable_ = has_unit_reset(image);
      const std::lock_guard lock(control_mutex_);
      control_ = image_.ip(unit_name(abi::kControlKernel, abi::kControlUnit));
      loaded_ = true;
      const std::uint32_t version = control_.read_register(abi::kRegAbiVersion);
      if (version == kAllOnes) return lost();
      if (version != abi::kAbiVersion) {
        return Error(ErrorCode::kCorrupt, "the image has ABI version " + std::to_string(version) +
                                              ", this program needs " + std::to_string(abi::kAbiVersion) +
                                              "; compile the model again");
      }
      return programmed;
    });
  }

  void unload() override {
    parameters_.clear();
    supervisor_ = xrt::run();
    supervisor_kernel_ = xrt::kernel();
    report_ = xrt::bo();
    const std::lock_guard lock(control_mutex_);
    control_ = xrt::ip();
    loaded_ = false;
    image_ = LoadedImage();
  }

  Result<std::unique_ptr<Ingress>> make_ingress(const std::string& unit, std::uint64_t bytes,
                                                std::uint32_t slots) override {
    return make<Ingress>(unit, true, bytes, slots);
  }
  Result<std::unique_ptr<Egress>> make_egress(const std::string& unit, std::uint64_t bytes,
                                              std::uint32_t slots) override {
    return make<Egress>(unit, false, bytes, slots);
  }

  Status give_parameters(const std::string& unit, std::span<const std::byte> file) override {
    MILLRACE_ASSIGN(const plan::ParameterHeader header, plan::read_parameter_header(file));
    return guarded(ErrorCode::kUnavailable, unit.c_str(), [&]() -> Status {
      const xrt::kernel kernel = image_.kernel(unit);
      xrt::bo buffer(device_, whole_pages(file.size()), bank(kernel.group_id(abi::kParametersBuffer)));
      buffer.write(file.data(), file.size(), 0);
      buffer.sync(XCL_BO_SYNC_BO_TO_DEVICE);
      xrt::run run(kernel);
      run.set_arg(abi::kParametersBuffer, buffer);
      run.set_arg(abi::kParametersBytes, static_cast<std::uint32_t>(file.size()));
      run.set_arg(abi::kParametersLoadOffset, static_cast<std::uint32_t>(header.load.offset));
      run.set_arg(abi::kParametersLoadBytes, static_cast<std::uint32_t>(header.load.bytes));
      run.set_arg(abi::kParametersStreamedOffset, static_cast<std::uint32_t>(header.streamed.offset));
      run.start();
      switch (wait_for(run, parameter_timeout(file.size()))) {
        case RunState::kDone:
          parameters_.push_back(std::move(buffer));
          return {};
        case RunState::kRunning:
          return Error(ErrorCode::kUnavailable, unit + ": the card did not load its parameters in time");
        case RunState::kFailed:
          break;
      }
      return Error(ErrorCode::kCorrupt, unit + ": the card is lost, or it rejects these parameters");
    });
  }

  Result<std::uint32_t> read(std::uint32_t offset) override {
    const std::lock_guard lock(control_mutex_);
    if (!loaded_) return no_image();
    return guarded(ErrorCode::kUnavailable, "control registers", [&]() -> Result<std::uint32_t> {
      const std::uint32_t value = control_.read_register(offset);
      if (value == kAllOnes && control_.read_register(abi::kRegAbiVersion) == kAllOnes) return lost();
      return value;
    });
  }

  Status write(std::uint32_t offset, std::uint32_t value) override {
    const std::lock_guard lock(control_mutex_);
    if (!loaded_) return no_image();
    return guarded(ErrorCode::kUnavailable, "control registers", [&]() -> Status {
      control_.write_register(offset, value);
      return {};
    });
  }

  Status start_supervisor() override {
    return guarded(ErrorCode::kUnavailable, "supervisor", [&]() -> Status {
      supervisor_kernel_ = image_.kernel(unit_name(abi::kSupervisorKernel, abi::kSupervisorUnit));
      report_ = xrt::bo(device_, kPageBytes, bank(supervisor_kernel_.group_id(abi::kSupervisorReport)));
      supervisor_ = xrt::run(supervisor_kernel_);
      supervisor_.set_arg(abi::kSupervisorReport, report_);
      supervisor_.start();
      return {};
    });
  }

  RunState wait_supervisor(std::chrono::milliseconds bound) override {
    if (!supervisor_) return RunState::kFailed;
    return wait_for(supervisor_, bound);
  }

  bool supervisor_ended() override { return !supervisor_ || state_of(supervisor_) != RunState::kRunning; }

  abi::FaultReport fault_report() override {
    abi::FaultReport report;
    try {
      report_.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
      std::memcpy(&report, report_.map<std::byte*>(), sizeof report);
    } catch (const std::exception&) {
      report = {};
    }
    report.detail[sizeof report.detail - 1] = 0;
    return report;
  }

  Status reset(ResetStep step) override {
    switch (step) {
      case ResetStep::kUnit:
        if (!resettable_) break;
        MILLRACE_TRY(abort_runs());
        return check_alive();
      case ResetStep::kShell:
        MILLRACE_TRY(reset_shell());
        return check_alive();
      case ResetStep::kDevice:
        unload();
        return reset_device(device_);
    }
    return Card::reset(step);
  }

  CardInfo info() override { return info_of(index_, device_); }

  Sensors sensors() override {
    return {hottest_celsius_of(info_of<xrt::info::device::thermal>(device_)),
            power_watts_of(info_of<xrt::info::device::electrical>(device_))};
  }

  std::optional<std::uint64_t> host_memory_bytes() override {
    return host_memory_bytes_of(info_of<xrt::info::device::memory>(device_));
  }

 private:
  /// Aborts all runs. XRT's driver resets the units that execute them.
  Status abort_runs() {
    return guarded(ErrorCode::kUnavailable, "aborting the card's runs", [&]() -> Status {
      for (xrt::run* const run : *runs_)
        if (is_outstanding(*run)) static_cast<void>(run->abort());
      if (supervisor_ && is_outstanding(supervisor_)) static_cast<void>(supervisor_.abort());
      return {};
    });
  }

  Status reset_shell() {
    MILLRACE_ASSIGN(std::uint32_t state, read(abi::kRegReset));
    if ((state & abi::kResetExists) == 0) return Card::reset(ResetStep::kShell);
    MILLRACE_TRY(write(abi::kRegReset, 1));
    MILLRACE_TRY(write(abi::kRegSupervisorStop, 1));
    const auto until = std::chrono::steady_clock::now() + kShellBound;
    const auto any_runs = [&] {
      return std::any_of(runs_->begin(), runs_->end(),
                         [](const xrt::run* run) { return is_outstanding(*run); });
    };
    do {
      if (std::chrono::steady_clock::now() > until)
        return Error(ErrorCode::kUnavailable, "the card's shell was reset, but kernel runs do not end");
      // Some thread must wait in XRT, or XRT does not notice that runs end (README.md).
      if (wait_supervisor(kShellPoll) != RunState::kRunning) std::this_thread::sleep_for(kShellPoll);
      MILLRACE_ASSIGN(state, read(abi::kRegReset));
    } while ((state & abi::kResetBusy) != 0 || any_runs());
    return {};
  }

  Status check_alive() {
    MILLRACE_ASSIGN(const std::uint32_t version, read(abi::kRegAbiVersion));
    if (version == abi::kAbiVersion) return {};
    return Error(ErrorCode::kUnavailable, "the card does not answer after a reset");
  }

  static constexpr std::chrono::seconds kShellBound{2};
  static constexpr std::chrono::milliseconds kShellPoll{1};

  // Every register of a card that is lost, or that has fallen off the PCIe bus, reads as this value.
  static constexpr std::uint32_t kAllOnes = ~0U;

  static Error lost() {
    return Error(ErrorCode::kUnavailable, "the card is lost: its registers read all ones");
  }
  static Error no_image() { return Error(ErrorCode::kUnavailable, "no image is loaded"); }

  template <class Interface>
  Result<std::unique_ptr<Interface>> make(const std::string& unit, bool feeds, std::uint64_t bytes,
                                          std::uint32_t slots) {
    if (bytes == 0 || bytes > kLargestFrame)
      return Error(ErrorCode::kInvalidInput, unit + ": a frame of " + std::to_string(bytes) +
                                                 " bytes; 1 to " + std::to_string(kLargestFrame) +
                                                 " are possible");
    return guarded(ErrorCode::kEnvironment, unit.c_str(), [&]() -> Result<std::unique_ptr<Interface>> {
      return std::unique_ptr<Interface>(
          std::make_unique<Unit>(device_, image_, unit, feeds, bytes, slots, runs_));
    });
  }

  static constexpr std::uint64_t kLargestFrame = 1U << 31U;
  /// Returns the time limit for loading parameters. A simulated card loads them slowly, word by word.
  static constexpr std::chrono::milliseconds parameter_timeout(std::uint64_t bytes) {
    return std::chrono::milliseconds(10'000 + bytes / 50);
  }

  // The members below are constant after construction.
  const unsigned index_;
  xrt::device device_;

  // The members below are used only by the owner's thread.
  LoadedImage image_;
  xrt::kernel supervisor_kernel_;
  xrt::bo report_;
  xrt::run supervisor_;
  std::vector<xrt::bo> parameters_;  // kept while the partitions may read them
  const std::shared_ptr<Runs> runs_ = std::make_shared<Runs>();
  bool resettable_ = false;  // whether XRT's driver can reset the image's units

  std::mutex control_mutex_;
  // control_mutex_ protects the members below.
  xrt::ip control_;
  bool loaded_ = false;
};

}  // namespace

Result<std::unique_ptr<Card>> open(const Address& address) {
  MILLRACE_ASSIGN(const unsigned index, DevicePool::instance().index_of(address));
  MILLRACE_ASSIGN(xrt::device device, DevicePool::instance().acquire(index));
  return std::unique_ptr<Card>(std::make_unique<XrtCard>(index, std::move(device)));
}

}  // namespace millrace::runtime::card
