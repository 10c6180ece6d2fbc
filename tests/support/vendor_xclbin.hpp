// Makes an xclbin file such as the vendor's linker v++ would make from vitis/<image>/, with one compute unit, for tests
// of `millrace pack`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::tests {

/// An xclbin with one compute unit whose three AXI masters use the second of two memories, and with vendor sections.
struct Vendor {
  struct Connection {
    std::int32_t argument, unit, memory;
  };

  std::string unit = "millrace_image0:image0";
  std::string bits = "the vendor's bits";
  std::vector<Connection> connections = {{0, 1, 1}, {1, 1, 1}, {2, 1, 1}};

  std::vector<std::byte> bytes() const;
};

}  // namespace millrace::tests
