#include "compiler/generators/plugin.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <functional>
#include <set>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/netlist_builder.hpp"
#include "compiler/generators/plugin_process.hpp"
#include "kernels/program/rearrange.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::generators {
namespace {

namespace json = boost::json;
using kernels::ElementType;

constexpr std::int64_t kSchema = 1;
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

/// Describes a block in JSON with the structure of its operation, but without trained constants.
json::object described(const kernels::Program& program, const kernels::Block& block) {
  json::object out = {{"name", block.name},
                      {"operation", kernels::operation_name(block.operation)},
                      {"input", described(program.tensors[block.inputs[0]])},
                      {"output", described(program.tensors[block.outputs[0]])},
                      {"multiply_accumulates", kernels::multiply_accumulates(program, block)}};
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
  }
}

/// Whether a plugin's module can implement the block: it has one input and one output, both of integers.
bool is_for_plugins(const kernels::Program& program, const kernels::Block& block) {
  return block.inputs.size() == 1 && block.outputs.size() == 1 && !kernels::is_host_only(program, block) &&
         program.tensors[block.inputs[0]].shape.size() <= 3 &&
         program.tensors[block.outputs[0]].shape.size() <= 3;
}

/// A value in a plugin's answer, with its path for messages.
class Field {
 public:
  Field(const json::value& value, std::string path) : value_(value), path_(std::move(path)) {}

  Error error(const std::string& what) const { return Error(ErrorCode::kInvalidInput, path_ + ": " + what); }

  /// Returns an error unless the value is an object whose members are all in `known`.
  Status object(const std::set<std::string_view>& known) const {
    if (!value_.is_object()) return error("not an object");
    for (const auto& [key, unused] : value_.get_object())
      if (!known.contains(key)) return error("unknown member '" + printable(key) + "'");
    return {};
  }
  const json::value& value() const { return value_; }
  const std::string& path() const { return path_; }

  Result<Field> member(const char* key) const {
    const json::value* found = value_.get_object().if_contains(key);
    if (found == nullptr) return error("'" + std::string(key) + "' is missing");
    return Field(*found, path_ + "." + key);
  }
  Result<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most,
                               std::optional<std::int64_t> otherwise = {}) const {
    if (otherwise && !value_.get_object().contains(key)) return *otherwise;
    MILLRACE_ASSIGN(const Field field, member(key));
    if (!field.value().is_int64()) return field.error("not an integer");
    const std::int64_t n = field.value().get_int64();
    if (n < least || n > most)
      return field.error(std::to_string(n) + " is outside " + std::to_string(least) + ".." +
                         std::to_string(most));
    return n;
  }
  Result<std::string> name(const char* key) const {
    MILLRACE_ASSIGN(const Field field, member(key));
    if (!field.value().is_string() || !is_name(std::string_view(field.value().get_string()), 64))
      return field.error("not a name of 1 to 64 letters, digits, _ - .");
    return std::string(field.value().get_string());
  }

 private:
  const json::value& value_;
  std::string path_;
};

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

Result<std::uint32_t> read_lanes(const Field& field, const char* key, const kernels::Tensor& tensor) {
  MILLRACE_ASSIGN(const std::int64_t lanes, field.integer(key, 1, kMostLanes));
  if (tensor.elements() % static_cast<std::uint64_t>(lanes) != 0)
    return field.error("'" + std::string(key) + "' " + std::to_string(lanes) + " does not divide " +
                       std::to_string(tensor.elements()) + " elements");
  return static_cast<std::uint32_t>(lanes);
}

Result<Candidate> read_candidate(const Field& field, const kernels::Tensor& in, const kernels::Tensor& out) {
  MILLRACE_TRY(field.object({"id", "interval_cycles", "latency_cycles", "lead", "input_lanes", "output_lanes",
                             "memory_bytes", "resources"}));
  Candidate made;
  made.folding.implementation = Implementation::kPlugin;
  MILLRACE_ASSIGN(made.folding.variant, field.name("id"));
  MILLRACE_ASSIGN(const std::uint32_t input_lanes, read_lanes(field, "input_lanes", in));
  MILLRACE_ASSIGN(made.output_lanes, read_lanes(field, "output_lanes", out));
  made.input_lanes = {input_lanes};
  const auto least =
      static_cast<std::int64_t>(std::max(in.elements() / input_lanes, out.elements() / made.output_lanes));
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

/// Parses a plugin's answer, checks that it has no members except `members`, and passes it to `read`.
Status read_answer(const std::string& text, const std::set<std::string_view>& members,
                   const std::function<Status(const Field&)>& read) {
  json::error_code code;
  const json::value answer = json::parse(text, code);
  if (code)
    return Error(ErrorCode::kInvalidInput,
                 "its answer is not JSON (" + code.message() + "): " + printable(text.substr(0, 80)));
  const Field root(answer, "answer");
  MILLRACE_TRY(root.object(members));
  MILLRACE_ASSIGN(const std::int64_t schema, root.integer("schema", 0, 1'000'000));
  if (schema != kSchema) return root.error("'schema' is not " + std::to_string(kSchema));
  return read(root);
}

}  // namespace

