#include "compiler/compile.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>

#include "compiler/emit/deployment.hpp"
#include "compiler/emit/program.hpp"
#include "compiler/explore/partition.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/graph/print.hpp"
#include "compiler/import/import.hpp"
#include "compiler/model_file.hpp"
#include "compiler/passes/passes.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler {
namespace {

using runtime::plan::ModelInfo;

constexpr std::uint64_t kMaxModelBytes = std::uint64_t{2} << 30U;
constexpr char kImportStep[] = "import";
constexpr char kAllSteps[] = "all";
constexpr std::uint64_t kUtilisationPercent = 80;

/// Runs the steps one after another and keeps their times.
class Steps {
 public:
  explicit Steps(std::vector<StepTime>& times) : times_(times) {}

  template <class Body>
  auto run(const std::string& name, Body body) {
    const auto start = std::chrono::steady_clock::now();
    auto result = body();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    add(name, took.count());
    return result;
  }

  void add(const std::string& name, double milliseconds) {
    times_.push_back({name, milliseconds});
    log::debug("compile", name + ": " + std::to_string(milliseconds) + " ms");
  }

 private:
  std::vector<StepTime>& times_;
};

Status check_options(const CompileOptions& options, const std::string& name) {
  if (options.output.empty()) return Error(ErrorCode::kInvalidInput, "no output directory: give one with -o");
  if (!is_name(name))
    return Error(
        ErrorCode::kInvalidInput,
        "'" + name + "' cannot be a model's name (1 to 128 of A-Z a-z 0-9 _ - .); give one with --name");
  std::string known = kImportStep;
  for (const auto& pass : passes::standard_passes()) known += std::string(", ") + pass.name;
  known += std::string(", and ") + kAllSteps;
  for (const auto& wanted : options.dump_after) {
    const auto all = passes::standard_passes();
    const bool found =
        wanted == kAllSteps || wanted == kImportStep ||
        std::any_of(all.begin(), all.end(), [&](const auto& pass) { return wanted == pass.name; });
    if (!found)
      return Error(ErrorCode::kInvalidInput,
                   "--dump-after " + wanted + ": there is no such step; the steps are " + known);
  }
  return {};
}

void dump(const CompileOptions& options, const std::string& step, const graph::Graph& graph) {
  const auto wanted = [&](const std::string& name) { return name == step || name == kAllSteps; };
  if (std::any_of(options.dump_after.begin(), options.dump_after.end(), wanted))
    std::cerr << "--- after " << step << "\n" << graph::print(graph);
}

/// Names travel in JSON and protobuf, which carry UTF-8 only.
Status check_names(const kernels::Program& program, const ModelInfo& model) {
  const auto bad = [](const char* what) {
    return Error(ErrorCode::kInvalidInput,
                 std::string("the model holds a ") + what + " name that is not UTF-8; rename it");
  };
  for (const auto* signatures : {&model.inputs, &model.outputs})
    for (const auto& signature : *signatures)
      if (!is_utf8(signature.name)) return bad("tensor");
  for (const auto& tensor : program.tensors)
    if (!is_utf8(tensor.name)) return bad("tensor");
  for (const auto& block : program.blocks)
    if (!std::all_of(block.nodes.begin(), block.nodes.end(), is_utf8)) return bad("node");
  return {};
}

Result<graph::Graph> import_model(const CompileOptions& options, ModelInfo& model) {
  // Read once: the digest is of the very bytes that are compiled.
  MILLRACE_ASSIGN(const auto bytes, read_file(options.model, kMaxModelBytes));
  auto imported = import::import_onnx(bytes, options.model.stem().string(), options.model.parent_path());
  if (!imported.ok()) return imported.error().within(options.model.string());
  graph::Graph graph = std::move(*imported);
  model.source_digest = sha256_hex(bytes);
  const auto describe = [](const std::vector<graph::Signature>& from,
                           std::vector<runtime::plan::TensorSignature>& to) {
    for (const auto& signature : from)
      to.push_back({signature.name, graph::datatype(signature.type), signature.shape});
  };
  describe(graph.input_signatures, model.inputs);
  describe(graph.output_signatures, model.outputs);
  dump(options, kImportStep, graph);
  return graph;
}

Result<graph::Graph> run_passes(const CompileOptions& options, graph::Graph graph, Steps& steps) {
  auto start = std::chrono::steady_clock::now();
  auto lowered =
      passes::run_standard_passes(std::move(graph), [&](const passes::Pass& pass, const graph::Graph& after) {
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        steps.add(pass.name, took.count());
        dump(options, pass.name, after);
        start = std::chrono::steady_clock::now();
      });
  if (lowered.ok())
    for (const auto& diagnostic : lowered->diagnostics)
      log::warning("compile", diagnostic.node + ": " + diagnostic.message);
  return lowered;
}

Result<explore::Solution> partition(const explore::Problem& problem) {
  MILLRACE_ASSIGN(explore::Solution solution, explore::solve(problem));
  if (const auto wrong = explore::verify(problem, solution); !wrong.empty())
    return Error(ErrorCode::kInternal, "the partition just found does not hold: " + wrong);
  return solution;
}

/// What a partition's network may take of the region: what the shell leaves, not filled to the brim.
runtime::plan::Resources budget(const runtime::plan::Device& device, std::uint64_t partitions) {
  const auto part = [&](std::uint64_t whole, std::uint64_t shell) {
    return (whole > shell ? whole - shell : 0) * kUtilisationPercent / 100 / partitions;
  };
  const auto& has = device.regions.front().resources;
  const auto& shell = device.shell;
  return {part(has.lut, shell.lut), part(has.lutram, shell.lutram), part(has.ff, shell.ff),
          part(has.dsp, shell.dsp), part(has.bram36, shell.bram36), part(has.uram, shell.uram)};
}

/// Hardware for each partition on a card, as fast as its card allows. Where there is none for a block, or no
/// room, the partition goes without and says why: it runs at functional fidelity.
Result<emit::Designs> design(const kernels::Program& program, const explore::Solution& solution,
                             const runtime::plan::Cluster& cluster) {
  MILLRACE_ASSIGN(const auto catalog, generators::load_catalog());
  const auto programs = emit::partition_programs(program, solution);
  emit::Designs designs;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto& part = solution.parts[i];
    if (part.host) continue;
    const auto beside = std::count_if(solution.parts.begin(), solution.parts.end(), [&](const auto& other) {
      return !other.host && other.place == part.place;
    });
    generators::ChooseOptions options;
    options.budget = budget(cluster.device_of(cluster.cards[solution.card[part.place]]),
                            static_cast<std::uint64_t>(beside));
    auto foldings = generators::choose(catalog, programs[i], options);
    auto made = foldings.ok() ? generators::assemble(catalog, programs[i], *foldings)
                              : Result<generators::Design>(foldings.error());
    if (made.ok()) {
      designs.emplace(programs[i].name, std::move(*made));
    } else if (made.error().code() == ErrorCode::kUnsupported ||
               made.error().code() == ErrorCode::kDoesNotFit) {
      log::warning("compile", programs[i].name + " gets no hardware: " + made.error().message());
    } else {
      return made.error().within("hardware of " + programs[i].name);
    }
  }
  return designs;
}

}  // namespace

