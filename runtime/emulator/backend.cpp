#include "runtime/emulator/backend.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/emulator/topology.hpp"

namespace millrace::runtime::emulator {

namespace {

namespace fs = std::filesystem;

constexpr char kSetFaultsSymbol[] = "xclMillraceSetFaults";  // in shim/hal.cpp

/// Returns the text that describes the emulated machine. The process's first call of select_backend() sets
/// it, because a process can select its backend only once.
std::optional<std::string>& selected() {
  static std::optional<std::string> text;
  return text;
}

/// Returns the emulated cards and cables in the text format that the shim reads.
Result<std::string> machine_of(const plan::Cluster& cluster, Fidelity fidelity, Pace pace, Manners manners) {
  Topology topology;
  const char* const given = std::getenv("MILLRACE_EMULATION_OPTIONS");
  std::string options = given == nullptr ? "" : given;
  if (manners == Manners::kHardware) options += " manners=hardware";
  MILLRACE_TRY(parse_options(options, topology.options));
  if (fidelity == Fidelity::kRtl) topology.options.rtl = true;
  if (pace != 0) topology.options.pace = pace;
  std::map<std::string, std::uint32_t> index;
  for (const auto& card : cluster.cards) {
    std::uint64_t memory = 0;
    for (const auto& bank : cluster.device_of(card).memory) memory += bank.capacity_bytes;
    index[card.name] = static_cast<std::uint32_t>(topology.cards.size());
    topology.cards.push_back({card.name, card.device, memory});
  }
  for (const auto& cable : cluster.cables) {
    for (const auto* end : {&cable.a, &cable.b})
      if (!index.contains(end->card))
        return Error(ErrorCode::kInvalidInput, "cable '" + cable.name + "' ends at card '" + end->card +
                                                   "', which the cluster does not have");
    topology.cables.push_back(
        {{index[cable.a.card], cable.a.connector}, {index[cable.b.card], cable.b.connector}});
    auto& made = topology.cables.back();
    made.udp = cable.protocol == plan::CableProtocol::kUdp;
    made.address_a = cable.a.address;
    made.address_b = cable.b.address;
    made.faults = cable.faults;
    if (topology.options.pace == 0) continue;
    made.gigabits_per_second = cable.gigabits_per_second;
    made.latency_ns = cable.latency_ns;
  }
  MILLRACE_TRY(exchange_plugs(topology));
  const std::string text = to_text(topology);
  MILLRACE_TRY(parse_topology(text));  // checks names and bounds
  return text;
}

Result<fs::path> program_folder() {
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  if (error)
    return Error(ErrorCode::kEnvironment, "cannot find the path of this program: " + error.message());
  return program.parent_path();
}

Result<fs::path> find_shim(const fs::path& folder) {
  const char* given = std::getenv("MILLRACE_XRT_SHIM");
  const auto shim =
      given != nullptr ? fs::path(given) : (folder / ".." / "lib" / "millrace" / "xrt").lexically_normal();
  std::error_code error;
  if (!fs::exists(shim / "lib" / "libxrt_core.so.2", error))
    return Error(ErrorCode::kEnvironment,
                 "no emulated cards: " + (shim / "lib" / "libxrt_core.so.2").string() +
                     " does not exist; "
                     "build the target millrace_xrt_shim (with XRT 2.13) or set MILLRACE_XRT_SHIM");
  return shim;
}

Result<fs::path> find_card(const fs::path& folder) {
  if (const char* given = std::getenv("MILLRACE_CARD")) return fs::path(given);
  for (const auto& candidate : {folder / "millrace-card", folder / ".." / "bin" / "millrace-card"})
    if (access(candidate.c_str(), X_OK) == 0) return candidate.lexically_normal();
  return Error(ErrorCode::kEnvironment, "no emulated cards: millrace-card is neither beside this program (" +
                                            folder.string() +
                                            ") nor in ../bin; "
                                            "build millrace-card or set MILLRACE_CARD");
}

}  // namespace

Status select_backend(const plan::Cluster& cluster, Fidelity fidelity, Pace pace, Manners manners) {
  if (cluster.hosts.size() > 1)
    return Error(ErrorCode::kInvalidInput,
                 "cluster '" + cluster.name + "' has " + std::to_string(cluster.hosts.size()) +
                     " hosts, but this command uses the cards of one host; give a cluster of one host");
  if (!cluster.emulated && fidelity != Fidelity::kFunctional)
    return Error(ErrorCode::kInvalidInput, "cluster '" + cluster.name +
                                               "' has real cards; "
                                               "only emulated cards can be simulated at rtl fidelity");
  if (pace != 0 && !cluster.emulated)
    return Error(ErrorCode::kInvalidInput, "cluster '" + cluster.name +
                                               "' has real cards, which run at their own pace; "
                                               "leave out --pace, or use a cluster of emulated cards");
  if (manners != Manners::kKind && !cluster.emulated)
    return Error(ErrorCode::kInvalidInput, "cluster '" + cluster.name +
                                               "' has real cards, but --manners is only for emulated cards; "
                                               "leave out --manners");
  if (pace != 0 && fidelity == Fidelity::kRtl)
    return Error(ErrorCode::kInvalidInput,
                 "cards that simulate their SystemVerilog cannot keep a pace; "
                 "leave out --pace or use --fidelity functional");
  std::string text;
  if (cluster.emulated) {
    MILLRACE_ASSIGN(text, machine_of(cluster, fidelity, pace, manners));
  }
  if (selected().has_value()) {
    if (*selected() == text) return {};
    return Error(ErrorCode::kInvalidInput, "cluster '" + cluster.name +
                                               "': this process already runs another cluster's cards; "
                                               "start another process for this cluster");
  }
  if (!cluster.emulated) {
    const char* xrt = std::getenv("XILINX_XRT");
    if (xrt == nullptr || *xrt == '\0')
      return Error(ErrorCode::kEnvironment, "cluster '" + cluster.name +
                                                "' has real cards, but XILINX_XRT is not set; "
                                                "source the setup.sh of your XRT installation");
    const fs::path library = fs::path(xrt) / "lib" / "libxrt_core.so.2";
    std::error_code error;
    if (!fs::exists(library, error))
      return Error(ErrorCode::kEnvironment,
                   "cluster '" + cluster.name + "' has real cards, but XILINX_XRT points nowhere: " +
                       library.string() + " does not exist; source the setup.sh of your XRT installation");
    selected() = text;
    return {};
  }
  MILLRACE_ASSIGN(const auto folder, program_folder());
  MILLRACE_ASSIGN(const auto shim, find_shim(folder));
  MILLRACE_ASSIGN(const auto card, find_card(folder));
  unsetenv("XCL_EMULATION_MODE");  // otherwise XRT would use its own emulation
  setenv("XILINX_XRT", shim.c_str(), 1);
  setenv("MILLRACE_CARD", card.c_str(), 1);
  setenv("MILLRACE_EMULATION", text.c_str(), 1);
  selected() = text;
  return {};
}

Status set_faults(const plan::Cluster& cluster, const std::string& cable, const plan::CableFaults& faults) {
  const auto found = std::find_if(cluster.cables.begin(), cluster.cables.end(),
                                  [&](const plan::Cable& one) { return one.name == cable; });
  if (found == cluster.cables.end())
    return Error(ErrorCode::kNotFound, "cluster '" + cluster.name + "' has no cable '" + cable + "'");
  if (!cluster.emulated)
    return Error(ErrorCode::kUnsupported,
                 "cluster '" + cluster.name + "' has real cards, whose cables cannot be impaired");
  if (found->protocol != plan::CableProtocol::kUdp)
    return Error(ErrorCode::kUnsupported,
                 "cable '" + cable + "' does not use UDP; only UDP cables can be impaired");
  if (const Status valid = plan::check_faults(faults); !valid.ok())
    return valid.error().within("cable '" + cable + "'");
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  MILLRACE_ASSIGN(const auto folder, program_folder());
  MILLRACE_ASSIGN(const auto shim, find_shim(folder));
  // libxrt_coreutil loads the shim when the first card is opened.
  void* const library = dlopen((shim / "lib" / "libxrt_core.so.2").c_str(), RTLD_NOW | RTLD_NOLOAD);
  const Error unavailable(ErrorCode::kUnavailable, "no emulated card is open; load a model first");
  if (library == nullptr) return unavailable;
  const auto set =
      reinterpret_cast<int (*)(unsigned, const plan::CableFaults*)>(dlsym(library, kSetFaultsSymbol));
  const int status =
      set == nullptr ? -1 : set(static_cast<unsigned>(found - cluster.cables.begin()), &faults);
  dlclose(library);
  return status == 0 ? Status() : Status(unavailable);
}

}  // namespace millrace::runtime::emulator
