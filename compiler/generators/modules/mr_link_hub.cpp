#include "compiler/generators/module.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const std::int64_t ports = v["PORTS"], connectors = v["CONNECTORS"], bits = 8 * v["BYTES"];
  f.add_both("one", 1);
  f.add_both("ports", ports);
  f.add_both("connectors", connectors);
  f.add_lut("crc", connectors * bits);
  f.add_lut("choice", ports * connectors);
  f.add_lut("crossing", ports * connectors * bits);
  f.add_lut("header", ports * (connectors - 1) * 256);
  f.add_ff("bus", connectors * bits);
}

}  // namespace

Module mr_link_hub() {
  return {.name = "mr_link_hub", .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
