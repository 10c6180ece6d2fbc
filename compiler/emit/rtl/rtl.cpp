#include "compiler/emit/rtl/rtl.hpp"

#include <set>

#include "compiler/emit/rtl/dataflow.hpp"
#include "compiler/emit/rtl/design_json.hpp"
#include "compiler/emit/rtl/top.hpp"
#include "kernels/rtl/library.hpp"
#include "runtime/base/digest.hpp"

namespace millrace::compiler::emit {
namespace {

/// What a file of constants is good for is in the module that reads it; the folder as a whole is identified.
std::string digest_of(const std::map<std::string, std::string>& files) {
  std::string lines;
  for (const auto& [path, content] : files) lines += sha256_hex(content) + "  " + path + "\n";
  return sha256_hex(lines);
}

}  // namespace

Result<Rtl> emit_rtl(const generators::Design& design, const kernels::Program& program,
                     const std::vector<runtime::plan::ImagePort>& ports, const RtlOptions& options) {
  Rtl made;
  std::set<std::string> modules = top_modules();
  for (const auto& unit : design.netlist.units) modules.insert(unit.instance.module);
  std::vector<std::string> sources;
  for (const auto& file : kernels::rtl::closure(modules)) {
    const std::string path = "library/" + std::string(file.path.substr(file.path.rfind('/') + 1));
    sources.push_back(path);
    made.files[path] = file.text;
  }
  const std::string dataflow = design.partition + "_dataflow.sv", top = design.partition + "_top.sv";
  sources.push_back(dataflow);
  sources.push_back(top);
  made.files[dataflow] = dataflow_text(design, program, options);
  MILLRACE_ASSIGN(made.files[top], top_text(design, ports, options));
  for (const auto& file : design.netlist.files) made.files[file.name] = file.content;
  for (const auto& source : sources) made.files["files.f"] += source + "\n";
  made.digest = digest_of(made.files);
  made.files["design.json"] = design_json(design, program, options, sources, made.digest);
  return made;
}

}  // namespace millrace::compiler::emit
