// The RTL kernel around a partition's top: one AXI4-Lite slave whose windows are the top's register slaves,
// full AXI4 masters. Private to compiler/emit/vitis.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::compiler::emit {

struct TopPort {
  std::string name;
  bool input = true;
  unsigned width = 1;
};

/// A register window of 4 KiB of the kernel: window i is at i * 0x1000.
struct KernelInterfaces {
  std::vector<TopPort> ports;           // all of the top
  std::vector<std::string> windows;     // "control", "supervisor", "in0", … in the order of the windows
  std::vector<std::string> masters;     // AXI4: "supervisor", "in0", …
  std::vector<std::string> streams;     // AXI-Stream: "link0_tx", "link0_rx", … two a connector
  std::vector<std::string> interrupts;  // "in0_irq"
  bool reads(const std::string& master) const;  // has a read channel
  std::size_t connectors() const { return streams.size() / 2; }
};

/// Reads the ports of module `top` out of its SystemVerilog as emit/rtl writes it. kInternal where it is not
/// that.
Result<KernelInterfaces> read_top(const std::string& text, const std::string& top);

/// The kernel in Verilog-2001: AMD's packager takes no SystemVerilog top (UG1118, "Top-Level HDL
/// Requirements").
std::string kernel_text(const KernelInterfaces& interfaces, const std::string& kernel,
                        const std::string& top);

}  // namespace millrace::compiler::emit
