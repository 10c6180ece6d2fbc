#include <unistd.h>
#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "compiler/synth/partition.hpp"
#include "runtime/base/text.hpp"
#include "runtime/plan/deployment.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using compiler::generators::Cost;
using compiler::synth::InstanceCost;
using compiler::synth::PartitionCost;

/// Returns the folders rtl/<partition> of the deployment `target`, sorted by name. If `target` itself is such
/// a folder, returns only `target`.
Result<std::vector<fs::path>> partition_folders(const fs::path& target) {
  std::error_code code;
  if (!fs::is_directory(target, code)) {
    return Error(ErrorCode::kNotFound, target.string() + ": no such directory");
  }
  if (fs::is_regular_file(target / "design.json", code)) return std::vector<fs::path>{target};
  std::vector<fs::path> folders;
  for (auto it = fs::directory_iterator(target / "rtl", code); !code && it != fs::directory_iterator();
       it.increment(code)) {
    if (fs::is_regular_file(it->path() / "design.json", code)) folders.push_back(it->path());
  }
  if (folders.empty()) {
    MILLRACE_TRY(runtime::plan::check_no_variants(target));
    return Error(ErrorCode::kInvalidInput,
                 target.string() +
                     " has no rtl/<partition>/design.json: "
                     "the deployment contains no generated hardware; compile the model again");
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// Shows progress on standard error: as a bar on a terminal, otherwise as one line for each step.
class Progress {
 public:
  explicit Progress(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (drawn_) std::fputc('\n', stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t done, std::size_t of) {
    if (quiet_) return;
    if (!terminal_) {
      std::fprintf(stderr, "synthesised %zu of %zu different instances\n", done, of);
      return;
    }
    constexpr std::size_t kWidth = 40;
    const std::size_t filled = of == 0 ? kWidth : done * kWidth / of;
    std::fprintf(stderr, "\r[%s%s] %zu of %zu different instances", std::string(filled, '#').c_str(),
                 std::string(kWidth - filled, ' ').c_str(), done, of);
    drawn_ = true;
  }

 private:
  bool quiet_, terminal_, drawn_ = false;
};

json::object to_json(const Cost& cost) {
  return {{"lut", cost.lut},       {"lutram", cost.lutram}, {"ff", cost.ff},    {"dsp", cost.dsp},
          {"ramb18", cost.ramb18}, {"ramb36", cost.ramb36}, {"uram", cost.uram}};
}

json::object to_json(const compiler::synth::LayerUse& layer) {
  return {{"multiply_accumulates", layer.multiply_accumulates},
          {"dsp", layer.dsp},
          {"macs_per_dsp_cycle", {{"interval", layer.per_interval}, {"busy", layer.per_busy}}}};
}

json::object to_json(const runtime::plan::Resources& there) {
  return {{"lut", there.lut}, {"lutram", there.lutram}, {"ff", there.ff},
          {"dsp", there.dsp}, {"bram36", there.bram36}, {"uram", there.uram}};
}

json::object to_json(const PartitionCost& partition) {
  json::array regions;
  for (const auto& region : partition.regions)
    regions.push_back(
        {{"name", region.name}, {"whole", to_json(region.whole)}, {"measured", to_json(region.measured)}});
  json::array layers;
  for (const auto& layer : partition.layers) {
    layers.push_back(to_json(layer));
    layers.back().as_object()["name"] = layer.block;
  }
  json::array instances;
  for (const InstanceCost& i : partition.instances) {
    json::object parameters;
    for (const auto& [name, value] : i.parameters) parameters[name] = value;
    instances.push_back({{"name", i.name},
                         {"module", i.module},
                         {"block", i.block},
                         {"shell", i.shell},
                         {"parameters", std::move(parameters)},
                         {"measured", to_json(i.measured)},
                         {"predicted", to_json(i.predicted)}});
  }
  return {
      {"partition", partition.partition},
      {"device", partition.device},
      {"dataflow",
       {{"measured", to_json(partition.dataflow)}, {"predicted", to_json(partition.dataflow_predicted)}}},
      {"shell", {{"measured", to_json(partition.shell)}, {"predicted", to_json(partition.shell_predicted)}}},
      {"whole",
       {{"measured", to_json(partition.whole())}, {"predicted", to_json(partition.whole_predicted())}}},
      {"interval_cycles", partition.interval_cycles},
      {"layers", std::move(layers)},
      {"all_layers", to_json(partition.all_layers)},
      {"available", to_json(partition.available)},
      {"regions", std::move(regions)},
      {"exceeded", json::value_from(compiler::synth::exceeded(partition))},
      {"instances", std::move(instances)}};
}

std::string against(std::uint64_t measured, std::uint64_t predicted) {
  if (measured == 0) return predicted == 0 ? "" : "(+)";
  const double percent = 100.0 * (static_cast<double>(predicted) - static_cast<double>(measured)) /
                         static_cast<double>(measured);
  char text[16];
  std::snprintf(text, sizeof text, "%+.1f %%", percent);
  return text;
}

void print_row(std::ostream& out, std::size_t width, const std::string& name, const std::string& module,
               const Cost& measured, const Cost* predicted) {
  char line[256];
  const auto n = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::snprintf(line, sizeof line,
                "  %-*s  %-16s %7llu %7llu %7llu "
                "%5llu %6llu %6llu %5llu  %9s %9s\n",
                static_cast<int>(width), name.c_str(), module.c_str(), n(measured.lut), n(measured.lutram),
                n(measured.ff), n(measured.dsp), n(measured.ramb18), n(measured.ramb36), n(measured.uram),
                predicted ? against(measured.lut, predicted->lut).c_str() : "",
                predicted ? against(measured.ff, predicted->ff).c_str() : "");
  out << line;
}

void print_layers(const PartitionCost& partition, std::ostream& out) {
  if (partition.layers.empty()) return;
  char line[256];
  std::snprintf(line, sizeof line,
                "  multiplications per DSP slice and cycle; predicted interval %llu cycles\n"
                "  %-28s %12s %6s %12s %8s\n",
                static_cast<unsigned long long>(partition.interval_cycles), "layer", "MACs", "DSP",
                "of interval", "busy");
  out << line;
  const auto row = [&](const std::string& name, const compiler::synth::LayerUse& layer) {
    std::snprintf(line, sizeof line, "  %-28s %12llu %6llu %12.2f %8.2f\n", name.c_str(),
                  static_cast<unsigned long long>(layer.multiply_accumulates),
                  static_cast<unsigned long long>(layer.dsp), layer.per_interval, layer.per_busy);
    out << line;
  };
  for (const auto& layer : partition.layers) row(printable(layer.block), layer);
  row("= all of them", partition.all_layers);
}

void print_share(const std::string& what, const runtime::plan::Resources& taken,
                 const runtime::plan::Resources& there, std::ostream& out) {
  out << "  " << what << ": " << taken.lut << " of " << there.lut << " LUT, " << taken.ff << " of "
      << there.ff << " FF, " << taken.dsp << " of " << there.dsp << " DSP, " << taken.bram36 << " of "
      << there.bram36 << " BRAM36"
      << (there.uram > 0 ? ", " + std::to_string(taken.uram) + " of " + std::to_string(there.uram) + " URAM"
                         : "")
      << '\n';
}

void print_table(const PartitionCost& partition, std::ostream& out) {
  std::size_t width = 24;
  for (const InstanceCost& i : partition.instances)
    width = std::max(width, std::min<std::size_t>(i.name.size(), 60));
  out << partition.partition << (partition.device.empty() ? "" : " on " + partition.device) << '\n';
  char head[256];
  std::snprintf(head, sizeof head,
                "  %-*s  %-16s %7s %7s %7s "
                "%5s %6s %6s %5s  %9s %9s\n",
                static_cast<int>(width), "instance", "module", "LUT", "LUTRAM", "FF", "DSP", "RAMB18",
                "RAMB36", "URAM", "pred. LUT", "pred. FF");
  out << head;
  for (const bool shell : {false, true}) {
    for (const InstanceCost& i : partition.instances) {
      if (i.shell == shell) print_row(out, width, printable(i.name), i.module, i.measured, &i.predicted);
    }
    print_row(out, width, shell ? "= shell" : "= dataflow", "", shell ? partition.shell : partition.dataflow,
              shell ? &partition.shell_predicted : &partition.dataflow_predicted);
  }
  const Cost whole = partition.whole(), whole_predicted = partition.whole_predicted();
  print_row(out, width, "= partition", "", whole, &whole_predicted);
  print_layers(partition, out);
  const Cost &measured = partition.dataflow, &predicted = partition.dataflow_predicted;
  const bool exact = measured.dsp == predicted.dsp && measured.ramb18 == predicted.ramb18 &&
                     measured.ramb36 == predicted.ramb36 && measured.lutram == predicted.lutram;
  out << "  the dataflow's DSP, block RAM and LUT memory counts are " << (exact ? "" : "not ")
      << "as predicted\n";
  if (partition.available == runtime::plan::Resources{})
    out << "  not compared with a device, because the design does not state a region's resources\n";
  else
    print_share("used of the region without the shell", measured.resources(), partition.available, out);
  for (const auto& region : partition.regions)
    print_share("used of the whole region " + printable(region.name) + ", with the shell",
                region.measured.resources(), region.whole, out);
  out << '\n';
}

}  // namespace

Status run(const SynthCommand& command, std::ostream& out) {
  MILLRACE_ASSIGN(const std::vector<fs::path> folders, partition_folders(command.target));
  MILLRACE_ASSIGN(const compiler::synth::Yosys yosys, compiler::synth::Yosys::find());
  MILLRACE_ASSIGN(const Cache cache, Cache::open());
  MILLRACE_ASSIGN(const compiler::generators::Catalog catalog,
                  compiler::generators::load_catalog(command.catalog));
  std::vector<compiler::synth::EmittedPartition> emitted;
  for (const fs::path& folder : folders) {
    MILLRACE_ASSIGN(auto partition, compiler::synth::read_partition(yosys, folder, command.family));
    emitted.push_back(std::move(partition));
  }
  std::vector<PartitionCost> partitions;
  {
    Progress progress(command.common.quiet);
    compiler::synth::SynthesisOptions options;
    options.jobs = command.jobs;
    options.progress = [&](std::size_t done, std::size_t of) { progress.show(done, of); };
    MILLRACE_ASSIGN(partitions,
                    compiler::synth::synthesise_partitions(yosys, cache, catalog, emitted, options));
  }
  if (command.common.json) {
    json::array all;
    for (const PartitionCost& partition : partitions) all.push_back(to_json(partition));
    out << json::serialize(
               json::object{{"schema", 1}, {"tool", yosys.version}, {"partitions", std::move(all)}})
        << '\n';
  } else {
    out << yosys.version << ", synth_xilinx " << compiler::synth::kSynthesisOptions
        << "; no vendor tool, no timing\n\n";
    for (const PartitionCost& partition : partitions) print_table(partition, out);
  }
  std::string over;
  for (const PartitionCost& partition : partitions) {
    for (const std::string& what : compiler::synth::exceeded(partition)) {
      over += (over.empty() ? "" : ", ") + partition.partition + " takes " + what;
    }
  }
  if (!over.empty()) {
    return Error(ErrorCode::kDoesNotFit,
                 "more than the device has: " + over + "; fold more, or use more cards");
  }
  return {};
}

}  // namespace millrace::cli
