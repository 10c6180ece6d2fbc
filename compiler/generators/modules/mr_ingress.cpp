#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {

Module mr_ingress() {
  return {.name = "mr_ingress", .any_value = {"AKIND"}, .cost = [](const Values& v, Features& f) {
            add_host_port(f, v, true);
          }};
}

}  // namespace millrace::compiler::generators::modules
