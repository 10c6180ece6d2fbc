// Lets the plugins of a command take nodes of a model.
#pragma once

#include <memory>

#include "compiler/front/claims.hpp"
#include "compiler/generators/plugins.hpp"

namespace millrace::compiler {

/// Returns the function with which the importer asks the plugins; an empty function if `plugins` is null.
Claimer claimer_of(std::shared_ptr<const generators::Plugins> plugins);

}  // namespace millrace::compiler
