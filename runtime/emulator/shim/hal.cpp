// The HAL functions that libxrt_coreutil calls: XRT's C functions, implemented with emulated cards. The
// functions for buffers and commands are in buffers.cpp.
//
// The functions behave as XRT documents them (xrt.h, experimental/xrt-next.h), with one difference: to give a
// reason, xclLoadXclBin throws std::system_error and xclOpen throws std::runtime_error, where XRT's own
// functions return only a number or null. Their callers pass exceptions on to the program.
#include <experimental/xrt-next.h>
#include <xrt.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "runtime/base/socket_address.hpp"
#include "runtime/emulator/faults.hpp"
#include "runtime/emulator/shim/handle.hpp"
#include "runtime/emulator/shim/xrt_core.hpp"

namespace {

using namespace millrace;
using namespace millrace::runtime::emulator;

/// The emulated cards and cables of this process, as MILLRACE_EMULATION describes them.
struct Machine {
  Machine();
  Status build(const std::string& text, const Topology& topology);
  Status find_keeper(const std::string& text, const Topology& topology);
  Status make_fabric(const Topology& topology);
  Status add_card(std::uint32_t index, const Topology& topology);

  std::unique_ptr<KeptCards> keeper;  // null: cards end with this process
  SharedMemory fabric_memory;
  std::vector<std::unique_ptr<EmulatedCard>> cards;  // empty if MILLRACE_EMULATION describes none or is wrong
  std::string problem;                               // why MILLRACE_EMULATION is wrong
};

/// Writes the addresses and faults of a UDP cable to the memory that all cards share (the "fabric").
Status set_up_udp(const Topology::Cable& cable, std::uint32_t index, Fabric& fabric) {
  fabric.uses_udp[index] = cable.udp ? 1 : 0;
  if (!cable.udp) return {};
  const std::string* const addresses[] = {&cable.address_a, &cable.address_b};
  for (std::size_t end = 0; end < 2; ++end) {
    MILLRACE_ASSIGN(const auto address, parse_socket_address(*addresses[end]));
    fabric.udp[index][end].host.store(address.host);
    fabric.udp[index][end].given_port.store(address.port);
    write_faults(cable.faults, fabric.faults[index][end]);
  }
  return {};
}

Machine::Machine() {
  const char* text = std::getenv("MILLRACE_EMULATION");
  if (text == nullptr) return;
  const auto topology = parse_topology(text);
  const auto status = topology.ok() ? build(text, *topology) : Status(topology.error());
  if (status.ok()) return;
  for (auto& card : cards)
    static_cast<void>(card.release());  // threads that watch their processes may use them
  cards.clear();
  problem = status.error().message();
}

Status Machine::make_fabric(const Topology& topology) {
  MILLRACE_ASSIGN(fabric_memory,
                  SharedMemory::create("millrace-fabric",
                                       fabric_bytes(static_cast<std::uint32_t>(topology.cables.size()))));
  auto& fabric = fabric_memory.as<Fabric>();
  fabric.magic = kProtocolMagic;
  fabric.cards = static_cast<std::uint32_t>(topology.cards.size());
  fabric.cables = static_cast<std::uint32_t>(topology.cables.size());
  fabric.spin_nanoseconds =
      static_cast<std::uint32_t>(std::chrono::nanoseconds(topology.options.spin).count());
  fabric.rtl = topology.options.rtl ? 1 : 0;
  fabric.hardware = topology.options.manners == Manners::kHardware ? 1 : 0;
  fabric.pace = topology.options.pace;
  for (std::size_t i = 0; i < topology.cables.size(); ++i) {
    fabric.cable[i][0] = {topology.cables[i].a.card, topology.cables[i].a.connector};
    fabric.cable[i][1] = {topology.cables[i].b.card, topology.cables[i].b.connector};
    MILLRACE_TRY(set_up_udp(topology.cables[i], static_cast<std::uint32_t>(i), fabric));
    if (const auto& cable = topology.cables[i]; cable.gigabits_per_second > 0) {
      fabric.times[i].nanoseconds_per_byte = 8 / cable.gigabits_per_second * fabric.pace;
      fabric.times[i].latency_nanoseconds = static_cast<std::uint64_t>(cable.latency_ns * fabric.pace);
    }
  }
  return {};
}

/// Returns shared memory that a former host stored at the keeper under the name, or nothing if there is none.
Result<std::vector<SharedMemory>> kept_memory(KeptCards* keeper, const std::string& name) {
  std::vector<SharedMemory> memory;
  if (keeper == nullptr) return memory;
  for (const int descriptor : keeper->take(name)) {
    MILLRACE_ASSIGN(auto one, SharedMemory::open(descriptor));
    memory.push_back(std::move(one));
  }
  return memory;
}

/// Connects to the keeper that MILLRACE_CARDS names. Does nothing if the variable is not set.
Status Machine::find_keeper(const std::string& text, const Topology& topology) {
  const char* const path = std::getenv("MILLRACE_CARDS");
  if (path == nullptr || *path == '\0') return {};
  if (topology.options.manners != Manners::kHardware)
    return Error(ErrorCode::kInvalidInput,
                 "MILLRACE_CARDS is set, but emulated cards outlive the server only with --manners hardware; "
                 "give this option, or unset MILLRACE_CARDS");
  MILLRACE_ASSIGN(keeper, KeptCards::connect(path));
  MILLRACE_ASSIGN(auto kept, kept_memory(keeper.get(), "machine"));
  if (!kept.empty()) {
    const std::string of_keeper(reinterpret_cast<const char*>(kept[0].data()), kept[0].bytes());
    if (of_keeper == text) return {};
    keeper.reset();  // so that the host for which the machine is kept can connect
    return Error(ErrorCode::kInvalidInput,
                 std::string("MILLRACE_CARDS: the keeper at ") + path + " keeps another machine: '" +
                     of_keeper +
                     "'; use the same cluster and options, or start another millrace-card --keep");
  }
  MILLRACE_ASSIGN(auto machine, SharedMemory::create("millrace-machine", text.size()));
  text.copy(reinterpret_cast<char*>(machine.data()), text.size());
  keeper->put("machine", {machine.descriptor()});
  return {};
}

Error foreign_cards() {
  return Error(ErrorCode::kEnvironment,
               "MILLRACE_CARDS: the kept cards belong to another build of Millrace; "
               "start millrace-card --keep of this build");
}

Status Machine::add_card(std::uint32_t index, const Topology& topology) {
  const std::string number = std::to_string(index);
  MILLRACE_ASSIGN(auto memory, kept_memory(keeper.get(), "card" + number));
  if (!memory.empty()) {
    // The image's memory is empty between two loads.
    if (memory.size() != 3 || memory[0].bytes() != kControlBytes ||
        memory[1].bytes() != topology.cards[index].memory_bytes)
      return foreign_cards();
  } else {
    memory.resize(3);
    MILLRACE_ASSIGN(memory[0], SharedMemory::create("millrace-control", kControlBytes));
    MILLRACE_ASSIGN(memory[1], SharedMemory::create("millrace-memory", topology.cards[index].memory_bytes));
    MILLRACE_ASSIGN(memory[2], SharedMemory::create("millrace-image", sizeof(ImageHeader)));
    if (keeper != nullptr)
      keeper->put("card" + number, {memory[0].descriptor(), memory[1].descriptor(), memory[2].descriptor()});
  }
  cards.push_back(std::make_unique<EmulatedCard>(index, topology, fabric_memory, std::move(memory[0]),
                                                 std::move(memory[1]), std::move(memory[2]), keeper.get()));
  const auto process = keeper == nullptr ? std::vector<int>() : keeper->take("process" + number);
  return process.size() == 2 ? cards.back()->adopt(process[0], process[1]) : Status();
}

Status Machine::build(const std::string& text, const Topology& topology) {
  MILLRACE_TRY(find_keeper(text, topology));
  MILLRACE_ASSIGN(auto fabric, kept_memory(keeper.get(), "fabric"));
  if (!fabric.empty()) {
    fabric_memory = std::move(fabric[0]);
    if (fabric_memory.bytes() != fabric_bytes(static_cast<std::uint32_t>(topology.cables.size())) ||
        fabric_memory.as<Fabric>().magic != kProtocolMagic)
      return foreign_cards();
  } else {
    MILLRACE_TRY(make_fabric(topology));
    if (keeper != nullptr) keeper->put("fabric", {fabric_memory.descriptor()});
  }
  for (std::uint32_t i = 0; i < topology.cards.size(); ++i) MILLRACE_TRY(add_card(i, topology));
  return {};
}

/// Returns the machine, which is made at the first call and never destroyed, because libxrt_coreutil closes
/// devices in its own destructors.
Machine& machine() {
  static Machine& machine = *new Machine;
  return machine;
}

constexpr std::uint32_t kVirtualUnit = ~0u;  // means the whole image instead of a compute unit

}  // namespace

