// millrace-calibrate: measures the hardware library with Yosys and fits the cost model. See README.md.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <set>

#include "compiler/synth/yosys.hpp"
#include "runtime/base/file.hpp"
#include "tools/calibrate/cycles.hpp"
#include "tools/calibrate/digests.hpp"
#include "tools/calibrate/fit.hpp"
#include "tools/calibrate/host.hpp"
#include "tools/calibrate/measurements.hpp"
#include "tools/calibrate/sample.hpp"

namespace millrace::tools::calibrate {
namespace {

namespace fs = std::filesystem;
using compiler::synth::Sources;
using compiler::synth::SynthesisJob;
using compiler::synth::Yosys;

constexpr const char* kUsage =
    R"(usage: millrace-calibrate sweep [MODULE...]   measure the rows of kernels/catalog.csv that are not current (resumable)
       millrace-calibrate fit                 fit kernels/catalog.yaml to kernels/catalog.csv
       millrace-calibrate host                measure operations on this processor, for the catalogue
       millrace-calibrate rows [MODULE...]    print each measurement beside its prediction
All of them work on the source tree that this program was built from.
)";
constexpr const char* kFamily = "xcu";

fs::path kernels() {
  return fs::path(MILLRACE_SOURCE_DIR) / "kernels";
}
fs::path csv() {
  return kernels() / "catalog.csv";
}

Result<Sources> read_library() {
  Sources library;
  for (const char* folder : {"stream", "nn", "shell", "link"}) {
    for (const auto& file : fs::directory_iterator(kernels() / "rtl" / folder)) {
      if (file.path().extension() != ".sv") continue;
      MILLRACE_ASSIGN(library[file.path().filename().string()], read_text_file(file.path()));
    }
  }
  return library;
}

Result<Measurements> read_measurements() {
  if (!fs::exists(csv())) return Measurements();
  MILLRACE_ASSIGN(const std::string text, read_text_file(csv()));
  return parse_measurements(text, csv().string());
}

constexpr std::size_t kRowsARun = 8;

std::string key(const std::string& module, const Measurement& row) {
  return module + " " + print_parameters(row.parameters) + " " + row.sources;
}

/// Returns the job that synthesises one sample. `number` is the sample's index in this run.
Result<SynthesisJob> job_of(const std::string& module, const Sample& sample, const Sources& sources,
                            std::size_t number) {
  if (sample.source.empty()) {
    MILLRACE_ASSIGN(const Memories memories, memories_of(module, sample.parameters));
    return SynthesisJob{module, sample.parameters, memories.names, memories.files, sources, kFamily};
  }
  const std::string name = kWritten + std::to_string(number), head = std::string("\nmodule ") + kWritten;
  std::string text = sample.source;
  text.replace(text.find(head), head.size(), "\nmodule " + name);
  return SynthesisJob{name, {}, {}, {}, {{name + ".sv", std::move(text)}}, kFamily};
}

/// Collects all measurements of a module. Rows whose SystemVerilog has not changed since they were measured are kept;
/// the other rows are measured.
Status measure(const std::string& module, const Sources& library, const Measurements& before,
               const Yosys& yosys, const Cache& cache, Measurements& result) {
  std::map<std::string, const Measurement*> known;
  for (const Measurement& m : before.rows) known[key(m.module, m)] = &m;
  const std::vector<Sample> samples = sample_of(module, before);
  Sources sources;
  std::string digest;
  if (samples.front().source.empty()) {
    MILLRACE_ASSIGN(sources, compiler::synth::sources_of(module, library));
    MILLRACE_ASSIGN(digest, digest_of(module, library));
  }
  std::vector<SynthesisJob> jobs;
  std::vector<Measurement> rows;
  const auto run = [&]() -> Status {
    if (jobs.empty()) return {};
    std::fprintf(stderr, "%s: %zu rows up to %zu of %zu\n", module.c_str(), jobs.size(),
                 result.rows.size() + rows.size(), samples.size());
    MILLRACE_ASSIGN(const auto costs, compiler::synth::synthesise(yosys, cache, jobs));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].cost = costs[i];
    result.rows.insert(result.rows.end(), rows.begin(), rows.end());
    jobs.clear();
    rows.clear();
    return {};
  };
  for (const Sample& sample : samples) {
    Measurement m{module, sample.parameters, sample.source.empty() ? digest : digest_of(sample.source), {}};
    if (const auto at = known.find(key(module, m)); at != known.end()) {
      result.rows.push_back(*at->second);
      continue;
    }
    MILLRACE_ASSIGN(SynthesisJob job, job_of(module, sample, sources, jobs.size()));
    jobs.push_back(std::move(job));
    rows.push_back(std::move(m));
    if (jobs.size() == kRowsARun) MILLRACE_TRY(run());
  }
  return run();
}

/// Measures the wanted modules. Rewrites the CSV file after each module, so the sweep can be stopped at any time. The
/// cache keeps the rows measured so far.
Status sweep(std::set<std::string> wanted) {
  MILLRACE_ASSIGN(const Yosys yosys, Yosys::find());
  MILLRACE_ASSIGN(const Cache cache, Cache::open());
  MILLRACE_ASSIGN(const auto library, read_library());
  MILLRACE_ASSIGN(Measurements rows, read_measurements());
  for (const std::string& module : wanted)
    if (sample_of(module, rows).empty())
      return Error(ErrorCode::kInvalidInput,
                   "kernels/catalog.csv has no row for the module '" + module + "'");
  if (wanted.empty())
    for (const Measurement& m : rows.rows) wanted.insert(m.module);
  for (const std::string& module : wanted) {
    Measurements after;
    after.tool =
        yosys.version + ", synth_xilinx -family " + kFamily + " " + compiler::synth::kSynthesisOptions;
    MILLRACE_TRY(measure(module, library, rows, yosys, cache, after));
    for (const Measurement& m : rows.rows)
      if (m.module != module) after.rows.push_back(m);
    std::stable_sort(after.rows.begin(), after.rows.end(),
                     [](const Measurement& a, const Measurement& b) { return a.module < b.module; });
    MILLRACE_TRY(write_file_atomically(csv(), print_measurements(after)));
    rows = std::move(after);
  }
  return {};
}

