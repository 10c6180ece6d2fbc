// Finds the libraries of plugins on this machine. An emulated card loads a library only if the machine's cache has it, and
// only a command to which the user has said --allow-plugins puts one there: a deployment from a stranger may hold any
// code.
#pragma once

#include "kernels/program/program.hpp"
#include "runtime/base/cache.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::plugins {

/// Puts the libraries of a deployment into this machine's cache, from which emulated cards load them. Does nothing if the
/// deployment has none. kInvalidInput: `allowed` is false and the deployment has libraries; the message names them and
/// --allow-plugins. Other errors are those of Cache.
Status allow_plugins(const plan::LoadedDeployment& deployment, bool allowed);

/// Returns the file of a library in the cache. kNotFound if it is missing.
Result<std::filesystem::path> find_library(const std::string& sha256);

/// Loads the libraries of all plugin operators in `program` from the cache, and sets PluginOperator::model. Does
/// nothing if there are none. kNotFound: a library is not in the cache; the message names plugin, block and
/// --allow-plugins. Other errors are those of Library::open().
Status load_models(kernels::Program& program);

/// Returns the program that asks plugins, millrace-plugin: beside this program or in ../bin. kEnvironment if it is missing.
Result<std::filesystem::path> find_asker();

}  // namespace millrace::runtime::plugins
