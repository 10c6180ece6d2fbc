// Compiles models with random changes, which are made to the parsed model or to the bytes of the file. The result must
// be an error or a program, never a crash.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "compiler/coverage/coverage.hpp"
#include "compiler/front/import.hpp"
#include "compiler/passes/passes.hpp"
#include "import_models.hpp"
#include "model_mutator.hpp"
#include "runtime/base/file.hpp"

namespace millrace::tests::test_import_mutants {
namespace {

/// Compiles a model from bytes to a program. Returns whether the compiler accepts the model. Internal errors fail the
/// test. The environment variable MILLRACE_FUZZ_DUMP names a file that keeps the last mutant, for the case of a crash.
bool goes_the_whole_way(const std::string& bytes, int which) {
  if (const char* dump = std::getenv("MILLRACE_FUZZ_DUMP")) {
    EXPECT_TRUE(write_file_atomically(dump, bytes).ok());
  }
  auto g = import_bytes(bytes);
  if (g.ok()) g = compiler::passes::run_standard_passes(std::move(*g));
  const auto program = g.ok() ? compiler::passes::build_program(*g) : Result<kernels::Program>(g.error());
  if (program.ok()) {
    EXPECT_EQ(kernels::validate(*program), "") << "mutant " << which;
    return true;
  }
  EXPECT_NE(program.error().code(), ErrorCode::kInternal)
      << "mutant " << which << ": " << program.error().message();
  EXPECT_FALSE(program.error().message().empty());
  return false;
}

/// Returns the number of mutants. The environment variable MILLRACE_FUZZ_MUTANTS can set it for a long run.
int mutants(int otherwise) {
  const char* asked = std::getenv("MILLRACE_FUZZ_MUTANTS");
  return asked == nullptr ? otherwise : std::atoi(asked);
}

TEST(ImportMutants, MutatedModelsNeverCrashTheImporter) {
  const unsigned seed = 4712;
  const int count = mutants(2000);
  std::printf("seed %u, %d mutants\n", seed, count);
  const onnx::ModelProto wholes[] = {small_model().proto(), larger_model().proto(), operator_model().proto(),
                                     function_model().proto()};
  for (const auto& whole : wholes) EXPECT_TRUE(goes_the_whole_way(whole.SerializeAsString(), -1));
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    ModelMutator mutator(seed + static_cast<unsigned>(i));
    onnx::ModelProto m = wholes[i % 4];
    for (int k = 0; k <= i / 4 % 3; ++k) mutator.change(*m.mutable_graph());
    if (goes_the_whole_way(m.SerializeAsString(), i)) ++taken;
  }
  std::printf("%d are still models\n", taken);
  EXPECT_GT(taken, count / 10) << "mutants that are all refused at the door test nothing behind it";
}

/// Compares what `millrace coverage` says of a model with what the compiler does. Returns whether the coverage lists
/// nodes that run nowhere.
bool coverage_agrees(const std::filesystem::path& file, const std::string& bytes, int which) {
  EXPECT_TRUE(write_file_atomically(file, bytes).ok());
  compiler::coverage::Options options;
  options.model = file;
  const auto coverage = compiler::coverage::cover(options);
  if (!coverage.ok()) {
    EXPECT_NE(coverage.error().code(), ErrorCode::kInternal)
        << "mutant " << which << ": " << coverage.error().message();
    EXPECT_FALSE(import_bytes(bytes).ok()) << "mutant " << which << ": " << coverage.error().message();
    return false;
  }
  const bool runs = coverage->missing() == 0 && coverage->problems.empty();
  if (coverage->assumed.empty()) {
    EXPECT_EQ(runs, goes_the_whole_way(bytes, which)) << "mutant " << which << "\n"
                                                      << compiler::coverage::terminal(*coverage, true);
  }
  return !runs;
}

TEST(ImportMutants, CoverageFindsAFaultIfAndOnlyIfTheCompilerRefusesTheModel) {
  const unsigned seed = 4713;
  const int count = mutants(1000);
  std::printf("seed %u, %d mutants\n", seed, count);
  const TemporaryDirectory folder("millrace-coverage-mutants");
  const onnx::ModelProto wholes[] = {small_model().proto(), larger_model().proto(), operator_model().proto(),
                                     function_model().proto()};
  int faulty = 0;
  for (int i = 0; i < count; ++i) {
    ModelMutator mutator(seed + static_cast<unsigned>(i));
    onnx::ModelProto m = wholes[i % 4];
    for (int k = 0; k <= i / 4 % 3; ++k) mutator.change(*m.mutable_graph());
    if (coverage_agrees(folder.path() / "net.onnx", m.SerializeAsString(), i)) ++faulty;
  }
  std::printf("%d have nodes that run nowhere\n", faulty);
  EXPECT_GT(faulty, count / 20);
}

TEST(ImportMutants, DamagedFilesNeverCrashTheImporter) {
  const unsigned seed = 4711;
  const int count = mutants(3000);
  std::printf("seed %u, %d mutants\n", seed, count);
  std::mt19937 random(seed);
  const std::string wholes[] = {small_model().bytes(), larger_model().bytes()};
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    std::string bytes = wholes[i % 2];
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (goes_the_whole_way(bytes, i)) ++taken;
  }
  std::printf("%d are still models\n", taken);
  EXPECT_GT(taken, count / 50);
}

}  // namespace
}  // namespace millrace::tests::test_import_mutants
