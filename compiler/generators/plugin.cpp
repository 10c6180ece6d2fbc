#include "compiler/generators/plugin.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <functional>
#include <set>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/netlist_builder.hpp"
#include "compiler/generators/plugin_answer.hpp"
#include "compiler/generators/plugin_process.hpp"
#include "kernels/program/rearrange.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"
#include "runtime/plugins/library.hpp"
#include "runtime/plugins/models.hpp"

namespace millrace::compiler::generators {
namespace {

namespace json = boost::json;
using kernels::ElementType;

constexpr std::size_t kMostCandidates = 64;  // per block
constexpr std::size_t kMostFiles = 1000;
constexpr std::int64_t kMostLanes = 65536;
constexpr std::int64_t kMostCycles = 1'000'000'000'000;
constexpr std::int64_t kMostResources = 100'000'000;

template <class T>
json::array numbers(const std::vector<T>& values) {
  json::array made;
  made.reserve(values.size());
  for (const auto v : values) made.emplace_back(static_cast<std::int64_t>(v));
  return made;
}

const char* kind_name(ElementType type) {
  return type.kind == ElementType::Kind::kUnsigned  ? "unsigned"
         : type.kind == ElementType::Kind::kBipolar ? "bipolar"
                                                    : "signed";
}

json::object described(const kernels::Tensor& tensor) {
  return {{"shape", numbers(tensor.shape)}, {"kind", kind_name(tensor.type)}, {"bits", tensor.type.bits}};
}

json::object described(const kernels::Window& w) {
  return {{"kernel", {w.kernel_h, w.kernel_w}},
          {"stride", {w.stride_h, w.stride_w}},
          {"dilation", {w.dilation_h, w.dilation_w}},
          {"pad", {w.pad_top, w.pad_left, w.pad_bottom, w.pad_right}},
          {"pad_value", w.pad_value}};
}

const char* form_name(kernels::Requantise::Form form) {
  using Form = kernels::Requantise::Form;
  return form == Form::kThresholds      ? "thresholds"
         : form == Form::kMultiplyShift ? "multiply_shift"
                                        : "multiply_shift_half_even";
}

json::object described(const kernels::Requantise& r) {
  return {{"form", form_name(r.form)},
          {"multiplier", numbers(r.multiplier)},
          {"offset", numbers(r.offset)},
          {"shift", numbers(r.shift)},
          {"thresholds", numbers(r.thresholds)},
          {"zero_point", r.zero_point},
          {"lowest", r.lowest},
          {"highest", r.highest}};
}

bool is_plugin_operator(const kernels::Block& block) {
  return std::holds_alternative<kernels::PluginOperator>(block.operation);
}

/// Describes a block in JSON with the structure of its operation, but without trained constants.
json::object described(const kernels::Program& program, const kernels::Block& block) {
  json::object out = {{"name", block.name}, {"operation", kernels::operation_name(block.operation)}};
  const auto add_tensors = [&](const char* one, const char* several, const auto& tensors) {
    if (tensors.size() == 1 && !is_plugin_operator(block)) {
      out[one] = described(program.tensors[tensors[0]]);
      return;
    }
    json::array all;
    for (const auto t : tensors) all.push_back(described(program.tensors[t]));
    out[several] = std::move(all);
  };
  add_tensors("input", "inputs", block.inputs);
  add_tensors("output", "outputs", block.outputs);
  out["multiply_accumulates"] = kernels::multiply_accumulates(program, block);
  if (const auto* own = std::get_if<kernels::PluginOperator>(&block.operation)) {
    out["plugin"] = own->plugin;
    out["library"] = own->library;
    out["runner"] = own->runner;
    out["settings"] = own->settings;
  }
  if (const auto* c = std::get_if<kernels::Convolution>(&block.operation)) {
    out["window"] = described(c->window);
    out["out_channels"] = c->out_channels;
    out["groups"] = c->groups;
    out["weight"] = json::object{{"kind", kind_name(c->weight_type)}, {"bits", c->weight_type.bits}};
    out["accumulator_bits"] = c->accumulator.bits;
    out["form"] = c->requantise ? json::value(form_name(c->requantise->form)) : json::value(nullptr);
  } else if (const auto* largest = std::get_if<kernels::MaxPool>(&block.operation)) {
    out["window"] = described(largest->window);
  } else if (const auto* sum = std::get_if<kernels::SumPool>(&block.operation)) {
    out["window"] = described(sum->window);
    out["accumulator_bits"] = sum->accumulator.bits;
  } else if (const auto* rearrange = std::get_if<kernels::Rearrange>(&block.operation)) {
    const kernels::Rearrange loops =
        kernels::simplified(*rearrange, program.tensors[block.outputs.front()].elements());
    out["offset"] = loops.offset;
    out["extents"] = numbers(loops.extents);
    out["strides"] = numbers(loops.strides);
  }
  return out;
}

void add_constants(const kernels::Block& block, json::object& out) {
  if (const auto* c = std::get_if<kernels::Convolution>(&block.operation)) {
    out["weights"] = numbers(c->weights.get());
    out["bias"] = numbers(c->bias);
    if (c->requantise) out["requantise"] = described(*c->requantise);
  } else if (const auto* sum = std::get_if<kernels::SumPool>(&block.operation)) {
    out["requantise"] = described(sum->requantise);
  } else if (const auto* rescale = std::get_if<kernels::Rescale>(&block.operation)) {
    out["requantise"] = described(rescale->requantise);
  } else if (const auto* lookup = std::get_if<kernels::Lookup>(&block.operation)) {
    out["table"] = numbers(lookup->table);
  } else if (const auto* add = std::get_if<kernels::Add>(&block.operation)) {
    out["multiplier_a"] = add->multiplier_a;
    out["multiplier_b"] = add->multiplier_b;
    out["offset"] = add->offset;
    out["shift"] = add->shift;
    out["lowest"] = add->lowest;
    out["highest"] = add->highest;
    out["table"] = numbers(add->table);
  }
}

/// Whether a plugin's module can implement the block: all its tensors are integers with at most three axes.
bool is_for_plugins(const kernels::Program& program, const kernels::Block& block) {
  const auto fits = [&](kernels::TensorIndex t) { return program.tensors[t].shape.size() <= 3; };
  return !kernels::is_host_only(program, block) &&
         std::all_of(block.inputs.begin(), block.inputs.end(), fits) &&
         std::all_of(block.outputs.begin(), block.outputs.end(), fits);
}

Result<Cost> read_cost(const Field& field) {
  MILLRACE_TRY(field.object({"lut", "lutram", "ff", "dsp", "ramb18", "ramb36", "uram"}));
  Cost cost;
  for (const auto& [key, at] :
       {std::pair("lut", &Cost::lut), std::pair("lutram", &Cost::lutram), std::pair("ff", &Cost::ff),
        std::pair("dsp", &Cost::dsp), std::pair("ramb18", &Cost::ramb18), std::pair("ramb36", &Cost::ramb36),
        std::pair("uram", &Cost::uram)}) {
    MILLRACE_ASSIGN(const std::int64_t n, field.integer(key, 0, kMostResources, 0));
    cost.*at = static_cast<std::uint64_t>(n);
  }
  if (cost.lutram > cost.lut)
    return field.error(
        "'lut' must be at least 'lutram', because it also counts the LUTs that are used as memory");
  return cost;
}

/// Reads the lanes of several tensors: a list, or one number for a single tensor.
Result<std::vector<std::uint32_t>> read_lanes(const Field& field, const char* key,
                                              const kernels::Program& program,
                                              const std::vector<kernels::TensorIndex>& tensors) {
  MILLRACE_ASSIGN(const Field given, field.member(key));
  const json::array single{given.value()};
  const json::array& all = given.value().is_array() ? given.value().get_array() : single;
  if (all.size() != tensors.size())
    return given.error("has " + std::to_string(all.size()) + " numbers for " +
                       std::to_string(tensors.size()) + " tensors; give one number for each");
  std::vector<std::uint32_t> lanes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t elements = program.tensors[tensors[i]].elements();
    if (!all[i].is_int64()) return given.error("not an integer");
    const std::int64_t n = all[i].get_int64();
    if (n < 1 || n > kMostLanes)
      return given.error(std::to_string(n) + " is outside 1.." + std::to_string(kMostLanes));
    if (elements % static_cast<std::uint64_t>(n) != 0)
      return given.error(std::to_string(n) + " does not divide " + std::to_string(elements) + " elements");
    lanes.push_back(static_cast<std::uint32_t>(n));
  }
  return lanes;
}

/// Returns the number of beats per frame of the tensor that has the most beats.
std::uint64_t most_beats(const kernels::Program& program, const std::vector<kernels::TensorIndex>& tensors,
                         const std::vector<std::uint32_t>& lanes) {
  std::uint64_t most = 1;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    most = std::max(most, program.tensors[tensors[i]].elements() / lanes[i]);
  return most;
}

Result<Candidate> read_candidate(const Field& field, const kernels::Program& program,
                                 const kernels::Block& block) {
  MILLRACE_TRY(field.object({"id", "interval_cycles", "latency_cycles", "lead", "input_lanes", "output_lanes",
                             "memory_bytes", "resources"}));
  Candidate made;
  made.folding.implementation = Implementation::kPlugin;
  MILLRACE_ASSIGN(made.folding.variant, field.name("id"));
  MILLRACE_ASSIGN(made.input_lanes, read_lanes(field, "input_lanes", program, block.inputs));
  MILLRACE_ASSIGN(made.output_lanes, read_lanes(field, "output_lanes", program, block.outputs));
  const auto least =
      static_cast<std::int64_t>(std::max(most_beats(program, block.inputs, made.input_lanes),
                                         most_beats(program, block.outputs, made.output_lanes)));
  MILLRACE_ASSIGN(const std::int64_t interval, field.integer("interval_cycles", least, kMostCycles));
  MILLRACE_ASSIGN(const std::int64_t latency, field.integer("latency_cycles", 1, 1'000'000));
  MILLRACE_ASSIGN(const std::int64_t memory, field.integer("memory_bytes", 0, kMostCycles, 0));
  made.interval_cycles = static_cast<std::uint64_t>(interval);
  made.depth_cycles = made.tail_cycles = static_cast<std::uint64_t>(latency);
  made.latency_cycles = made.interval_cycles + made.depth_cycles;
  made.memory_bytes = static_cast<std::uint64_t>(memory);
  MILLRACE_ASSIGN(const Field lead, field.member("lead"));
  if (!lead.value().is_number() || !(lead.value().to_number<double>() > 0) ||
      lead.value().to_number<double>() > 1)
    return lead.error("not a number above 0, at most 1");
  made.lead = lead.value().to_number<double>();
  MILLRACE_ASSIGN(const Field resources, field.member("resources"));
  MILLRACE_ASSIGN(made.cost, read_cost(resources));
  return made;
}

}  // namespace

