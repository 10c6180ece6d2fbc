#include "compiler/synth/partition.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "runtime/base/file.hpp"
#include "runtime/base/process.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::synth {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using generators::Cost;

constexpr std::uint64_t kMaxFileBytes = 256U << 20U;

Error wrong(const fs::path& folder, const std::string& message) {
  return Error(ErrorCode::kInvalidInput, folder.string() + ": " + message);
}

bool is_identifier(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

Result<json::value> parse_json(const std::string& text, const fs::path& folder, const char* what) {
  json::error_code code;
  json::value value = json::parse(text, code);
  if (code || !value.is_object()) return wrong(folder, std::string(what) + " is not a JSON object");
  return value;
}

/// Returns a member of `object` that must be a string.
Result<std::string> text_of(const json::object& object, const char* key, const fs::path& folder) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string())
    return wrong(folder, "design.json: '" + std::string(key) + "' is not a string");
  return std::string(value->as_string());
}

std::uint64_t count_of(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return 0;
  if (value->is_uint64()) return value->as_uint64();
  return value->is_int64() && value->as_int64() > 0 ? static_cast<std::uint64_t>(value->as_int64()) : 0;
}

runtime::plan::Resources resources_of(const json::object& object) {
  return {count_of(object, "lut"), count_of(object, "lutram"), count_of(object, "ff"),
          count_of(object, "dsp"), count_of(object, "bram36"), count_of(object, "uram")};
}

struct Folder {
  EmittedPartition found;  // without instances
  std::string family, dataflow, top;
  std::map<std::string, EmittedInstance> instances;  // by the instances' names, as in design.json
  Sources library;
  std::map<std::string, std::string> memories;  // file name ("conv_5_weights.hex") -> text
};

/// Returns the elements of a list of objects. A missing list is an error if `needed` is set, otherwise an empty list.
Result<std::vector<const json::object*>> objects_of(const json::object& design, const char* key, bool needed,
                                                    const fs::path& folder) {
  std::vector<const json::object*> objects;
  const json::value* list = design.if_contains(key);
  if (list == nullptr || !list->is_array()) {
    if (!needed) return objects;
    return wrong(folder, "design.json: '" + std::string(key) + "' is not a list");
  }
  for (const json::value& one : list->as_array()) {
    if (!one.is_object())
      return wrong(folder, "design.json: an element of '" + std::string(key) + "' is not an object");
    objects.push_back(&one.as_object());
  }
  return objects;
}

Status read_instances(const json::object& design, const fs::path& folder, Folder& result) {
  MILLRACE_ASSIGN(const auto instances, objects_of(design, "instances", true, folder));
  for (const json::object* instance : instances) {
    MILLRACE_ASSIGN(const std::string name, text_of(*instance, "name", folder));
    EmittedInstance& made = result.instances[name];
    MILLRACE_ASSIGN(made.block, text_of(*instance, "block", folder));
    if (instance->contains("region")) {
      MILLRACE_ASSIGN(made.region, text_of(*instance, "region", folder));
    }
    if (!instance->contains("source")) continue;
    // The cost model has another name for a module that was written for this partition.
    MILLRACE_ASSIGN(made.module, text_of(*instance, "module", folder));
    const json::value* counts = instance->if_contains("parameters");
    if (counts == nullptr || !counts->is_object())
      return wrong(folder, "design.json: an instance's 'parameters' is not an object");
    for (const auto& [key, value] : counts->as_object())
      if (value.is_int64()) made.parameters.emplace_back(std::string(key), value.as_int64());
  }
  return {};
}

Status read_design(const fs::path& folder, Folder& result) {
  MILLRACE_ASSIGN(const std::string text, read_text_file(folder / "design.json", kMaxFileBytes));
  MILLRACE_ASSIGN(const json::value document, parse_json(text, folder, "design.json"));
  const json::object& design = document.as_object();
  EmittedPartition& found = result.found;
  if (count_of(design, "schema") != 1) return wrong(folder, "design.json: 'schema' is not 1");
  MILLRACE_ASSIGN(found.partition, text_of(design, "partition", folder));
  MILLRACE_ASSIGN(found.device, text_of(design, "device", folder));
  MILLRACE_ASSIGN(result.dataflow, text_of(design, "dataflow", folder));
  MILLRACE_ASSIGN(result.top, text_of(design, "top", folder));
  for (const std::string& name : {found.partition, result.dataflow, result.top})
    if (!is_identifier(name)) return wrong(folder, "design.json: '" + printable(name) + "' is no identifier");
  if (const json::value* family = design.if_contains("family"); family != nullptr && family->is_string())
    result.family = std::string(family->as_string());
  if (const json::value* given = design.if_contains("available"); given != nullptr && given->is_object())
    found.available = resources_of(given->as_object());
  MILLRACE_ASSIGN(const auto regions, objects_of(design, "regions", false, folder));
  for (const json::object* region : regions) {
    MILLRACE_ASSIGN(std::string name, text_of(*region, "name", folder));
    found.regions.push_back({std::move(name), resources_of(*region)});
  }
  MILLRACE_ASSIGN(const auto blocks, objects_of(design, "blocks", false, folder));
  for (const json::object* block : blocks) {
    MILLRACE_ASSIGN(std::string name, text_of(*block, "name", folder));
    found.blocks.push_back(
        {std::move(name), count_of(*block, "multiply_accumulates"), count_of(*block, "busy_cycles")});
  }
  if (const json::value* told = design.if_contains("predicted"); told != nullptr && told->is_object())
    found.interval_cycles = count_of(told->as_object(), "interval_cycles");
  return read_instances(design, folder, result);
}

