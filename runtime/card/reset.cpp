#include "runtime/card/reset.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include <xclbin.h>
#include <xrt.h>

#include "runtime/card/card.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::card {

const char* to_string(ResetStep step) {
  switch (step) {
    case ResetStep::kUnit:
      return "unit";
    case ResetStep::kShell:
      return "shell";
    case ResetStep::kDevice:
      return "device";
  }
  return "";
}

bool has_unit_reset(std::span<const std::byte> image) {
  const auto view = plan::parse_xclbin(image);
  if (!view.ok()) return false;
  return std::any_of(view->sections.begin(), view->sections.end(), [](const plan::XclbinSection& section) {
    const std::string_view text(reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size());
    return section.kind == EMBEDDED_METADATA && text.find("swReset=\"true\"") != std::string_view::npos;
  });
}

// The C++ API of XRT 2.13 has no function that resets a device: xrt::device::reset() only closes it. `xbutil
// reset` calls xclInternalResetDevice(), which XRT's library exports under a C++ name and no header declares.
Status reset_device(const xrt::device& device) {
  using Reset = int (*)(void*, xclResetKind);
  void* const library = dlopen("libxrt_core.so.2", RTLD_NOW | RTLD_NOLOAD);  // XRT has loaded it already
  const auto reset =
      library == nullptr
          ? nullptr
          : reinterpret_cast<Reset>(dlsym(library, "_Z22xclInternalResetDevicePv12xclResetKind"));
  if (library != nullptr) dlclose(library);
  if (reset == nullptr)
    return Error(
        ErrorCode::kUnsupported,
        "this version of XRT has no function that resets a device; reset the device with 'xbutil reset'");
  try {
    const int status = reset(static_cast<xclDeviceHandle>(device), XCL_USER_RESET);
    if (status == 0) return {};
    const bool unknown = status == -ENOSYS || status == -EOPNOTSUPP;
    return Error(unknown ? ErrorCode::kUnsupported : ErrorCode::kUnavailable,
                 std::string("the driver did not reset the device: ") + std::strerror(-status));
  } catch (const std::exception& problem) {
    return Error(ErrorCode::kUnavailable, std::string("resetting the device: ") + problem.what());
  }
}

}  // namespace millrace::runtime::card
