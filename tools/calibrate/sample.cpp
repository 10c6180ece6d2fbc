#include "tools/calibrate/sample.hpp"

#include "compiler/generators/module.hpp"
#include "compiler/generators/unrolled.hpp"
#include "tools/calibrate/contents.hpp"

namespace millrace::tools::calibrate {
namespace {

using compiler::generators::ConstantField;

std::int64_t draw(const ConstantField& field, Content& content) {
  if (field.normal_bits > 0) return content.normal(field.normal_bits);
  return field.lowest == field.highest ? field.lowest : content.uniform(field.lowest, field.highest);
}

}  // namespace

std::vector<Sample> sample_of(const std::string& module, const Measurements& rows) {
  if (module == compiler::generators::kUnrolledModule) return unrolled_sample();
  std::vector<Sample> samples;
  for (const Measurement& row : rows.rows)
    if (row.module == module) samples.push_back({row.parameters, {}});
  return samples;
}

Result<Memories> memories_of(const std::string& module, const compiler::generators::Parameters& parameters) {
  Memories memories;
  const auto* known = compiler::generators::find_module(module);
  if (known == nullptr || known->constants == nullptr) return memories;
  MILLRACE_ASSIGN(const auto values, compiler::generators::Values::of(*known, parameters));
  Content content;
  for (const auto& file : known->constants(values)) {
    std::pair<std::string, std::string> name{file.parameter, file.name};
    memories.files[name.second + file.suffix] = content.table(file.lines, [&](Line& line) {
      for (const ConstantField& field : file.line) line.field(draw(field, content), field.bits);
    });
    if (memories.names.empty() || memories.names.back() != name) memories.names.push_back(std::move(name));
  }
  return memories;
}

}  // namespace millrace::tools::calibrate
