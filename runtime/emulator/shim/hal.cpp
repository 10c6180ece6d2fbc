// The HAL that libxrt_coreutil calls: XRT's C functions, implemented with emulated cards.
//
// The contracts are XRT's (xrt.h, experimental/xrt-next.h), with one difference. To give a reason,
// xclLoadXclBin throws std::system_error and xclOpen throws std::runtime_error, where XRT's own functions
// return a bare number or null. Their callers pass exceptions on to the program.
#include <experimental/xrt-next.h>
#include <xrt.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "runtime/emulator/shim/handle.hpp"
#include "runtime/emulator/shim/machine.hpp"
#include "runtime/emulator/shim/xrt_core.hpp"

namespace {

using namespace millrace::runtime::emulator;

Handle& open_device(xclDeviceHandle handle) {
  return *static_cast<Handle*>(handle);
}

/// Finds a part of a buffer that has both copies. Returns false if there is no such part.
bool find_part(xclDeviceHandle handle, xclBufferHandle buffer, std::size_t bytes, std::size_t offset,
               Buffer& found) {
  return open_device(handle).find(buffer, found) && found.device != nullptr && offset <= found.bytes &&
         bytes <= found.bytes - offset;
}

constexpr std::uint32_t kVirtualUnit = ~0u;  // stands for a context on the image, not on a compute unit

}  // namespace

extern "C" {

unsigned xclProbe() {
  install_system();
  return Machine::instance().cards();
}

xclDeviceHandle xclOpen(unsigned index, const char*, xclVerbosityLevel) {
  const unsigned cards = xclProbe();
  if (const auto& problem = Machine::instance().problem(); !problem.empty())
    throw std::runtime_error(problem);
  if (index >= cards) return nullptr;
  const std::lock_guard lock(open_mutex());
  auto* handle = new Handle(Machine::instance().card(index));
  try {
    handle->core = xrt_core::get_userpf_device(handle, index);
    return handle;
  } catch (const std::exception&) {
    delete handle;
    return nullptr;
  }
}

void xclClose(xclDeviceHandle handle) {
  const std::lock_guard lock(open_mutex());
  delete &open_device(handle);
}

int xclGetDeviceInfo2(xclDeviceHandle handle, xclDeviceInfo2* info) {
  auto& card = open_device(handle).card();
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
  open_device(handle).card().load(image);
  open_device(handle).core->register_axlf(image);
  return 0;
}

int xclOpenContext(xclDeviceHandle handle, const xuid_t uuid, unsigned unit, bool shared) {
  Uuid wanted;
  std::memcpy(wanted.data(), uuid, wanted.size());
  if (unit == kVirtualUnit) return open_device(handle).card().has_image(wanted) ? 0 : -EBUSY;
  return open_device(handle).open_context(wanted, unit, shared);
}

int xclCloseContext(xclDeviceHandle handle, const xuid_t, unsigned unit) {
  return unit == kVirtualUnit ? 0 : open_device(handle).close_context(unit);
}

int xclReClock2(xclDeviceHandle, unsigned short, const unsigned short*) {
  return 0;
}
int xclP2pEnable(xclDeviceHandle, bool, bool) {
  return -ENOSYS;
}

xclBufferHandle xclAllocBO(xclDeviceHandle handle, size_t bytes, int, unsigned flags) {
  return open_device(handle).allocate(bytes, flags, nullptr);
}

xclBufferHandle xclAllocUserPtrBO(xclDeviceHandle handle, void* host, size_t bytes, unsigned flags) {
  return open_device(handle).allocate(bytes, flags, host);
}

void xclFreeBO(xclDeviceHandle handle, xclBufferHandle buffer) {
  open_device(handle).free(buffer);
}
void* xclMapBO(xclDeviceHandle handle, xclBufferHandle buffer, bool) {
  return open_device(handle).map(buffer);
}
int xclUnmapBO(xclDeviceHandle, xclBufferHandle, void*) {
  return 0;
}

int xclSyncBO(xclDeviceHandle handle, xclBufferHandle buffer, xclBOSyncDirection direction, size_t bytes,
              size_t offset) {
  Buffer found;
  if (!find_part(handle, buffer, bytes, offset, found)) return -EINVAL;
  if (!open_device(handle).card().alive()) return -EIO;
  if (found.host == nullptr || found.host == found.device) return 0;
  if (direction == XCL_BO_SYNC_BO_TO_DEVICE)
    std::memcpy(found.device + offset, found.host + offset, bytes);
  else if (direction == XCL_BO_SYNC_BO_FROM_DEVICE)
    std::memcpy(found.host + offset, found.device + offset, bytes);
  else
    return -ENOTSUP;
  return 0;
}

int xclCopyBO(xclDeviceHandle handle, xclBufferHandle to, xclBufferHandle from, size_t bytes,
              size_t to_offset, size_t from_offset) {
  Buffer target, source;
  if (!find_part(handle, to, bytes, to_offset, target) ||
      !find_part(handle, from, bytes, from_offset, source))
    return -EINVAL;
  std::memmove(target.device + to_offset, source.device + from_offset, bytes);
  return 0;
}

size_t xclWriteBO(xclDeviceHandle handle, xclBufferHandle buffer, const void* from, size_t bytes,
                  size_t offset) {
  Buffer found;
  if (!find_part(handle, buffer, bytes, offset, found)) return static_cast<size_t>(-EINVAL);
  std::memcpy(found.device + offset, from, bytes);
  return 0;
}

size_t xclReadBO(xclDeviceHandle handle, xclBufferHandle buffer, void* to, size_t bytes, size_t offset) {
  Buffer found;
  if (!find_part(handle, buffer, bytes, offset, found)) return static_cast<size_t>(-EINVAL);
  std::memcpy(to, found.device + offset, bytes);
  return 0;
}

int xclGetBOProperties(xclDeviceHandle handle, xclBufferHandle buffer, xclBOProperties* properties) {
  Buffer found;
  if (!open_device(handle).find(buffer, found)) return -ENOENT;
  *properties = {buffer, found.flags, found.bytes, found.address, 0};
  return 0;
}

xclBufferExportHandle xclExportBO(xclDeviceHandle, xclBufferHandle) {
  return NULLBOEXPORT;
}
xclBufferHandle xclImportBO(xclDeviceHandle, xclBufferExportHandle, unsigned) {
  return XRT_NULL_BO;
}

int xclExecBuf(xclDeviceHandle handle, xclBufferHandle command) {
  return open_device(handle).submit(command);
}
int xclExecWait(xclDeviceHandle handle, int milliseconds) {
  return open_device(handle).card().wait(milliseconds);
}

int xclRegRead(xclDeviceHandle handle, uint32_t unit, uint32_t offset, uint32_t* value) {
  return open_device(handle).card().read_register(unit, offset, *value);
}

int xclRegWrite(xclDeviceHandle handle, uint32_t unit, uint32_t offset, uint32_t value) {
  return open_device(handle).card().write_register(unit, offset, value);
}

size_t xclRead(xclDeviceHandle, xclAddressSpace, uint64_t, void*, size_t) {
  return static_cast<size_t>(-1);
}
size_t xclWrite(xclDeviceHandle, xclAddressSpace, uint64_t, const void*, size_t) {
  return static_cast<size_t>(-1);
}
ssize_t xclUnmgdPread(xclDeviceHandle, unsigned, void*, size_t, uint64_t) {
  return -1;
}
ssize_t xclUnmgdPwrite(xclDeviceHandle, unsigned, const void*, size_t, uint64_t) {
  return -1;
}

// Other functions that Debian's device class refers to (AI Engine, graphs, profiling).

__attribute__((visibility("hidden"))) int millrace_no_such_call() {
  return -ENOSYS;
}
__attribute__((visibility("hidden"))) void* millrace_no_such_object() {
  return nullptr;
}

}  // extern "C"

