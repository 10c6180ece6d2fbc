// Finds the libraries of plugins on this machine. An emulated card loads a library only if the machine's cache has it, and
// only a command to which the user has said --allow-plugins puts one there: a deployment from a stranger may hold any
// code.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "kernels/program/program.hpp"
#include "runtime/base/cache.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::plugins {

/// Puts the libraries of a deployment into this machine's cache, from which emulated cards load them. Does nothing if
/// the deployment has none. Returns kInvalidInput if the deployment has libraries and `allowed` is false; the message
/// names the libraries and --allow-plugins. Other errors are those of Cache.
Status allow_plugins(const plan::LoadedDeployment& deployment, bool allowed);

/// Returns the path of a library's file in the cache. Returns kNotFound if the cache lacks the library.
Result<std::filesystem::path> find_library(const std::string& sha256);

/// Loads the libraries of all plugin operators in `program` from the cache, and sets PluginOperator::model. Does
/// nothing if there are none. Returns kNotFound if a library is not in the cache; the message names plugin, block and
/// --allow-plugins. Other errors are those of Library::open(). `before`, if it is set, is called with a block before the
/// block's library is loaded for the first time.
Status load_models(kernels::Program& program, const std::function<void(const kernels::Block&)>& before = {});

/// Returns the path of millrace-plugin, the program that asks plugins. It is beside this program or in ../bin. Returns
/// kEnvironment if it is missing.
Result<std::filesystem::path> find_asker();

}  // namespace millrace::runtime::plugins