Status print_rows(const std::set<std::string>& wanted) {
  MILLRACE_ASSIGN(const Measurements measurements, read_measurements());
  MILLRACE_ASSIGN(const Fitted fitted, fit(measurements));
  for (const Measurement& m : measurements.rows) {
    if (!wanted.empty() && !wanted.contains(m.module)) continue;
    MILLRACE_ASSIGN(const auto predicted, compiler::generators::cost(fitted.catalog, m.module, m.parameters));
    const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf("%s: %llu LUTs predicted, %llu measured; %llu FFs predicted, %llu measured: %s\n",
                m.module.c_str(), number(predicted.lut), number(m.cost.lut), number(predicted.ff),
                number(m.cost.ff), print_parameters(m.parameters).c_str());
  }
  return {};
}

Status fit_catalog() {
  MILLRACE_ASSIGN(const Measurements measurements, read_measurements());
  MILLRACE_ASSIGN(Fitted fitted, fit(measurements));
  MILLRACE_ASSIGN(const std::string cycles, read_text_file(kernels() / "cycles.csv"));
  MILLRACE_ASSIGN(const auto cycle_rows, parse_cycles(cycles, "kernels/cycles.csv"));
  MILLRACE_ASSIGN(const auto errors, compare_cycles(cycle_rows));
  for (const auto& [module, error] : errors) fitted.catalog.modules[module].cycles = error;
  std::printf("%-18s %5s %22s %22s %32s\n", "module", "rows", "LUT held out: mean worst",
              "FF held out: mean worst", "worst latency, interval (rows)");
  for (const auto& [name, model] : fitted.catalog.modules) {
    std::printf("%-18s %5zu", name.c_str(), model.lut.held_out.rows);
    for (const auto& error : {model.lut.held_out, model.ff.held_out})
      std::printf(" %12.1f %% %7.1f %%", 100 * error.mean, 100 * error.worst);
    if (model.cycles)
      std::printf(" %12.1f %% %7.1f %% (%zu)", 100 * model.cycles->latency.worst,
                  100 * model.cycles->interval.worst, model.cycles->interval.rows);
    std::printf("\n");
  }
  for (const Inexact& i : fitted.inexact) {
    const auto& m = i.measurement.cost;
    std::printf(
        "not exact: %s %s: lutram %llu dsp %llu ramb18 %llu ramb36 %llu, predicted %llu %llu %llu %llu\n",
        i.measurement.module.c_str(), print_parameters(i.measurement.parameters).c_str(),
        static_cast<unsigned long long>(m.lutram), static_cast<unsigned long long>(m.dsp),
        static_cast<unsigned long long>(m.ramb18), static_cast<unsigned long long>(m.ramb36),
        static_cast<unsigned long long>(i.predicted.lutram), static_cast<unsigned long long>(i.predicted.dsp),
        static_cast<unsigned long long>(i.predicted.ramb18),
        static_cast<unsigned long long>(i.predicted.ramb36));
  }
  if (fs::exists(kernels() / "catalog.yaml")) {  // keep figures that this run does not measure
    MILLRACE_ASSIGN(auto before, compiler::generators::load_catalog(kernels() / "catalog.yaml"));
    fitted.catalog.modules.merge(before.modules);
    fitted.catalog.host_machine = before.host_machine;
    fitted.catalog.host = before.host;
  }
  return write_file_atomically(kernels() / "catalog.yaml", print_catalog(fitted.catalog));
}

Status host() {
  MILLRACE_ASSIGN(auto catalog, compiler::generators::load_catalog(kernels() / "catalog.yaml"));
  const HostTimes times = measure_host();
  catalog.host_machine = times.machine;
  catalog.host = times.operations;
  std::printf("%s\n%-14s %10s %10s\n", times.machine.c_str(), "operation", "ns a block", "ns a unit");
  for (const auto& [name, time] : times.operations)
    std::printf("%-14s %10.1f %10.4f\n", name.c_str(), time.block_ns, time.unit_ns);
  return write_file_atomically(kernels() / "catalog.yaml", print_catalog(catalog));
}

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Status status;
  if (!words.empty() && words[0] == "sweep") {
    status = sweep(std::set<std::string>(words.begin() + 1, words.end()));
  } else if (!words.empty() && words[0] == "rows") {
    status = print_rows(std::set<std::string>(words.begin() + 1, words.end()));
  } else if (words.size() == 1 && words[0] == "host") {
    status = host();
  } else if (words.size() == 1 && words[0] == "fit") {
    status = fit_catalog();
  } else {
    std::cerr << kUsage;
    return words.size() == 1 && (words[0] == "--help" || words[0] == "-h") ? 0 : 2;
  }
  if (status.ok()) return 0;
  std::cerr << "millrace-calibrate: " << status.error().message() << '\n';
  return exit_code(status.error().code());
}

}  // namespace
}  // namespace millrace::tools::calibrate

int main(int argc, char** argv) {
  return millrace::tools::calibrate::main(argc, argv);
}