Error Plugin::wrong(const std::string& what) const {
  return Error(ErrorCode::kInvalidInput, "plugin '" + program_.string() + "': " + what +
                                             "; correct the plugin, or leave it out of --plugins");
}

Result<std::shared_ptr<Plugin>> Plugin::open(const std::filesystem::path& program,
                                             std::chrono::milliseconds time_limit) {
  std::error_code code;
  const auto path = std::filesystem::absolute(program, code);
  if (code || !std::filesystem::is_regular_file(path, code) || ::access(path.c_str(), X_OK) != 0)
    return Error(ErrorCode::kInvalidInput,
                 "--plugins " + program.string() + ": not an executable file; give the path of a program");
  return std::shared_ptr<Plugin>(new Plugin(path, time_limit));
}

Result<std::string> Plugin::call(const std::string& request) const {
  auto answer = ask_program(program_, request, time_limit_);
  if (!answer.ok()) return wrong(answer.error().message());
  return answer;
}

Status Plugin::prepare(const kernels::Program& program) {
  const std::lock_guard lock(mutex_);
  json::array blocks;
  /// Maps each block's name to the block and to its key in offered_.
  std::map<std::string, std::pair<const kernels::Block*, std::string>> asked;
  for (const auto& block : program.blocks) {
    if (!is_for_plugins(program, block)) continue;
    json::object one = described(program, block);
    std::string key = json::serialize(one);
    if (offered_.contains(key)) continue;
    asked.emplace(block.name, std::pair(&block, std::move(key)));
    blocks.push_back(std::move(one));
  }
  if (asked.empty()) return {};
  MILLRACE_ASSIGN(
      const std::string text,
      call(json::serialize(json::object{{"schema", kSchema}, {"ask", "candidates"}, {"blocks", blocks}}) +
           "\n"));
  const Status read = read_answer(text, {"schema", "builds", "blocks"}, [&](const Field& root) -> Status {
    MILLRACE_ASSIGN(const Field builds, root.member("builds"));
    if (!builds.value().is_bool()) return builds.error("not true or false");
    MILLRACE_ASSIGN(const Field all, root.member("blocks"));
    if (!all.value().is_object()) return all.error("not an object");
    std::map<std::string, std::vector<Candidate>> found;
    for (const auto& [name, list] : all.value().get_object()) {
      const auto at = asked.find(std::string(name));
      const Field field(list, "answer.blocks." + printable(name));
      if (at == asked.end()) return field.error("the request does not contain this block");
      if (!list.is_array() || list.get_array().size() > kMostCandidates)
        return field.error("not a list of at most " + std::to_string(kMostCandidates));
      const kernels::Block& block = *at->second.first;
      auto& candidates = found[at->second.second];
      for (std::size_t i = 0; i < list.get_array().size(); ++i) {
        MILLRACE_ASSIGN(
            Candidate one,
            read_candidate(Field(list.get_array()[i], field.path() + "[" + std::to_string(i) + "]"),
                           program.tensors[block.inputs[0]], program.tensors[block.outputs[0]]));
        if (std::any_of(candidates.begin(), candidates.end(),
                        [&](const auto& c) { return c.folding == one.folding; }))
          return field.error("two candidates are called '" + one.folding.variant + "'");
        candidates.push_back(std::move(one));
      }
    }
    builds_ = builds.value().get_bool();
    for (const auto& [name, block] : asked) offered_[block.second] = std::move(found[block.second]);
    return {};
  });
  if (!read.ok()) return wrong(read.error().message());
  return {};
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
      return Error(ErrorCode::kUnsupported,
                   block_label(block) + "plugin '" + name() +
                       "' can only be used for plans: it declares that it builds no hardware");
  }
  json::object described_block = described(program, block);
  add_constants(block, described_block);
  MILLRACE_ASSIGN(const std::string text, call(json::serialize(json::object{{"schema", kSchema},
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
  if (!read.ok()) return wrong(block_label(block) + read.error().message());
  return made;
}

Result<Netlist> Plugin::construct(const kernels::Program& program, const kernels::Block& block,
                                  const Candidate& candidate, NetlistBuilder& netlist) const {
  const auto &in = program.tensors[block.inputs[0]], &out = program.tensors[block.outputs[0]];
  const StreamIndex from = netlist.input(candidate.input_lanes[0], in.type.bits, in.elements());
  const std::string module = netlist.prefix() + "_plugin";
  const Cost& c = candidate.cost;
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  const std::uint64_t beats = netlist.stream(from).beats;
  const auto lead = static_cast<std::int64_t>(std::ceil(candidate.lead * static_cast<double>(beats)));
  const StreamIndex made = netlist.add_written(
      kPluginModule, "plugin", module,
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
      {from}, {candidate.output_lanes, out.type.bits, out.elements() / candidate.output_lanes});
  if (netlist.memories()) {
    MILLRACE_ASSIGN(PluginModule written, build(program, block, candidate.folding.variant, module));
    for (auto& source : written.sources) netlist.source(std::move(source.module), std::move(source.text));
    for (auto& file : written.files) netlist.file(std::move(file.name), std::move(file.content));
  }
  return netlist.finish(made);
}

}  // namespace millrace::compiler::generators