/// A block about which the plugin is asked.
struct Plugin::Asked {
  const kernels::Block* block;
  json::object description;
  std::string key;  // of the block in offered_
};

Error Plugin::wrong(const std::string& task, const std::string& what) const {
  return Error(ErrorCode::kInvalidInput, "plugin '" + program_.string() + "', asked for " + task + ": " +
                                             what + "; correct the plugin, or leave it out of --plugins");
}

Result<std::shared_ptr<Plugin>> Plugin::open(const std::filesystem::path& program,
                                             std::chrono::milliseconds time_limit) {
  std::error_code code;
  const auto path = std::filesystem::absolute(program, code);
  const auto refused = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidInput, "--plugins " + program.string() + ": " + why);
  };
  if (code || !std::filesystem::is_regular_file(path, code))
    return refused("the path does not name a file; give the program or the shared library of a plugin");
  std::shared_ptr<Plugin> plugin(new Plugin(path, time_limit));
  if (runtime::plugins::is_library(path)) {
    MILLRACE_ASSIGN(const auto asker, runtime::plugins::find_asker());
    MILLRACE_ASSIGN(const auto bytes, read_file(path, runtime::plugins::kMostLibraryBytes));
    plugin->library_ = sha256_hex(bytes);
    plugin->command_ = {asker.string(), path.string(), plugin->library_};
    return plugin;
  }
  if (path.extension() == ".so")
    return refused("not a shared library for 64-bit Linux (ELF); give the .so file of the plugin");
  if (::access(path.c_str(), X_OK) != 0)
    return refused("the file is neither executable nor a shared library; give the path of a plugin");
  plugin->command_ = {path.string()};
  return plugin;
}

