// Instances of modules of the hardware library through Yosys, for the primitives they take: what
// `millrace synth` and tools/calibrate measure with. Results are kept in the cache by content.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "compiler/generators/instance.hpp"
#include "runtime/base/cache.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::synth {

struct Yosys {
  std::filesystem::path program;
  std::string version;  // "Yosys 0.23 (git sha1 …)"

  /// kEnvironment where there is none, or it does not answer; the message says what to install.
  static Result<Yosys> find();
};

/// How everything is synthesised; without the family. -nosrl: Yosys 0.23 ties the clock enable of extracted
/// shift registers to 1 (kernels/rtl/README.md).
inline constexpr const char* kSynthesisOptions = "-nosrl -flatten -noiopad -noclkbuf -nowidelut";

/// Tables that Vivado's word ("distributed") keeps out of block RAM: Yosys would make LUTRAM of them, its own
/// word for LUTs is another. Before synth_xilinx, after `hierarchy`.
inline constexpr const char* kTablesInLogic = "setattr -set rom_style \"logic\" a:rom_style=distributed";

/// Everything a synthesis depends on.
struct SynthesisJob {
  std::string module;
  generators::Parameters parameters;
  std::vector<std::pair<std::string, std::string>> names;  // string parameter -> file name, or its beginning
  std::map<std::string, std::string> memories;             // file name -> content, of all those names
  std::map<std::string, std::string> sources;              // "mr_mvu.sv" -> text, `module` and all below it
  std::string family;                                      // "xcu", "xcup"
};

/// The primitives each instance takes alone: its hierarchy is kept from what is around it, all inputs are
/// unknown, all outputs wanted. Those the cache does not have go through one run of Yosys together (it spends
/// seconds on reading its own libraries). All jobs have one family. Blocks until Yosys ends. Errors:
/// kInternal where Yosys refuses an instance (its last lines are in the message), kUnavailable where a signal
/// ended it, kCorrupt as count_cells(), kResourceExhausted where the disk is full; then nothing of that run
/// is kept, and what a killed one left in the cache's tmp/ goes with the next. Any thread.
Result<std::vector<generators::Cost>> synthesise(const Yosys& yosys, const Cache& cache,
                                                 const std::vector<SynthesisJob>& jobs);

/// Digest of everything the result of a job depends on: the cache's key. Names of memory files and of the
/// instance are not among it.
std::string key_of(const Yosys& yosys, const SynthesisJob& job);

/// What the cache has of one job.
std::optional<generators::Cost> known_cost(const Yosys& yosys, const Cache& cache, const SynthesisJob& job);

/// The counts of one module in the text of Yosys' `stat`. kCorrupt where there are none, or do not add up to
/// the number of cells it says (the text is cut off).
Result<generators::Cost> count_cells(const std::string& statistics, const std::string& module);

/// "xcu" and "xcup" are what the library is for; kUnsupported for any other.
Status check_family(const std::string& family);

}  // namespace millrace::compiler::synth
