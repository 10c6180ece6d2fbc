// Chooses XRT's backend: the vendor's driver, or emulated cards that are cabled as a cluster says.
//
// libxrt_coreutil reads the choice from environment variables at its first use. So call this before any XRT
// call of the process, while the process has one thread. No other code above XRT knows about emulation.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::emulator {

/// How an emulated card computes.
enum class Fidelity {
  kFunctional,  // with kernels/fast
  kRtl,         // by simulating its SystemVerilog, which must be in the cache (runtime/rtl/build.hpp)
};

/// For an emulated cluster: sets XILINX_XRT to the folder of our libxrt_core.so.2 (<bin>/../lib/millrace/xrt
/// beside the running program, or MILLRACE_XRT_SHIM), MILLRACE_CARD to the card program, and
/// MILLRACE_EMULATION to the cluster's topology. For a real cluster: checks that XILINX_XRT is set.
/// kInvalidInput: a fidelity other than the default for a real cluster, or another cluster in a second call,
/// because XRT cannot change its backend within a process. kEnvironment: a file or variable is missing.
Status select_backend(const plan::Cluster& cluster, Fidelity fidelity = Fidelity::kFunctional);

}  // namespace millrace::runtime::emulator