/// Reads the modules and memory files of a partition's folder, and the modules of the folder's library.
Status read_files(const fs::path& folder, Folder& result) {
  for (const auto& place : {folder / "library", folder}) {
    std::error_code code;
    for (auto it = fs::directory_iterator(place, code); !code && it != fs::directory_iterator();
         it.increment(code)) {
      const std::string name = it->path().filename().string();
      const bool module = name.ends_with(".sv") && is_identifier(name.substr(0, name.size() - 3));
      const bool memory = place == folder && is_name(name) && !name.ends_with(".sv") && name != "design.json";
      const bool own = name == result.dataflow + ".sv" || name == result.top + ".sv";
      if ((!module && !memory) || (own && place == folder) || !it->is_regular_file(code)) continue;
      MILLRACE_ASSIGN((module ? result.library : result.memories)[name],
                      read_text_file(it->path(), kMaxFileBytes));
    }
    if (code) return wrong(place, "cannot be listed: " + code.message());
  }
  return {};
}

/// Returns the modules of dataflow and top as Yosys reads them. Library modules are black boxes.
Result<json::value> read_structure(const Yosys& yosys, const fs::path& folder, const Folder& files) {
  const TemporaryDirectory scratch("millrace-synth");
  const std::string target = (scratch.path() / "structure.json").string();
  std::vector<std::string> command = {
      yosys.program.string(), "-Q", "-q", "-p",
      "read_verilog -sv " + files.dataflow + ".sv " + files.top + ".sv; proc; write_json structure.json"};
  // A full disk makes Yosys fail or write an incomplete result. The error must then name the full disk, not the
  // partition's folder.
  const auto refuse = [&](Error error) {
    return is_disk_full(scratch.path())
               ? Error(ErrorCode::kResourceExhausted,
                       "the disk under " + scratch.path().string() + " is full; TMPDIR puts it elsewhere")
               : error;
  };
  for (const std::string& name : {files.dataflow + ".sv", files.top + ".sv"}) {
    std::error_code code;
    fs::copy_file(folder / name, scratch.path() / name, code);
    if (code) return refuse(wrong(folder, name + " cannot be read: " + code.message()));
  }
  MILLRACE_ASSIGN(const ChildOutcome outcome, run_child(command, scratch.path()));
  if (outcome.signal != 0) {
    return Error(ErrorCode::kUnavailable, "yosys was killed by signal " + std::to_string(outcome.signal));
  }
  if (!outcome.ok())
    return refuse(
        wrong(folder, "yosys does not read the SystemVerilog:\n" + printable(outcome.output, true)));
  const auto text = read_text_file(target, kMaxFileBytes);
  if (!text.ok()) return refuse(text.error());
  auto structure = parse_json(*text, folder, "what yosys wrote");
  if (!structure.ok()) return refuse(structure.error());
  return structure;
}

/// Converts one of Yosys' numbers, which are binary digits in two's complement. Returns nothing for any other string.
std::optional<std::int64_t> number_of(const std::string& digits) {
  if (digits.empty() || digits.size() > 64 || digits.find_first_not_of("01") != std::string::npos)
    return std::nullopt;
  std::uint64_t value = digits[0] == '1' ? ~std::uint64_t{0} : 0;
  for (const char c : digits) value = (value << 1U) | (c == '1' ? 1U : 0U);
  return static_cast<std::int64_t>(value);
}

class Reader {
 public:
  Reader(const fs::path& folder, const Folder& files, const json::object& modules, EmittedPartition& result)
      : folder_(folder), files_(files), modules_(modules), result_(result) {}