extern "C" {

unsigned xclProbe() {
  install_system();
  return static_cast<unsigned>(machine().cards.size());
}

xclDeviceHandle xclOpen(unsigned index, const char*, xclVerbosityLevel) {
  const unsigned cards = xclProbe();
  if (!machine().problem.empty()) throw std::runtime_error(machine().problem);
  if (index >= cards) return nullptr;
  const std::lock_guard lock(open_mutex());
  auto handle = std::make_unique<Handle>(*machine().cards[index]);
  try {
    handle->core = xrt_core::get_userpf_device(handle.get(), index);
    return handle.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

void xclClose(xclDeviceHandle handle) {
  const std::lock_guard lock(open_mutex());
  delete &open_device(handle);
}

int xclGetDeviceInfo2(xclDeviceHandle handle, xclDeviceInfo2* info) {
  auto& card = open_device(handle).card;
  *info = {};
  info->mMagic = 0x586c0c6c;
  info->mHALMajorVersion = 2;
  info->mHALMinorVersion = 13;
  info->mDataAlignment = 4096;
  info->mMinTransferSize = 64;
  info->mDDRSize = card.memory_bytes();
  info->mDDRFreeSize = card.memory_bytes();
  info->mDDRBankCount = 1;
  info->mPciSlot = card.index();
  std::fill(std::begin(info->mOCLFrequency), std::end(info->mOCLFrequency), static_cast<unsigned short>(300));
  card.device().copy(info->mName, sizeof info->mName - 1);
  return 0;
}

int xclLoadXclBin(xclDeviceHandle handle, const axlf* image) {
  open_device(handle).card.load(image);
  open_device(handle).core->register_axlf(image);
  return 0;
}

int xclOpenContext(xclDeviceHandle handle, const xuid_t uuid, unsigned unit, bool shared) {
  Handle& device = open_device(handle);
  Uuid wanted;
  std::memcpy(wanted.data(), uuid, wanted.size());
  if (device.card.refusal() == -EDEADLK) return -EDEADLK;
  if (unit == kVirtualUnit) return device.card.has_image(wanted) ? 0 : -EBUSY;
  const int status = device.card.open_context(wanted, unit, shared);
  if (status != 0) return status;
  const std::lock_guard lock(device.mutex);
  device.contexts.push_back(unit);
  return 0;
}

int xclCloseContext(xclDeviceHandle handle, const xuid_t, unsigned unit) {
  if (unit == kVirtualUnit) return 0;
  Handle& device = open_device(handle);
  {
    const std::lock_guard lock(device.mutex);
    const auto open = std::find(device.contexts.begin(), device.contexts.end(), unit);
    if (open == device.contexts.end()) return -EINVAL;
    device.contexts.erase(open);
  }
  device.card.close_context(unit);
  return 0;
}

int xclExecWait(xclDeviceHandle handle, int milliseconds) {
  return open_device(handle).card.wait(milliseconds);
}

int xclRegRead(xclDeviceHandle handle, uint32_t unit, uint32_t offset, uint32_t* value) {
  return open_device(handle).card.call(Request::kReadRegister, unit, offset, *value);
}

int xclRegWrite(xclDeviceHandle handle, uint32_t unit, uint32_t offset, uint32_t value) {
  return open_device(handle).card.call(Request::kWriteRegister, unit, offset, value);
}

/// Not a function of XRT: backend.cpp calls it to change the faults of a UDP cable, in both directions.
int xclMillraceSetFaults(unsigned cable, const runtime::plan::CableFaults* faults) {
  if (!machine().problem.empty() || machine().cards.empty()) return -ENODEV;
  auto& fabric = machine().fabric_memory.as<Fabric>();
  if (cable >= fabric.cables || fabric.uses_udp[cable] == 0) return -EINVAL;
  for (auto& direction : fabric.faults[cable]) write_faults(*faults, direction);
  return 0;
}

// All other functions to which Debian's device class refers are aliases of those below, which do nothing or fail.

__attribute__((visibility("hidden"))) int millrace_nothing_to_do() {
  return 0;
}
__attribute__((visibility("hidden"))) int millrace_no_such_call() {
  return -ENOSYS;
}
__attribute__((visibility("hidden"))) long millrace_no_such_access() {
  return -1;  // the same value as XRT_NULL_BO and NULLBOEXPORT
}
__attribute__((visibility("hidden"))) void* millrace_no_such_object() {
  return nullptr;
}

}  // extern "C"

/// Resets the device. XRT's library exports this function with a C++ name, and `xbutil reset` calls it. As in XRT, the
/// buffers and contexts of this process are lost, and only XCL_USER_RESET is possible.
int xclInternalResetDevice(xclDeviceHandle handle, xclResetKind kind) {
  if (kind != XCL_USER_RESET) return -EINVAL;
  Handle& device = open_device(handle);
  {
    const std::lock_guard lock(device.mutex);
    device.contexts.clear();
  }
  return device.card.reset();
}

#define MILLRACE_ALIAS(symbol, target) asm(".globl " #symbol "\n.set " #symbol ", " #target);
MILLRACE_ALIAS(xclReClock2, millrace_nothing_to_do)
MILLRACE_ALIAS(xclUnmapBO, millrace_nothing_to_do)
MILLRACE_ALIAS(xclP2pEnable, millrace_no_such_call)
MILLRACE_ALIAS(xclExportBO, millrace_no_such_access)
MILLRACE_ALIAS(xclImportBO, millrace_no_such_access)
MILLRACE_ALIAS(xclRead, millrace_no_such_access)
MILLRACE_ALIAS(xclWrite, millrace_no_such_access)
MILLRACE_ALIAS(xclUnmgdPread, millrace_no_such_access)
MILLRACE_ALIAS(xclUnmgdPwrite, millrace_no_such_access)
MILLRACE_ALIAS(_Z11xclGMIOWaitPvPKc, millrace_no_such_call)
MILLRACE_ALIAS(_Z11xclGraphEndPvm, millrace_no_such_call)
MILLRACE_ALIAS(_Z11xclGraphRunPvi, millrace_no_such_call)
MILLRACE_ALIAS(_Z12xclCmaEnablePvbm, millrace_no_such_call)
MILLRACE_ALIAS(_Z12xclGraphOpenPvPKhPKcN3xrt5graph11access_modeE, millrace_no_such_call)
MILLRACE_ALIAS(_Z12xclGraphWaitPvm, millrace_no_such_call)
MILLRACE_ALIAS(_Z12xclSyncBOAIEPvRN3xrt2boEPKc18xclBOSyncDirectionmm, millrace_no_such_call)
MILLRACE_ALIAS(_Z13xclGraphClosePv, millrace_no_such_call)
MILLRACE_ALIAS(_Z13xclGraphResetPv, millrace_no_such_call)
MILLRACE_ALIAS(_Z14xclGraphResumePv, millrace_no_such_call)
MILLRACE_ALIAS(_Z14xclSyncBOAIENBPvRN3xrt2boEPKc18xclBOSyncDirectionmm, millrace_no_such_call)
MILLRACE_ALIAS(_Z15xclGraphReadRTPPvPKcPcm, millrace_no_such_call)
MILLRACE_ALIAS(_Z15xclGraphSuspendPv, millrace_no_such_call)
MILLRACE_ALIAS(_Z16xclGraphWaitDonePvi, millrace_no_such_call)
MILLRACE_ALIAS(_Z16xclReadProfilingPvi, millrace_no_such_call)
MILLRACE_ALIAS(_Z16xclResetAIEArrayPv, millrace_no_such_call)
MILLRACE_ALIAS(_Z16xclStopProfilingPvi, millrace_no_such_call)
MILLRACE_ALIAS(_Z17xclAIEOpenContextPvN3xrt3aie11access_modeE, millrace_no_such_call)
MILLRACE_ALIAS(_Z17xclGraphTimeStampPv, millrace_no_such_call)
MILLRACE_ALIAS(_Z17xclGraphUpdateRTPPvPKcS1_m, millrace_no_such_call)
MILLRACE_ALIAS(_Z17xclLoadXclBinMetaPvPK4axlf, millrace_no_such_call)
MILLRACE_ALIAS(_Z17xclStartProfilingPviPKcS1_j, millrace_no_such_call)
MILLRACE_ALIAS(_Z20xclCloseExportHandlei, millrace_no_such_call)
MILLRACE_ALIAS(_Z22xclUpdateSchedulerStatPv, millrace_no_such_call)
MILLRACE_ALIAS(_ZN12xclcpuemhal29CpuemShim11deviceQueryEN8xrt_core5query8key_typeE, millrace_no_such_call)
MILLRACE_ALIAS(_ZN12xclcpuemhal29CpuemShim11handleCheckEPv, millrace_no_such_object)
