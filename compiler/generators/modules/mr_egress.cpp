#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {

Module mr_egress() {
  return {.name = "mr_egress", .any_value = {"AKIND"}, .cost = [](const Values& v, Features& f) {
            add_host_port(f, v, false);
          }};
}

}  // namespace millrace::compiler::generators::modules
