// Chooses XRT's backend: the vendor's driver for a real cluster, or emulated cards and cables.
//
// libxrt_coreutil reads the choice from environment variables at its first use. So call select_backend()
// before any XRT call of the process, while it has one thread. No other code above XRT knows about emulation.
#pragma once

#include <string>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::emulator {

/// How an emulated card computes.
enum class Fidelity {
  kFunctional,  // runs the program with kernels/fast
  kRtl,         // simulates the SystemVerilog, which must be in the cache (runtime/rtl/build.hpp)
};

/// How an emulated card behaves when it is lost, reset or loaded. README.md, "Manners", lists the differences.
enum class Manners {
  kKind,      // a load heals a card, and nothing takes time
  kHardware,  // as real cards and XRT's drivers behave
};

/// Emulated cards and cables are this many times slower than the hardware is predicted to be. With 0, they are as fast
/// as this computer can emulate them.
using Pace = double;

/// Selects the backend. `manners` says how emulated cards behave when they are lost, reset or loaded. For an
/// emulated cluster, sets XILINX_XRT to the folder of Millrace's libxrt_core.so.2 (MILLRACE_XRT_SHIM, or
/// <bin>/../lib/millrace/xrt), MILLRACE_CARD to the card program, and MILLRACE_EMULATION to the cluster's
/// topology. For a real cluster, keeps the user's XILINX_XRT, and checks that it names a folder with the
/// library lib/libxrt_core.so.2. Returns kInvalidInput if a real cluster gets a fidelity, pace or manners
/// other than the default, if the pace is below 1 or is combined with rtl fidelity, if the cluster has
/// several hosts (plan::cluster_of_host() returns the part of one host), or if a second call names another
/// cluster, because XRT cannot change its backend within a process. Returns kEnvironment if a file or
/// variable is missing.
Status select_backend(const plan::Cluster& cluster, Fidelity fidelity = Fidelity::kFunctional, Pace pace = 0,
                      Manners manners = Manners::kKind);

/// Changes what happens to datagrams on a UDP cable of the selected emulated cluster, in both directions, from now on.
/// Takes up to 50 ms to have an effect. Any thread may call it. Returns kNotFound if the cluster has no such
/// cable, kUnsupported if the cards are real or the cable is not a UDP cable, kInvalidInput for a probability outside 0
/// to 1 or a negative time or rate, and kUnavailable before the first card was opened.
Status set_faults(const plan::Cluster& cluster, const std::string& cable, const plan::CableFaults& faults);

}  // namespace millrace::runtime::emulator
