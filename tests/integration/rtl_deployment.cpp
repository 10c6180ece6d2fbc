#include "tests/integration/rtl_deployment.hpp"

#include <fstream>
#include <stdexcept>

#include "compiler/emit/rtl/rtl.hpp"
#include "compiler/generators/catalog.hpp"
#include "compiler/generators/design.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::tests {

namespace fs = std::filesystem;
namespace plan = runtime::plan;
namespace generators = compiler::generators;

namespace {

template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

}  // namespace

void add_rtl(const fs::path& directory, std::uint64_t interval_cycles) {
  const auto deployment = must(plan::load_deployment(directory));
  const auto catalog = must(generators::load_catalog());
  generators::ChooseOptions options;
  options.budget = {1'000'000, 1'000'000, 2'000'000, 10'000, 10'000, 1'000};
  options.target_interval = interval_cycles;
  for (const plan::Image& image : deployment.plan.images) {
    const auto bytes = must(read_file(deployment.image_path(image), 1U << 30U));
    const auto view = must(plan::parse_xclbin(bytes));
    const auto data = must(plan::decode_emulation_data(view.find(plan::kSectionEmulationData)->bytes));
    for (std::size_t i = 0; i < data.programs.size(); ++i) {
      const auto& program = data.programs[i];
      const auto foldings = must(generators::choose(catalog, program, options));
      const auto design = must(generators::assemble(catalog, program, foldings));
      const auto rtl = must(compiler::emit::emit_rtl(design, program, data.record.partitions[i].ports,
                                                     {data.record.clock_mhz, image.device, "millrace test"}));
      for (const auto& [path, content] : rtl.files) {
        const fs::path file = directory / "rtl" / data.record.partitions[i].name / path;
        fs::create_directories(file.parent_path());
        std::ofstream(file) << content;
      }
    }
  }
}

}  // namespace millrace::tests
