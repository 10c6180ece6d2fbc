// Builds a deployment's SystemVerilog into simulations in the local cache: shared libraries that
// simulation.hpp loads. Needs Verilator and a C++ compiler on the machine.
//
// There are two kinds of cache entries. A "simulation" entry holds simulation.so and design.json; its key is
// the sha256 of the SystemVerilog, the wrapper around it, and the tools' versions and options. A "verilator"
// entry holds Verilator's own runtime, compiled once. In addition, <cache>/images/<content digest> lists an
// image's partitions with the keys of their simulations. An emulated card finds its simulations in that list.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/cache.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/rtl/design.hpp"

namespace millrace::runtime::rtl {

/// The build tools that are installed on this machine.
struct Toolchain {
  std::filesystem::path verilator, compiler;
  std::string verilator_version, compiler_version;  // one line of text each
  std::filesystem::path include;                    // folder of Verilator's headers and runtime

  /// Finds the tools. Returns kEnvironment if a tool is missing or too old; the message says how to install it.
  static Result<Toolchain> find();
};

struct BuildOptions {
  std::function<void(const std::string&)> progress;  // called with a line for the user; any thread
};

/// Returns the simulation's cache entry; builds it if it is missing. Returns kEnvironment if a tool cannot run or was
/// ended by a signal, kResourceExhausted if the disk is full, and kInternal if the tools reject the SystemVerilog.
Result<std::filesystem::path> build_simulation(const Cache& cache, const Toolchain& tools,
                                               const Source& source, const BuildOptions& options);

struct BuiltPartition {
  std::string partition;
  std::filesystem::path entry;
  Design design = {};  // the deployment's design; the cache entry's predictions may differ
};

/// Builds the simulations of all card partitions of a deployment, in the deployment's order, and writes the lists by
/// which emulated cards find them. Fails like read_source() and build_simulation(), naming the partition.
Result<std::vector<BuiltPartition>> build_simulations(const plan::LoadedDeployment& deployment,
                                                      const BuildOptions& options);

/// Writes the list of an image's partitions and their simulations. `content_digest` must be a valid name
/// (base/text.hpp).
Status list_simulations(const Cache& cache, const std::string& content_digest,
                        const std::vector<BuiltPartition>& partitions);

/// Returns the cache entry of an image's partition, if this machine has built it. Otherwise returns kNotFound; the
/// message says which command builds it. `content_digest` may be any text.
Result<std::filesystem::path> find_simulation(const Cache& cache, const std::string& content_digest,
                                              const std::string& partition);

}  // namespace millrace::runtime::rtl
