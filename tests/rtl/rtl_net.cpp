// Compiles a model into a deployment. The foldings (the parallelism of each block) are chosen so that card partitions
// reach a given interval. tools/rtl-nets then simulates the deployment.
//
//   rtl_net MODEL.onnx CLUSTER.yaml CARDS INTERVAL_CYCLES DIRECTORY
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "compiler/front/import.hpp"
#include "compiler/passes/passes.hpp"
#include "runtime/base/file.hpp"
#include "tests/integration/program_deployment.hpp"

namespace {

using namespace millrace;

template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

void run(char** arguments) {
  const std::filesystem::path model = arguments[1];
  const auto bytes = must(read_file(model, 1U << 30U));
  auto graph = must(compiler::import_onnx(bytes, model.stem().string(), model.parent_path()));
  graph = must(compiler::passes::run_standard_passes(std::move(graph), {}));
  auto program = must(compiler::passes::build_program(graph));
  program.name = model.stem().string();
  const auto cluster = must(runtime::plan::load_cluster(arguments[2]));
  tests::deploy_rtl(program, cluster, static_cast<std::uint32_t>(std::strtoul(arguments[3], nullptr, 10)),
                    arguments[5], std::strtoull(arguments[4], nullptr, 10), program);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) {
    std::fprintf(stderr, "usage: rtl_net MODEL.onnx CLUSTER.yaml CARDS INTERVAL_CYCLES DIRECTORY\n");
    return 2;
  }
  try {
    run(arguments);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rtl_net: %s\n", error.what());
    return 1;
  }
}
