// Makes an xclbin file such as the vendor's linker v++ would make from vitis/<image>/, with one compute unit, for tests
// of `millrace pack`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::tests {

/// An xclbin with one compute unit whose three AXI masters use the second of two memories, with a memory controller, two
/// clocks, and vendor sections.
struct Vendor {
  struct Connection {
    std::int32_t argument, unit, memory;
  };

  std::string unit = "millrace_image0:image0";
  std::string bits = "the vendor's bits";
  std::string kernel = "millrace_image0";
  std::vector<std::string> arguments = {"supervisor", "in0", "out0"};  // of the kernel, by number
  std::uint16_t mhz = 250;  // of the clock that the kernel uses; 0: the file has no table of clocks
  bool is_signed = false;
  std::vector<Connection> connections = {{0, 1, 1}, {1, 1, 1}, {2, 1, 1}};

  std::vector<std::byte> bytes() const;

 private:
  std::string metadata() const;
};

}  // namespace millrace::tests
