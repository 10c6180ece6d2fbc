// Depends on private C++ interfaces of XRT 2.13. CMake refuses other versions of XRT.
//
// libxrt_coreutil gets devices from an xrt_core::system object. Debian's libxrt_swemu.a has such an object,
// with a device class that calls the shim's xcl* functions, but that object does not count devices and
// understands no BDF strings. The object below has the same virtual function table, implements those two
// functions and forwards the rest. Its functions are declared by hand in the table's order. It is not derived
// from xrt_core::system, because the shim cannot define that class's type information.
#include "runtime/emulator/shim/xrt_core.hpp"

#include <xrt.h>

#include <string>
#include <utility>
#include <vector>

namespace xrt_core {

class system {
 public:
  virtual void get_xrt_info(void*);
  virtual void get_os_info(void*);
  virtual void get_devices(void*) const;
  virtual unsigned get_device_id(const std::string&) const;
  virtual std::pair<unsigned, unsigned> get_total_devices(bool) const = 0;
  virtual std::shared_ptr<device> get_userpf_device(unsigned) const = 0;
  virtual std::shared_ptr<device> get_userpf_device(void*, unsigned) const = 0;
  virtual std::shared_ptr<device> get_mgmtpf_device(unsigned) const = 0;
  virtual int get_monitor_access_type() const;
  virtual void program_plp(const device*, const std::vector<char>&, bool) const;
  virtual void mem_read(const device*, long long, long long, const std::string&) const;
  virtual void mem_write(const device*, long long, long long, unsigned) const;

 protected:
  ~system() = default;
};

extern system* singleton;

}  // namespace xrt_core

namespace millrace::runtime::emulator {

namespace {

using Device = std::shared_ptr<xrt_core::device>;

class System {
 public:
  explicit System(xrt_core::system& below) : below_(&below) {}

  virtual void get_xrt_info(void* tree) { below_->get_xrt_info(tree); }
  virtual void get_os_info(void* tree) { below_->get_os_info(tree); }
  virtual void get_devices(void* tree) const { below_->get_devices(tree); }
  virtual unsigned get_device_id(const std::string& text) const {
    unsigned domain, bus, slot, function;
    int used = 0;
    if (std::sscanf(text.c_str(), "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &used) == 4 &&
        static_cast<std::size_t>(used) == text.size())
      return slot;  // the address of an emulated card is 0000:00:<index>.0
    return below_->get_device_id(text);
  }
  virtual std::pair<unsigned, unsigned> get_total_devices(bool) const {
    const unsigned cards = xclProbe();
    return {cards, cards};
  }
  virtual Device get_userpf_device(unsigned index) const {
    const std::lock_guard lock(open_mutex());
    return below_->get_userpf_device(index);
  }
  virtual Device get_userpf_device(void* handle, unsigned index) const {
    return below_->get_userpf_device(handle, index);
  }
  virtual Device get_mgmtpf_device(unsigned index) const { return below_->get_mgmtpf_device(index); }
  virtual int get_monitor_access_type() const { return below_->get_monitor_access_type(); }
  virtual void program_plp(const xrt_core::device* d, const std::vector<char>& bits, bool force) const {
    below_->program_plp(d, bits, force);
  }
  virtual void mem_read(const xrt_core::device* d, long long from, long long bytes,
                        const std::string& file) const {
    below_->mem_read(d, from, bytes, file);
  }
  virtual void mem_write(const xrt_core::device* d, long long at, long long bytes, unsigned pattern) const {
    below_->mem_write(d, at, bytes, pattern);
  }

 protected:
  ~System() = default;  // never called: the function table has no entry for it

 private:
  xrt_core::system* below_;
};

class InstalledSystem final : public System {
 public:
  using System::System;
};

}  // namespace

std::recursive_mutex& open_mutex() {
  static std::recursive_mutex& mutex = *new std::recursive_mutex;
  return mutex;
}

void install_system() {
  const std::lock_guard lock(open_mutex());
  static xrt_core::system* installed = nullptr;
  if (xrt_core::singleton == nullptr || xrt_core::singleton == installed) return;
  installed = reinterpret_cast<xrt_core::system*>(new InstalledSystem(*xrt_core::singleton));
  xrt_core::singleton = installed;
}

}  // namespace millrace::runtime::emulator
