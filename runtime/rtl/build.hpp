// From the SystemVerilog of a deployment to simulations in the local cache: shared libraries that
// simulation.hpp loads. Needs Verilator and a C++ compiler on the machine.
//
// Kinds of cache entries: "simulation" (simulation.so, design.json; the key is the sha256 of the
// SystemVerilog, the text around it, the tools' versions and options), "verilator" (Verilator's own runtime,
// compiled once). Besides, <cache>/images/<content digest> lists an image's partitions with the keys of their
// simulations: what an emulated card looks up.
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

/// What the machine has to build with.
struct Toolchain {
  std::filesystem::path verilator, compiler;
  std::string verilator_version, compiler_version;  // a line each
  std::filesystem::path include;                    // of Verilator's headers and runtime

  /// kEnvironment names what is missing or too old and how to get it.
  static Result<Toolchain> find();
};

struct BuildOptions {
  unsigned jobs = 0;                                 // compilers at once; 0: one a core this process may use
  std::function<void(const std::string&)> progress;  // a line for a person who waits; any thread
};

/// The simulation's cache entry, built where it is missing. kEnvironment: a tool was ended by a signal or
/// cannot be run; kResourceExhausted: the disk is full; kInternal: the tools refuse the SystemVerilog.
Result<std::filesystem::path> build_simulation(const Cache& cache, const Toolchain& tools,
                                               const Source& source, const BuildOptions& options);

struct BuiltPartition {
  std::string partition;
  std::filesystem::path entry;
  Design design = {};  // the deployment's: the entry's may have been built with other predictions
};

/// All card partitions of a deployment, in its order, and the lists emulated cards look them up by. Errors as
/// read_source() and build_simulation(), naming the partition.
Result<std::vector<BuiltPartition>> build_simulations(const plan::LoadedDeployment& deployment,
                                                      const BuildOptions& options);

/// Says which simulations an image's partitions have. `content_digest` is a name (base/text.hpp).
Status list_simulations(const Cache& cache, const std::string& content_digest,
                        const std::vector<BuiltPartition>& partitions);

/// The entry of a partition of an image whose simulations were built on this machine. kNotFound says what to
/// run. `content_digest` may be anything.
Result<std::filesystem::path> find_simulation(const Cache& cache, const std::string& content_digest,
                                              const std::string& partition);

}  // namespace millrace::runtime::rtl
