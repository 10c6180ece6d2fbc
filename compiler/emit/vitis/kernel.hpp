// The RTL kernel around a partition's top. It has one AXI4-Lite slave, whose windows are the register slaves
// of the top, and full AXI4 masters. Private to compiler/emit/vitis.
#pragma once

#include <string>
#include <vector>

#include "compiler/emit/rtl/interfaces.hpp"

namespace millrace::compiler::emit {

inline constexpr std::size_t kMaxWindows = 16;  // of 4 KiB; window i is at i * 0x1000

/// "control", "supervisor", "in0", …: the units with registers, in the order of their windows.
std::vector<std::string> window_names(const TopInterface& top);

/// "supervisor", "in0", …: the units with an AXI4 master.
std::vector<std::string> master_names(const TopInterface& top);

/// "link0_tx", "link0_rx", …: two AXI-Streams a connector.
std::vector<std::string> stream_names(const TopInterface& top);

/// The text of the kernel around `module`. It is Verilog-2001, because AMD's packager takes no SystemVerilog
/// top (UG1118, "Top-Level HDL Requirements").
std::string kernel_text(const TopInterface& top, const std::string& kernel, const std::string& module);

}  // namespace millrace::compiler::emit
