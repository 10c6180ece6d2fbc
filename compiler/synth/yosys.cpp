#include "compiler/synth/yosys.hpp"

#include <mutex>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/process.hpp"

namespace millrace::compiler::synth {
namespace {

namespace fs = std::filesystem;
using generators::Cost;

constexpr const char* kCacheKind = "synth";
constexpr const char* kTop = "all_instances";
constexpr const char* kCells = "cells.txt";  // Yosys' statistics in the folder of a run
constexpr const char* kCost = "cost.txt";    // the file of a cache entry that stores the cost
constexpr std::string_view kNumber = "Number of cells:";

/// Returns the number of LUTs that one memory primitive of UltraScale occupies, by primitive (UG974).
const std::map<std::string, std::uint64_t, std::less<>>& memory_luts() {
  static const std::map<std::string, std::uint64_t, std::less<>> luts = {
      {"RAM32M", 4},      {"RAM32M16", 8}, {"RAM64M", 4},    {"RAM64M8", 8},   {"RAM64X8SW", 8},
      {"RAM32X16DR8", 8}, {"RAM32X1D", 2}, {"RAM64X1D", 2},  {"RAM128X1D", 4}, {"RAM256X1D", 8},
      {"RAM32X1S", 1},    {"RAM64X1S", 1}, {"RAM128X1S", 2}, {"RAM256X1S", 4}, {"RAM512X1S", 8},
      {"SRL16E", 1},      {"SRLC16E", 1},  {"SRLC32E", 1}};
  return luts;
}

void add_cell(Cost& cost, std::string_view type, std::uint64_t count) {
  const auto starts = [&](std::string_view prefix) { return type.substr(0, prefix.size()) == prefix; };
  if (const auto memory = memory_luts().find(type); memory != memory_luts().end()) {
    cost.lutram += memory->second * count;
    cost.lut += memory->second * count;
  } else if (starts("LUT") || type == "INV") {
    cost.lut += count;
  } else if (starts("FD") || starts("LD")) {
    cost.ff += count;
  } else if (starts("DSP48E")) {
    cost.dsp += count;
  } else if (starts("RAMB18E")) {
    cost.ramb18 += count;
  } else if (starts("RAMB36E")) {
    cost.ramb36 += count;
  } else if (starts("URAM288")) {
    cost.uram += count;
  }  // carry chains and wide multiplexers are part of the slices
}

std::string wrapper_name(std::size_t index) {
  return "instance_" + std::to_string(index);
}

/// Returns the parameters of a job's instance, with short file names, as SystemVerilog.
std::string actual_parameters(const SynthesisJob& job,
                              const std::map<std::string, std::string>& short_names) {
  std::string text;
  const auto separate = [&] { text += text.empty() ? "" : ", "; };
  for (const auto& [name, value] : job.parameters) {
    // SystemVerilog needs a 64-bit literal where 32 bits are too few. Only mr_add's OFFSET is that wide.
    const bool wide = value > INT32_MAX || value < INT32_MIN;
    const auto size = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    separate();
    text += "." + name + "(" + (value < 0 ? "-" : "") + (wide ? "64'sd" : "") + std::to_string(size) + ")";
  }
  for (const auto& [name, file] : job.names) {
    separate();
    text += "." + name + "(\"" + short_names.at(file) + "\")";
  }
  return text;
}

/// The job that is synthesised on behalf of several equal jobs, with its cost.
struct Distinct {
  const SynthesisJob* job = nullptr;
  std::string key;
  Cost cost = {};
};

/// A job's memory files with neutral names. Equal instances of different layers thereby have equal texts.
struct Neutral {
  std::map<std::string, std::string> names;     // name in the job -> short name
  std::map<std::string, std::string> memories;  // short file name -> content
};

Neutral neutral(const SynthesisJob& job, const std::string& prefix) {
  Neutral result;
  for (const auto& [parameter, name] : job.names) {
    const std::string plain = prefix + "f" + std::to_string(result.names.size());
    if (!result.names.emplace(name, plain).second) continue;
    for (const auto& [file, content] : job.memories) {
      if (file == name) result.memories[plain] = content;
      if (file.starts_with(name + ".")) result.memories[plain + file.substr(name.size())] = content;
    }
  }
  return result;
}

/// Returns SystemVerilog that wraps each instance in its own module. Without `keep`, Yosys would remove every instance
/// whose outputs nobody reads; without `keep_hierarchy`, Yosys would treat unconnected inputs as constants.
std::string wrappers(const std::vector<Distinct*>& jobs) {
  std::string text, top = "module " + std::string(kTop) + " ();\n";
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string name = wrapper_name(i);
    text += "module " + name + " ();\n  (* keep, keep_hierarchy *) " + jobs[i]->job->module + " #(" +
            actual_parameters(*jobs[i]->job, neutral(*jobs[i]->job, name + "_").names) +
            ") dut ();\nendmodule\n";
    top += "  (* keep, keep_hierarchy *) " + name + " u_" + name + " ();\n";
  }
  return text + top + "endmodule\n";
}

std::string script(const std::string& family, const std::set<std::string>& sources) {
  std::string text = "read_verilog -sv -defer";
  for (const std::string& name : sources) text += " " + name;
  return text + "\nread_verilog -sv " + kTop + ".sv\nhierarchy -check -top " + kTop + "\n" + kTablesInLogic +
         "\nsynth_xilinx -family " + family + " " + kSynthesisOptions + " -top " + kTop +
         "\ncheck -assert\n"
         "setattr -unset keep_hierarchy *\n"
         "setattr -mod -unset keep_hierarchy *\n"
         "setattr -mod -set keep_hierarchy 1 instance_*\n"
         "flatten\ntee -q -o " +
         kCells + " stat\n";
}

std::string last_lines(const std::string& text, std::size_t lines) {
  std::size_t from = text.size();
  while (from > 0 && lines > 0) {
    from = text.rfind('\n', from - 1);
    if (from == std::string::npos) return text;
    --lines;
  }
  return text.substr(from);
}

Error disk_full(const fs::path& folder) {
  return Error(ErrorCode::kResourceExhausted, "the disk under " + folder.string() + " is full");
}

/// Runs Yosys for the jobs in `folder` and returns Yosys' statistics.
Result<std::string> run_yosys(const Yosys& yosys, const std::vector<Distinct*>& jobs,
                              const fs::path& folder) {
  std::set<std::string> sources;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (const auto& [name, text] : jobs[i]->job->sources) {
      if (sources.insert(name).second) MILLRACE_TRY(write_scratch_file(folder / name, text));
    }
    for (const auto& [name, text] : neutral(*jobs[i]->job, wrapper_name(i) + "_").memories) {
      MILLRACE_TRY(write_scratch_file(folder / name, text));
    }
  }
  MILLRACE_TRY(write_scratch_file(folder / (std::string(kTop) + ".sv"), wrappers(jobs)));
  MILLRACE_TRY(write_scratch_file(folder / "run.ys", script(jobs[0]->job->family, sources)));
  MILLRACE_ASSIGN(const ChildOutcome outcome,
                  run_child({yosys.program.string(), "-Q", "-q", "-s", "run.ys"}, folder));
  if (outcome.signal != 0) {
    return Error(ErrorCode::kUnavailable, "yosys was killed by signal " + std::to_string(outcome.signal) +
                                              (outcome.signal == 9 ? " (out of memory?)" : ""));
  }
  if (outcome.exit_code != 0) {
    if (is_disk_full(folder)) return disk_full(folder);
    return Error(ErrorCode::kInternal, "yosys ended with exit code " + std::to_string(outcome.exit_code) +
                                           ":" + last_lines(outcome.output, 12));
  }
  return read_text_file(folder / kCells);
}

