// Private to this folder: the calls of XRT that differ between its versions. XRT 2.13 loads an image onto a device and
// opens units by the image's uuid. Newer versions load an image by making an xrt::hw_context, and deprecate the old way.
#pragma once

#include <string>
#include <utility>

#include <experimental/xrt_ip.h>
#include <experimental/xrt_xclbin.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#if __has_include(<xrt/xrt_hw_context.h>)
#include <xrt/xrt_hw_context.h>
#define MILLRACE_XRT_HAS_CONTEXTS
#endif

namespace millrace::runtime::card {

/// An image on a device, through which its units are opened. Units must be destroyed before the object is, because XRT
/// refuses a new image while they exist. All functions throw XRT's exceptions.
class LoadedImage {
 public:
  LoadedImage() = default;  // no image: units cannot be opened

#ifdef MILLRACE_XRT_HAS_CONTEXTS
  /// Programs the device, unless it has this image already. Blocks for seconds.
  LoadedImage(xrt::device device, const xrt::xclbin& image) {
    const xrt::uuid uuid = device.register_xclbin(image);
    context_ = xrt::hw_context(device, uuid);
  }
  xrt::kernel kernel(const std::string& name) const {
    return {context_, name};
  }
  xrt::ip ip(const std::string& name) const {
    return {context_, name};
  }

 private:
  xrt::hw_context context_;
#else
  /// Programs the device, unless it has this image already. Blocks for seconds.
  LoadedImage(xrt::device device, const xrt::xclbin& image)
      : device_(std::move(device)), uuid_(device_.load_xclbin(image)) {}
  xrt::kernel kernel(const std::string& name) const {
    return {device_, uuid_, name};
  }
  xrt::ip ip(const std::string& name) const {
    return {device_, uuid_, name};
  }

 private:
  xrt::device device_;
  xrt::uuid uuid_;
#endif
};

}  // namespace millrace::runtime::card