#define MILLRACE_ALIAS(symbol, target) \
  asm(".globl " #symbol "\n.hidden " #symbol "\n.set " #symbol ", " #target);
#define MILLRACE_NO_SUCH_CALL(symbol) MILLRACE_ALIAS(symbol, millrace_no_such_call)
MILLRACE_NO_SUCH_CALL(_Z11xclGMIOWaitPvPKc)
MILLRACE_NO_SUCH_CALL(_Z11xclGraphEndPvm)
MILLRACE_NO_SUCH_CALL(_Z11xclGraphRunPvi)
MILLRACE_NO_SUCH_CALL(_Z12xclCmaEnablePvbm)
MILLRACE_NO_SUCH_CALL(_Z12xclGraphOpenPvPKhPKcN3xrt5graph11access_modeE)
MILLRACE_NO_SUCH_CALL(_Z12xclGraphWaitPvm)
MILLRACE_NO_SUCH_CALL(_Z12xclSyncBOAIEPvRN3xrt2boEPKc18xclBOSyncDirectionmm)
MILLRACE_NO_SUCH_CALL(_Z13xclGraphClosePv)
MILLRACE_NO_SUCH_CALL(_Z13xclGraphResetPv)
MILLRACE_NO_SUCH_CALL(_Z14xclGraphResumePv)
MILLRACE_NO_SUCH_CALL(_Z14xclSyncBOAIENBPvRN3xrt2boEPKc18xclBOSyncDirectionmm)
MILLRACE_NO_SUCH_CALL(_Z15xclGraphReadRTPPvPKcPcm)
MILLRACE_NO_SUCH_CALL(_Z15xclGraphSuspendPv)
MILLRACE_NO_SUCH_CALL(_Z16xclGraphWaitDonePvi)
MILLRACE_NO_SUCH_CALL(_Z16xclReadProfilingPvi)
MILLRACE_NO_SUCH_CALL(_Z16xclResetAIEArrayPv)
MILLRACE_NO_SUCH_CALL(_Z16xclStopProfilingPvi)
MILLRACE_NO_SUCH_CALL(_Z17xclAIEOpenContextPvN3xrt3aie11access_modeE)
MILLRACE_NO_SUCH_CALL(_Z17xclGraphTimeStampPv)
MILLRACE_NO_SUCH_CALL(_Z17xclGraphUpdateRTPPvPKcS1_m)
MILLRACE_NO_SUCH_CALL(_Z17xclLoadXclBinMetaPvPK4axlf)
MILLRACE_NO_SUCH_CALL(_Z17xclStartProfilingPviPKcS1_j)
MILLRACE_NO_SUCH_CALL(_Z20xclCloseExportHandlei)
MILLRACE_NO_SUCH_CALL(_Z22xclInternalResetDevicePv12xclResetKind)
MILLRACE_NO_SUCH_CALL(_Z22xclUpdateSchedulerStatPv)
MILLRACE_NO_SUCH_CALL(_ZN12xclcpuemhal29CpuemShim11deviceQueryEN8xrt_core5query8key_typeE)
MILLRACE_ALIAS(_ZN12xclcpuemhal29CpuemShim11handleCheckEPv, millrace_no_such_object)