  Status read(const std::string& module, bool shell, int depth = 0) {
    const json::value* found = modules_.if_contains(module);
    if (found == nullptr || !found->is_object() || depth > 4)
      return wrong(folder_, "no module '" + module + "'");
    const json::value* cells = found->as_object().if_contains("cells");
    if (cells == nullptr || !cells->is_object())
      return wrong(folder_, "module '" + module + "' has no cells");
    for (const auto& [name, value] : cells->as_object()) {
      const json::object& cell = value.as_object();
      const std::string type(cell.at("type").as_string());
      if (type.starts_with("$")) {
        add_glue(type, cell.at("parameters").as_object());
      } else if (modules_.contains(type)) {
        MILLRACE_TRY(read(type, shell && type != files_.dataflow, depth + 1));
      } else {
        MILLRACE_TRY(add(std::string(name), type, shell, cell.at("parameters").as_object()));
      }
    }
    return {};
  }

 private:
  void add_glue(const std::string& type, const json::object& parameters) {
    const auto width = [&](const char* key) {
      const json::value* value = parameters.if_contains(key);
      const auto number =
          value != nullptr && value->is_string() ? number_of(std::string(value->as_string())) : std::nullopt;
      return static_cast<std::uint64_t>(std::max<std::int64_t>(number.value_or(1), 1));
    };
    if (type.find("dff") != std::string::npos) {
      result_.glue.ff += width("WIDTH");
    } else {
      result_.glue.lut += std::max(width("Y_WIDTH"), width("WIDTH"));
    }
  }

  Status add(const std::string& name, const std::string& type, bool shell, const json::object& parameters) {
    if (!is_identifier(type) || !files_.library.contains(type + ".sv")) {
      return wrong(folder_, "instance '" + printable(name) + "' is of a module '" + printable(type) +
                                "' that is not there");
    }
    const auto described = files_.instances.find(name);
    EmittedInstance instance = described == files_.instances.end() ? EmittedInstance() : described->second;
    instance.name = name;
    instance.shell = shell;
    instance.job.module = type;
    instance.job.family = files_.family;
    MILLRACE_ASSIGN(instance.job.sources, sources_of(type, files_.library));
    for (const auto& [key, value] : parameters) {
      const std::string text(value.as_string());
      if (!is_identifier(key)) return wrong(folder_, "a parameter's name is no identifier");
      if (const auto number = number_of(text)) {
        instance.job.parameters.emplace_back(std::string(key), *number);
        continue;
      }
      instance.job.names.emplace_back(std::string(key), text);
      bool any = false;
      for (const auto& [file, content] : files_.memories) {
        if (file != text && !file.starts_with(text + ".")) continue;
        instance.job.memories.emplace(file, content);
        any = true;
      }
      // A matrix-vector unit without a bias names a bias file but does not read it.
      const json::value* bias = key == "BFILE" ? parameters.if_contains("BIAS") : nullptr;
      if (bias != nullptr && number_of(std::string(bias->as_string())) == 0) continue;
      if (!any)
        return wrong(folder_, "instance '" + name + "' reads '" + printable(text) + "', which is not there");
    }
    if (instance.module.empty()) {
      instance.module = type;
      instance.parameters = instance.job.parameters;
    }
    result_.instances.push_back(std::move(instance));
    return {};
  }

  const fs::path& folder_;
  const Folder& files_;
  const json::object& modules_;
  EmittedPartition& result_;
};

bool multiplies_in_slices(const InstanceCost& instance) {
  return std::any_of(instance.parameters.begin(), instance.parameters.end(),
                     [](const auto& p) { return p.first == "MUL" && p.second != 0; });
}

/// Computes how well each block uses its DSP slices.
void measure_layers(const EmittedPartition& emitted, PartitionCost& cost) {
  const auto ratio = [](std::uint64_t work, double cycles) {
    return cycles > 0 ? static_cast<double>(work) / cycles : 0.0;
  };
  double slice_cycles = 0;
  for (const BlockWork& block : emitted.blocks) {
    LayerUse layer;
    bool slices = false;
    for (const InstanceCost& instance : cost.instances) {
      if (instance.block != block.block || instance.shell) continue;
      layer.dsp += instance.measured.dsp;
      slices = slices || multiplies_in_slices(instance);
    }
    if (!slices || layer.dsp == 0) continue;
    const auto dsp = static_cast<double>(layer.dsp);
    layer.block = block.block;
    layer.multiply_accumulates = block.multiply_accumulates;
    layer.per_interval =
        ratio(layer.multiply_accumulates, dsp * static_cast<double>(emitted.interval_cycles));
    layer.per_busy = ratio(layer.multiply_accumulates, dsp * static_cast<double>(block.busy_cycles));
    slice_cycles += dsp * static_cast<double>(block.busy_cycles);
    cost.all_layers.multiply_accumulates += layer.multiply_accumulates;
    cost.all_layers.dsp += layer.dsp;
    cost.layers.push_back(std::move(layer));
  }
  LayerUse& all = cost.all_layers;
  all.per_interval = ratio(all.multiply_accumulates,
                           static_cast<double>(all.dsp) * static_cast<double>(emitted.interval_cycles));
  all.per_busy = ratio(all.multiply_accumulates, slice_cycles);
}

}  // namespace