std::string print_cost(const Cost& cost) {
  std::string text;
  for (const std::uint64_t count :
       {cost.lut, cost.lutram, cost.ff, cost.dsp, cost.ramb18, cost.ramb36, cost.uram}) {
    text += std::to_string(count) + " ";
  }
  return text + "\n";
}

/// Returns the cached cost of a key, or nothing if the cache has none.
std::optional<Cost> known_cost(const Cache& cache, const std::string& key) {
  const auto entry = cache.find(kCacheKind, key);
  if (!entry) return std::nullopt;
  const auto text = read_text_file(*entry / kCost);
  if (!text.ok()) return std::nullopt;
  std::istringstream words(*text);
  Cost cost;
  if (words >> cost.lut >> cost.lutram >> cost.ff >> cost.dsp >> cost.ramb18 >> cost.ramb36 >> cost.uram)
    return cost;
  return std::nullopt;
}

/// Synthesises jobs in one run of Yosys, and stores their costs in the cache.
Status run_batch(const Yosys& yosys, const Cache& cache, const std::vector<Distinct*>& batch) {
  MILLRACE_ASSIGN(const ClaimedDirectory folder, cache.folder(kCacheKind));
  MILLRACE_ASSIGN(const std::string statistics, run_yosys(yosys, batch, folder.path()));
  // Check all counts before storing the first cost. On a full disk Yosys reports success with its statistics cut off.
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto counted = count_cells(statistics, wrapper_name(i));
    if (!counted.ok()) return is_disk_full(folder.path()) ? disk_full(folder.path()) : counted.error();
    batch[i]->cost = *counted;
  }
  for (const Distinct* one : batch) {
    const auto kept = cache.get(kCacheKind, one->key, [&](const fs::path& entry, const fs::path&) {
      return write_new_file(entry / kCost, print_cost(one->cost));
    });
    if (!kept.ok()) return kept.error();
  }
  return {};
}

