// Reads arbitrary bytes as an ONNX model and compiles them to a program: import, passes, program. The compiler must refuse
// the bytes with a message, or make a valid program. An internal error is a fault.
//
// Under libFuzzer, three of four mutations change the parsed model, so that most inputs are still models.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "compiler/front/import.hpp"
#include "compiler/passes/passes.hpp"
#include "kernels/program/program.hpp"
#include "model_mutator.hpp"

namespace {

using namespace millrace;

void require(bool holds, const std::string& message) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

/// Checks that an error is a refusal, not an internal error, and that its message is not too long.
void check(const Error& error) {
  constexpr std::size_t kLongest = 20'000;
  require(error.code() != ErrorCode::kInternal, "internal error: " + error.message());
  require(!error.message().empty() && error.message().size() < kLongest, "message: " + error.message());
}

void compile(std::vector<std::byte> bytes) {
  auto graph = compiler::import_onnx(std::move(bytes), "fuzz", "no-such-folder");
  if (!graph.ok()) return check(graph.error());
  graph = compiler::passes::run_standard_passes(std::move(*graph));
  if (!graph.ok()) return check(graph.error());
  const auto program = compiler::passes::build_program(std::move(*graph));
  if (!program.ok()) return check(program.error());
  const std::string wrong = kernels::validate(*program);
  require(wrong.empty(), "invalid program: " + wrong);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* first = reinterpret_cast<const std::byte*>(data);
  compile({first, first + size});
  return 0;
}

#ifdef MILLRACE_FUZZ
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  onnx::ModelProto model;
  if (seed % 4 == 0 || !model.ParsePartialFromArray(data, static_cast<int>(size)) || !model.has_graph())
    return LLVMFuzzerMutate(data, size, max_size);
  tests::ModelMutator mutator(seed);
  for (unsigned changes = 1 + seed / 4 % 3; changes > 0; --changes)
    seed % 4 == 1 ? mutator.change_field(model) : mutator.change(*model.mutable_graph());
  if (model.ByteSizeLong() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  model.SerializePartialToArray(data, static_cast<int>(max_size));
  return model.ByteSizeLong();
}
#endif