Result<EmittedPartition> read_partition(const Yosys& yosys, const fs::path& folder,
                                        const std::string& family) {
  Folder files;
  MILLRACE_TRY(read_design(folder, files));
  MILLRACE_TRY(read_files(folder, files));
  if (!family.empty()) files.family = family;
  if (files.family.empty()) {
    return wrong(folder, "design.json names no device family; give one with --family");
  }
  MILLRACE_TRY(check_family(files.family));
  MILLRACE_ASSIGN(const json::value structure, read_structure(yosys, folder, files));
  const json::value* modules = structure.as_object().if_contains("modules");
  if (modules == nullptr || !modules->is_object()) return wrong(folder, "yosys wrote no modules");
  EmittedPartition result = files.found;
  MILLRACE_TRY(Reader(folder, files, modules->as_object(), result).read(files.top, true));
  return result;
}

Result<std::vector<PartitionCost>> synthesise_partitions(const Yosys& yosys, const Cache& cache,
                                                         const generators::Catalog& catalog,
                                                         const std::vector<EmittedPartition>& partitions,
                                                         const SynthesisOptions& options) {
  std::vector<SynthesisJob> jobs;
  std::vector<PartitionCost> result;
  for (const EmittedPartition& partition : partitions) {
    PartitionCost costs{partition, {}, {}, {}, partition.glue, {}, {}, {}};
    for (const EmittedInstance& emitted : partition.instances) {
      InstanceCost instance{emitted, {}, {}};
      // A module that the catalogue does not know, such as a plugin's, is measured without a prediction.
      const auto predicted = generators::cost(catalog, instance.module, instance.parameters);
      if (predicted.ok()) instance.predicted = *predicted;
      jobs.push_back(std::move(instance.job));
      jobs.back().size += instance.predicted.lut + instance.predicted.ff;
      costs.instances.push_back(std::move(instance));
    }
    result.push_back(std::move(costs));
  }
  MILLRACE_ASSIGN(const std::vector<Cost> measured, synthesise(yosys, cache, jobs, options));
  auto next = measured.begin();
  for (std::size_t p = 0; p < result.size(); ++p) {
    for (InstanceCost& instance : result[p].instances) {
      instance.measured = *next++;
      (instance.shell ? result[p].shell : result[p].dataflow) += instance.measured;
      (instance.shell ? result[p].shell_predicted : result[p].dataflow_predicted) += instance.predicted;
      if (auto& regions = result[p].regions; !regions.empty()) {
        const auto there = std::find_if(regions.begin(), regions.end(), [&](const RegionUse& region) {
          return region.name == instance.region;
        });
        (there == regions.end() ? regions.front() : *there).measured += instance.measured;
      }
    }
    if (!result[p].regions.empty()) result[p].regions.front().measured += partitions[p].glue;
    measure_layers(partitions[p], result[p]);
  }
  return result;
}

std::vector<std::string> exceeded(const PartitionCost& partition) {
  using runtime::plan::Resources;
  std::vector<std::string> names;
  const auto compare = [&](const Resources& taken, const Resources& there, const std::string& of) {
    if (there == Resources{}) return;
    const auto one = [&](std::uint64_t needed, std::uint64_t offered, const char* name) {
      if (needed > offered)
        names.push_back(std::to_string(needed) + " " + name + " of " + std::to_string(offered) + of);
    };
    one(taken.lut, there.lut, "LUT");
    if (there.lutram > 0) one(taken.lutram, there.lutram, "LUT as memory");
    one(taken.ff, there.ff, "FF");
    one(taken.dsp, there.dsp, "DSP");
    one(taken.bram36, there.bram36, "BRAM36");
    one(taken.uram, there.uram, "URAM");
  };
  compare(partition.dataflow.resources(), partition.available, "");
  Resources all;
  for (const RegionUse& region : partition.regions)
    for (const auto kind : {&Resources::lut, &Resources::lutram, &Resources::ff, &Resources::dsp,
                            &Resources::bram36, &Resources::uram})
      all.*kind += region.whole.*kind;
  compare(partition.whole().resources(), all, " with its shell");
  if (partition.regions.size() > 1)
    for (const RegionUse& region : partition.regions)
      compare(region.measured.resources(), region.whole, " in " + region.name);
  return names;
}

}  // namespace millrace::compiler::synth
