// Counts the primitives of instances with Yosys, for `millrace synth` and tools/calibrate. Results are cached by
// content. Several runs of Yosys work in parallel.
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
  std::string version;  // as Yosys prints it: "Yosys 0.23 (git sha1 …)"

  /// Finds the installed Yosys. Returns kEnvironment if Yosys is missing or does not answer; the message says what to
  /// install.
  static Result<Yosys> find();
};

/// The options of every synthesis, without the family. They contain -nosrl, because Yosys 0.23 ties the clock enable of
/// extracted shift registers to 1 (kernels/rtl/README.md).
inline constexpr const char* kSynthesisOptions = "-nosrl -flatten -noiopad -noclkbuf -nowidelut";

/// A Yosys command to run after `hierarchy` and before synth_xilinx. The sources use Vivado's word for tables in LUTs
/// ("distributed"), which Yosys takes for LUTRAM. The command replaces it by Yosys' own word.
inline constexpr const char* kTablesInLogic = "setattr -set rom_style \"logic\" a:rom_style=distributed";

/// Maps the names of SystemVerilog files ("mr_mvu.sv") to their texts.
using Sources = std::map<std::string, std::string>;

/// Returns those files of `library` that contain `module` and the modules that it instantiates, directly or indirectly.
/// Returns kInvalidInput if a module is missing.
Result<Sources> sources_of(const std::string& module, const Sources& library);

/// One instance to synthesise, with everything that the result depends on.
struct SynthesisJob {
  std::string module;
  generators::Parameters parameters;
  std::vector<std::pair<std::string, std::string>> names;  // string parameter -> file name, or its beginning
  std::map<std::string, std::string> memories;             // name of a memory file -> content
  Sources sources;                                         // files of `module` and all modules below it
  std::string family;                                      // family of the device: "xcu", "xcup"
  std::uint64_t size = 1;  // estimated LUTs and flip-flops, for runs of equal size
};

struct SynthesisOptions {
  unsigned jobs = 0;  // how many runs of Yosys work at once; 0: as many as processors
  /// Called after each run of Yosys, by one thread at a time, with the number of finished instances and the number of
  /// all instances. Equal instances count once.
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

/// Returns the primitives of each instance, synthesised on its own: inputs are unknown, and all outputs are used. All
/// jobs must have one family. Equal instances are synthesised once, cached instances not at all. A few runs of Yosys
/// share the remaining instances, because each run first reads Yosys' own libraries, which takes seconds. Blocks until
/// Yosys ends. Any thread may call this function.
///
/// After an error, synthesise() keeps nothing of the failed run and begins no further run. Errors are kInternal if
/// Yosys refuses an instance (the message has Yosys' last lines), kUnavailable if a signal ended Yosys, those of
/// count_cells(), and kResourceExhausted if the disk is full.
Result<std::vector<generators::Cost>> synthesise(const Yosys& yosys, const Cache& cache,
                                                 const std::vector<SynthesisJob>& jobs,
                                                 const SynthesisOptions& options = {.jobs = 1});

/// Returns a job's key in the cache, where the job's kind is "synth". The key is a digest of everything that the result
/// depends on. Names of memory files are not part of it.
std::string key_of(const Yosys& yosys, const SynthesisJob& job);

/// Returns the cell counts of one module in the output of Yosys' `stat`. Returns kCorrupt if the counts are missing, or
/// if they do not add up to the number of cells in the output, which happens when the output is cut off.
Result<generators::Cost> count_cells(const std::string& statistics, const std::string& module);

/// Returns kUnsupported for families other than "xcu" and "xcup".
Status check_family(const std::string& family);

}  // namespace millrace::compiler::synth
