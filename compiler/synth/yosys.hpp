// Counts the primitives of instances with Yosys, for `millrace synth` and tools/calibrate. Results are cached
// by content, and runs of Yosys go side by side.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "compiler/generators/netlist.hpp"
#include "runtime/base/cache.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::synth {

struct Yosys {
  std::filesystem::path program;
  std::string version;  // "Yosys 0.23 (git sha1 …)"

  /// kEnvironment if there is none or it does not answer; the message says what to install.
  static Result<Yosys> find();
};

/// The options of every synthesis, without the family. -nosrl, because Yosys 0.23 ties the clock enable of
/// extracted shift registers to 1 (kernels/rtl/README.md).
inline constexpr const char* kSynthesisOptions = "-nosrl -flatten -noiopad -noclkbuf -nowidelut";

/// A command to run after `hierarchy` and before synth_xilinx. Sources use Vivado's word for tables in LUTs
/// ("distributed"), which Yosys takes for LUTRAM; the command replaces it by Yosys' own word.
inline constexpr const char* kTablesInLogic = "setattr -set rom_style \"logic\" a:rom_style=distributed";

/// SystemVerilog by file name: "mr_mvu.sv" -> text.
using Sources = std::map<std::string, std::string>;

/// The files of `library` that `module` consists of. kInvalidInput if one is missing.
Result<Sources> sources_of(const std::string& module, const Sources& library);

/// Everything that a synthesis depends on.
struct SynthesisJob {
  std::string module;
  generators::Parameters parameters;
  std::vector<std::pair<std::string, std::string>> names;  // string parameter -> file name, or its beginning
  std::map<std::string, std::string> memories;             // file name -> content, of all those names
  Sources sources;                                         // of `module` and all below it
  std::string family;                                      // "xcu", "xcup"
  std::uint64_t size = 1;  // about its LUTs and flip-flops: jobs are shared out among runs by size
};

struct SynthesisOptions {
  unsigned jobs = 0;  // runs of Yosys at once; 0: as many as processors
  /// Called after each run, by one thread at a time, with counts of distinct instances.
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

/// The primitives of each instance on its own: inputs are unknown, and all outputs are used. All jobs have
/// one family. Equal instances are synthesised once, and cached ones not at all. The others go through few runs
/// of Yosys, because it takes seconds to read its own libraries. Blocks until Yosys ends. Any thread. Errors, after
/// which nothing of their run is kept and no further run begins: kInternal if Yosys refuses an instance (the message
/// has its last lines), kUnavailable if a signal ended it, kCorrupt as count_cells(), kResourceExhausted if the
/// disk is full.
Result<std::vector<generators::Cost>> synthesise(const Yosys& yosys, const Cache& cache,
                                                 const std::vector<SynthesisJob>& jobs,
                                                 const SynthesisOptions& options = {.jobs = 1});

/// The key of a job in the cache, where its kind is "synth": a digest of everything its result depends on, which excludes names of
/// memory files.
std::string key_of(const Yosys& yosys, const SynthesisJob& job);

/// The counts of one module in the text of Yosys' `stat`. kCorrupt if there are none, or if they do not add
/// up to the number of cells in the text, because that is cut off.
Result<generators::Cost> count_cells(const std::string& statistics, const std::string& module);

/// kUnsupported for families other than "xcu" and "xcup".
Status check_family(const std::string& family);

}  // namespace millrace::compiler::synth
