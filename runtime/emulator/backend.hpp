// Chooses what XRT finds below it: the vendor's driver, or emulated cards cabled as a cluster says.
//
// The choice is made by environment variables that libxrt_coreutil reads at its first use, so this must run
// before any XRT call of the process, while it has one thread. It is the only thing above XRT that knows of
// emulation.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::emulator {

/// What an emulated card computes with.
enum class Fidelity {
  kFunctional,  // kernels/fast
  kRtl,         // the simulation of its SystemVerilog, which must be in the cache (runtime/rtl/build.hpp)
};

/// For an emulated cluster: sets XILINX_XRT to the folder of our libxrt_core.so.2 (found beside the running
/// program: <bin>/../lib/millrace/xrt, or MILLRACE_XRT_SHIM), MILLRACE_CARD to the card program,
/// MILLRACE_EMULATION to the cluster's topology. For a real one: checks that XILINX_XRT is set, and refuses
/// any fidelity but the default (kInvalidInput). kEnvironment where something is missing. A second call with
/// another cluster in one process is refused (kInvalidInput): XRT cannot change its backend.
Status select_backend(const plan::Cluster& cluster, Fidelity fidelity = Fidelity::kFunctional);

}  // namespace millrace::runtime::emulator