Result<std::string> Plugin::call(const std::string& task, const std::string& request) const {
  auto answer = ask_program(command_, request, time_limit_);
  if (!answer.ok()) return wrong(task, answer.error().message());
  return answer;
}

/// Whether the plugin can have candidates for the block. A plugin that is a shared library has candidates only for
/// blocks that it selected itself.
bool Plugin::is_asked_about(const kernels::Program& program, const kernels::Block& block) const {
  if (!is_for_plugins(program, block)) return false;
  if (library_.empty()) return true;
  const auto* own = std::get_if<kernels::PluginOperator>(&block.operation);
  return own != nullptr && own->library == library_;
}

Status Plugin::prepare(const kernels::Program& program) {
  const std::lock_guard lock(mutex_);
  std::vector<Asked> all;
  for (const auto& block : program.blocks) {
    if (!is_asked_about(program, block)) continue;
    json::object description = described(program, block);
    std::string key = json::serialize(description);
    if (offered_.contains(key)) continue;
    all.push_back({&block, std::move(description), std::move(key)});
  }
  if (all.empty()) return {};
  if (library_.empty()) return ask_for_candidates(program, all);
  // Ask a library about one block at a time, so that the message names the block in which the library crashes.
  for (Asked& one : all) MILLRACE_TRY(ask_for_candidates(program, {std::move(one)}));
  return {};
}