Result<CompileReport> compile(const CompileOptions& options) {
  CompileReport report;
  Steps steps(report.steps);
  ModelInfo model;
  model.name = options.name.empty() ? options.model.stem().string() : options.name;
  MILLRACE_TRY(check_options(options, model.name));
  MILLRACE_TRY(runtime::plan::check_replaceable(options.output, {options.model, options.cluster}));
  log::info("compile", options.model.string() + " for " + options.cluster.string());

  MILLRACE_ASSIGN(const auto cluster,
                  steps.run("read_cluster", [&] { return runtime::plan::load_cluster(options.cluster); }));
  MILLRACE_ASSIGN(graph::Graph graph, steps.run(kImportStep, [&] { return import_model(options, model); }));
  MILLRACE_TRY(steps.run("read_model_file", [&] { return read_model_file(options.model, model); }));
  MILLRACE_ASSIGN(graph, run_passes(options, std::move(graph), steps));
  MILLRACE_ASSIGN(kernels::Program program,
                  steps.run("build_program", [&] { return emit::build_program(graph); }));
  program.name = model.name;
  MILLRACE_TRY(check_names(program, model));
  MILLRACE_ASSIGN(const auto solution, steps.run("partition", [&] {
    return partition(explore::make_problem(program, cluster, options.partitions));
  }));
  MILLRACE_ASSIGN(const auto designs,
                  steps.run("design", [&] { return design(program, solution, cluster); }));
  MILLRACE_ASSIGN(auto artifacts, steps.run("emit", [&] {
    return emit::build_deployment(program, solution, cluster, model, designs);
  }));
  if (const auto written = steps.run("write", [&] { return emit::write(artifacts, options.output); });
      !written.ok())
    return written.error().within("nothing was written to " + options.output.string());
  log::info("compile", "wrote " + options.output.string());
  report.plan = std::move(artifacts.plan);
  return report;
}

}  // namespace millrace::compiler