/// Distributes jobs over at least `least` runs of Yosys. Every run takes a fixed time, plus time for its logic.
/// Therefore there are few runs, and the largest jobs are in different runs.
std::vector<std::vector<Distinct*>> make_batches(std::vector<Distinct*> missing, std::size_t least) {
  constexpr std::uint64_t kBatchSize = 12000;
  std::uint64_t total = 0;
  for (const Distinct* one : missing) total += one->job->size;
  const std::size_t count = std::min(missing.size(), std::max<std::size_t>(least, total / kBatchSize + 1));
  std::stable_sort(missing.begin(), missing.end(),
                   [](const Distinct* a, const Distinct* b) { return a->job->size > b->job->size; });
  std::vector<std::vector<Distinct*>> batches(count);
  std::vector<std::uint64_t> sizes(count);
  for (Distinct* one : missing) {
    const auto smallest = std::min_element(sizes.begin(), sizes.end());
    *smallest += one->job->size;
    batches[static_cast<std::size_t>(smallest - sizes.begin())].push_back(one);
  }
  return batches;
}

}  // namespace

Result<Yosys> Yosys::find() {
  const auto program = find_program("yosys");
  if (!program) {
    return Error(ErrorCode::kEnvironment,
                 "yosys was not found in PATH; install it with 'tools/setup' (Debian package yosys)");
  }
  MILLRACE_ASSIGN(const ChildOutcome outcome, run_child({program->string(), "-V"}));
  if (!outcome.ok() || !outcome.output.starts_with("Yosys ")) {
    return Error(ErrorCode::kEnvironment, program->string() + " -V does not answer as Yosys does");
  }
  return Yosys{*program, outcome.output.substr(0, outcome.output.find('\n'))};
}

Status check_family(const std::string& family) {
  if (family == "xcu" || family == "xcup") return {};
  return Error(ErrorCode::kUnsupported,
               "family '" + family +
                   "' cannot be synthesised; the hardware library supports the families xcu and xcup");
}