Status Plugin::ask_for_candidates(const kernels::Program& program, const std::vector<Asked>& blocks) {
  json::array descriptions;
  for (const Asked& one : blocks) descriptions.push_back(one.description);
  const std::string task =
      "hardware of " + (blocks.size() == 1 ? "block '" + printable(blocks.front().block->name) + "'"
                                           : std::to_string(blocks.size()) + " blocks");
  MILLRACE_ASSIGN(
      const std::string answer,
      call(task, json::serialize(json::object{
                     {"schema", kPluginSchema}, {"ask", "candidates"}, {"blocks", std::move(descriptions)}}) +
                     "\n"));
  const Status read = read_candidates(program, blocks, answer);
  if (!read.ok()) return wrong(task, read.error().message());
  return {};
}

Status Plugin::read_candidates(const kernels::Program& program, const std::vector<Asked>& blocks,
                               const std::string& answer) {
  return read_answer(answer, {"schema", "builds", "blocks"}, [&](const Field& root) -> Status {
    MILLRACE_ASSIGN(const Field builds, root.member("builds"));
    if (!builds.value().is_bool()) return builds.error("not true or false");
    MILLRACE_ASSIGN(const Field all, root.member("blocks"));
    if (!all.value().is_object()) return all.error("not an object");
    std::map<std::string, std::vector<Candidate>> found;
    for (const auto& [name, list] : all.value().get_object()) {
      const std::string block_name(name);
      const auto asked = std::find_if(blocks.begin(), blocks.end(),
                                      [&](const Asked& one) { return one.block->name == block_name; });
      const Field field(list, "answer.blocks." + printable(name));
      if (asked == blocks.end()) return field.error("the request does not contain this block");
      if (!list.is_array() || list.get_array().size() > kMostCandidates)
        return field.error("not a list of at most " + std::to_string(kMostCandidates));
      auto& candidates = found[asked->key];
      for (std::size_t i = 0; i < list.get_array().size(); ++i) {
        const Field one(list.get_array()[i], field.path() + "[" + std::to_string(i) + "]");
        MILLRACE_ASSIGN(Candidate candidate, read_candidate(one, program, *asked->block));
        if (std::any_of(candidates.begin(), candidates.end(),
                        [&](const auto& c) { return c.folding == candidate.folding; }))
          return field.error("two candidates are called '" + candidate.folding.variant + "'");
        candidates.push_back(std::move(candidate));
      }
    }
    builds_ = builds.value().get_bool();
    for (const Asked& one : blocks) offered_[one.key] = std::move(found[one.key]);
    return {};
  });
}

std::vector<Candidate> Plugin::offered(const kernels::Program& program, const kernels::Block& block) const {
  if (!is_for_plugins(program, block)) return {};
  const std::string key = json::serialize(described(program, block));
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(key);
  return found == offered_.end() ? std::vector<Candidate>{} : found->second;
}

