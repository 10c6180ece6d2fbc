// What v++ might link from vitis/<image>/: an xclbin with one compute unit, for `millrace pack` and below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::tests {

/// One unit, its three masters on memory 1 of two, sections of the vendor's own.
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
