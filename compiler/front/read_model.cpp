#include "compiler/front/read_model.hpp"

#include <algorithm>
#include <iostream>
#include <set>

#include "compiler/front/import.hpp"
#include "compiler/front/model_file.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/passes/passes.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler {
namespace {

using runtime::plan::ModelInfo;

constexpr std::uint64_t kMaxModelBytes = std::uint64_t{2} << 30U;
constexpr char kImportStep[] = "import";
constexpr char kAllSteps[] = "all";

void dump(const ModelOptions& options, const std::string& step, const graph::Graph& graph) {
  const auto wanted = [&](const std::string& name) { return name == step || name == kAllSteps; };
  if (std::any_of(options.dump_after.begin(), options.dump_after.end(), wanted))
    std::cerr << "--- after " << step << "\n" << graph::print(graph);
}

std::string name_of(const ModelOptions& options) {
  return options.name.empty() ? options.model.stem().string() : options.name;
}

Result<graph::Graph> import_model(const ModelOptions& options, ModelInfo& model) {
  // Read the file only once, so that the digest belongs to the bytes that are compiled.
  std::vector<std::byte> bytes;
  if (options.quantised != nullptr) {
    bytes = *options.quantised;
  } else {
    MILLRACE_ASSIGN(bytes, read_file(options.model, kMaxModelBytes));
  }
  const auto types = passes::assumed_types(options.assume);
  if (!options.assume.empty() && !types)
    return Error(ErrorCode::kInvalidInput,
                 "--assume " + options.assume +
                     ": give int2 to int8, or separate widths of weights and activations such as w4a8; "
                     "append -pow2 for scales that are powers of two");
  model.source_digest = sha256_hex(bytes);
  auto imported = import_onnx(std::move(bytes), options.model.stem().string(), options.model.parent_path(),
                              types ? FloatModel::kRequired : FloatModel::kRefused, options.claimer);
  if (!imported.ok()) return imported.error().within(options.model.string());
  graph::Graph graph = std::move(*imported);
  const auto describe = [](const std::vector<graph::Signature>& from,
                           std::vector<runtime::plan::TensorSignature>& to) {
    for (const auto& signature : from)
      to.push_back({signature.name, graph::datatype(signature.type), signature.shape});
  };
  describe(graph.input_signatures, model.inputs);
  describe(graph.output_signatures, model.outputs);
  if (types) graph = passes::assume_quantised(std::move(graph), *types);
  dump(options, kImportStep, graph);
  return graph;
}

/// Returns one line for each different message: the first node that has the message, and how many more nodes have it.
std::vector<std::string> notes_of(const std::vector<graph::Diagnostic>& diagnostics) {
  std::vector<std::string> notes;
  std::set<std::string> seen;
  for (const auto& first : diagnostics) {
    if (!seen.insert(first.message).second) continue;
    const auto more = std::count_if(diagnostics.begin(), diagnostics.end(),
                                    [&](const auto& d) { return d.message == first.message; }) -
                      1;
    notes.push_back(first.node + (more > 0 ? " and " + std::to_string(more) + " more: " : ": ") +
                    first.message);
  }
  return notes;
}

void add_notes(const ModelOptions& options, const std::vector<graph::Diagnostic>& diagnostics,
               std::vector<std::string>& notes) {
  if (!options.assume.empty()) return;  // the numbers of an assumed quantisation mean nothing
  for (const std::string& note : notes_of(diagnostics)) {
    notes.push_back(printable(note));
    log::warning("compile", note);
  }
}

Result<graph::Graph> run_passes(const ModelOptions& options, graph::Graph graph,
                                std::vector<std::string>& notes, Steps& steps) {
  auto start = std::chrono::steady_clock::now();
  auto lowered =
      passes::run_standard_passes(std::move(graph), [&](const passes::Pass& pass, const graph::Graph& after) {
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        steps.add(pass.name, took.count());
        dump(options, pass.name, after);
        start = std::chrono::steady_clock::now();
      });
  if (lowered.ok()) add_notes(options, lowered->diagnostics, notes);
  return lowered;
}

}  // namespace

Status check_options(const ModelOptions& options) {
  if (const std::string name = name_of(options); !is_name(name))
    return Error(ErrorCode::kInvalidInput,
                 "'" + name +
                     "' cannot be a model's name; "
                     "give a name of 1 to 128 of the characters A-Z a-z 0-9 _ - . with --name");
  std::vector<std::string> known{kImportStep};
  for (const auto& pass : passes::standard_passes()) known.emplace_back(pass.name);
  std::string names;
  for (const auto& name : known) names += name + ", ";
  for (const auto& wanted : options.dump_after)
    if (wanted != kAllSteps && std::find(known.begin(), known.end(), wanted) == known.end())
      return Error(
          ErrorCode::kInvalidInput,
          "--dump-after " + wanted + ": there is no such step; the steps are " + names + "and " + kAllSteps);
  return {};
}

Result<Model> read_model(const ModelOptions& options, Steps& steps) {
  Model model;
  model.info.name = name_of(options);
  model.assumed = options.assume;
  MILLRACE_ASSIGN(graph::Graph graph,
                  steps.run(kImportStep, [&] { return import_model(options, model.info); }));
  MILLRACE_TRY(steps.run("read_model_file", [&] { return read_model_file(options.model, model.info); }));
  MILLRACE_ASSIGN(graph, run_passes(options, std::move(graph), model.notes, steps));
  std::vector<graph::Diagnostic> diagnostics;
  MILLRACE_ASSIGN(model.program, steps.run("build_program", [&] {
    return passes::build_program(std::move(graph), &diagnostics);
  }));
  add_notes(options, diagnostics, model.notes);
  model.program.name = model.info.name;
  return model;
}

}  // namespace millrace::compiler