Result<Cost> count_cells(const std::string& statistics, const std::string& module) {
  std::istringstream lines(statistics);
  Cost cost;
  bool in_module = false, in_cells = false, found = false;
  std::uint64_t said = 0, listed = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string type;
    std::uint64_t count = 0;
    if (line.starts_with("===")) {
      in_module = line == "=== " + module + " ===";
      in_cells = false;
    } else if (const auto at = line.find(kNumber); in_module && at != std::string::npos) {
      in_cells = static_cast<bool>(std::istringstream(line.substr(at + kNumber.size())) >> said);
      found = found || in_cells;
    } else if (in_cells && words >> type >> count) {
      add_cell(cost, type, count);
      listed += count;
    } else {
      in_cells = in_cells && !line.empty();
    }
  }
  if (!found) return Error(ErrorCode::kCorrupt, "no cells of '" + module + "' in what yosys wrote");
  if (listed != said) {
    return Error(ErrorCode::kCorrupt, "what yosys wrote lists " + std::to_string(listed) + " of the " +
                                          std::to_string(said) + " cells of '" + module + "'");
  }
  return cost;
}

std::string key_of(const Yosys& yosys, const SynthesisJob& job) {
  const Neutral files = neutral(job, "");
  Sha256 digest;
  digest.update(yosys.version).update(script(job.family, {})).update(job.module);
  digest.update(actual_parameters(job, files.names));
  for (const auto& [name, text] : job.sources) digest.update("\n" + name + " " + sha256_hex(text));
  for (const auto& [name, text] : files.memories) digest.update("\n" + name + " " + sha256_hex(text));
  return to_hex(digest.finish());
}

Result<Sources> sources_of(const std::string& module, const Sources& library) {
  Sources found;
  std::vector<std::string> open = {module};
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    const auto source = library.find(name + ".sv");
    if (source == library.end()) {
      return Error(ErrorCode::kInvalidInput, "the hardware library has no " + name + ".sv");
    }
    if (!found.insert(*source).second) continue;
    // Collect every word mr_… that names a library module. A name in a comment adds a needless file, which does no
    // harm.
    const std::string& text = source->second;
    constexpr std::string_view kPrefix = "mr_";
    for (std::size_t at = text.find(kPrefix); at != std::string::npos; at = text.find(kPrefix, at + 1)) {
      std::size_t end = at;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
        ++end;
      const std::string word = text.substr(at, end - at);
      if (word != name && library.contains(word + ".sv") && word != "mr_handshake_check")
        open.push_back(word);
    }
  }
  return found;
}

Result<std::vector<Cost>> synthesise(const Yosys& yosys, const Cache& cache,
                                     const std::vector<SynthesisJob>& jobs, const SynthesisOptions& options) {
  std::map<std::string, std::size_t> positions;  // key -> position in `distinct`
  std::vector<std::size_t> position;             // job -> position in `distinct`
  std::vector<Distinct> distinct;
  for (const SynthesisJob& job : jobs) {
    MILLRACE_TRY(check_family(job.family));
    std::string key = key_of(yosys, job);
    const auto [at, fresh] = positions.emplace(key, distinct.size());
    position.push_back(at->second);
    if (fresh) distinct.push_back({&job, std::move(key)});
  }
  std::vector<Distinct*> missing;
  for (Distinct& one : distinct) {
    if (const auto known = known_cost(cache, one.key))
      one.cost = *known;
    else
      missing.push_back(&one);
  }
  std::size_t done = distinct.size() - missing.size();
  if (options.progress) options.progress(done, distinct.size());

  const unsigned threads =
      options.jobs != 0 ? options.jobs : std::max(1U, std::thread::hardware_concurrency());
  const auto batches = make_batches(std::move(missing), threads);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // protects done, result and the calls of progress
  Status result;
  const auto work = [&] {
    for (std::size_t b = next++; b < batches.size(); b = next++) {
      Status made = run_batch(yosys, cache, batches[b]);
      const std::lock_guard lock(mutex);
      if (!made.ok()) {
        if (result.ok()) result = std::move(made);
        next = batches.size();
        return;
      }
      done += batches[b].size();
      if (options.progress) options.progress(done, distinct.size());
    }
  };
  {
    std::vector<std::jthread> pool;
    for (unsigned t = 1; t < std::min<std::size_t>(threads, batches.size()); ++t) pool.emplace_back(work);
    work();
  }
  MILLRACE_TRY(result);
  std::vector<Cost> costs;
  for (const std::size_t at : position) costs.push_back(distinct[at].cost);
  return costs;
}

}  // namespace millrace::compiler::synth