Result<PluginModule> Plugin::build(const kernels::Program& program, const kernels::Block& block,
                                   const std::string& candidate, const std::string& module) const {
  {
    const std::lock_guard lock(mutex_);
    if (!builds_)
      return Error(
          ErrorCode::kUnsupported,
          block_label(block) + "plugin '" + name() +
              "' can only be used for plans, because the plugin declares that it builds no hardware");
  }
  json::object described_block = described(program, block);
  add_constants(block, described_block);
  const std::string task = "the module of block '" + printable(block.name) + "'";
  MILLRACE_ASSIGN(const std::string text,
                  call(task, json::serialize(json::object{{"schema", kPluginSchema},
                                                          {"ask", "build"},
                                                          {"candidate", candidate},
                                                          {"module", module},
                                                          {"block", described_block}}) +
                                 "\n"));
  PluginModule made;
  const Status read = read_answer(text, {"schema", "files"}, [&](const Field& root) -> Status {
    MILLRACE_ASSIGN(const Field files, root.member("files"));
    if (!files.value().is_object() || files.value().get_object().size() > kMostFiles)
      return files.error("not an object of at most " + std::to_string(kMostFiles) + " files");
    for (const auto& [key, content] : files.value().get_object()) {
      const std::string file(key);
      const Field field(content, "answer.files." + printable(file));
      if (!content.is_string() || content.get_string().find('\0') != json::string::npos)
        return field.error("not a text");
      const bool source = file.ends_with(".sv");
      if (!is_name(file) || !file.starts_with(module) || (!source && !file.ends_with(".hex")))
        return field.error("a file's name begins with '" + module + "' and ends with .sv or .hex");
      const std::string body(content.get_string());
      if (!source) {
        made.files.push_back({file, body});
        continue;
      }
      const std::string stem = file.substr(0, file.size() - 3);
      if (identifier(stem) != stem || body.find("module " + stem) == std::string::npos)
        return field.error("does not contain a module '" + stem + "'");
      made.sources.insert(stem == module ? made.sources.begin() : made.sources.end(), {stem, body});
    }
    if (made.sources.empty() || made.sources.front().module != module)
      return files.error("'" + module + ".sv' is missing");
    return {};
  });
  if (!read.ok()) return wrong(task, read.error().message());
  return made;
}

Result<Netlist> Plugin::construct(const kernels::Program& program, const kernels::Block& block,
                                  const Candidate& candidate, NetlistBuilder& netlist) const {
  std::vector<StreamIndex> from;
  std::vector<NetlistBuilder::Output> to;
  for (std::size_t i = 0; i < block.inputs.size(); ++i) {
    const kernels::Tensor& in = program.tensors[block.inputs[i]];
    from.push_back(netlist.input(candidate.input_lanes[i], in.type.bits, in.elements()));
  }
  for (std::size_t i = 0; i < block.outputs.size(); ++i) {
    const kernels::Tensor& out = program.tensors[block.outputs[i]];
    const std::uint32_t lanes = candidate.output_lanes[i];
    to.push_back({lanes, out.type.bits, out.elements() / lanes});
  }
  const std::string module = netlist.prefix() + "_plugin";
  const Cost& c = candidate.cost;
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  const std::uint64_t beats = netlist.stream(from.front()).beats;
  const auto lead = static_cast<std::int64_t>(std::ceil(candidate.lead * static_cast<double>(beats)));
  std::vector<StreamIndex> made = {
      netlist.add_written(kPluginModule, "plugin", module,
                          {{"INTERVAL", number(candidate.interval_cycles)},
                           {"LATENCY", number(candidate.depth_cycles)},
                           {"LEAD", std::clamp<std::int64_t>(lead, 1, number(beats))},
                           {"LUT", number(c.lut)},
                           {"LUTRAM", number(c.lutram)},
                           {"FF", number(c.ff)},
                           {"DSP", number(c.dsp)},
                           {"RAMB18", number(c.ramb18)},
                           {"RAMB36", number(c.ramb36)},
                           {"URAM", number(c.uram)}},
                          from, to.front())};
  for (std::size_t i = 1; i < to.size(); ++i)
    made.push_back(netlist.add_output("plugin_m" + std::to_string(i), to[i]));
  if (netlist.memories()) {
    MILLRACE_ASSIGN(PluginModule written, build(program, block, candidate.folding.variant, module));
    for (auto& source : written.sources) netlist.source(std::move(source.module), std::move(source.text));
    for (auto& file : written.files) netlist.file(std::move(file.name), std::move(file.content));
  }
  return netlist.finish(std::move(made));
}

}  // namespace millrace::compiler::generators
