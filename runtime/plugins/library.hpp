// Loads the shared library of a plugin (millrace_plugin.h) into this process, and computes blocks with it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plugins/millrace_plugin.h"

namespace millrace::runtime::plugins {

/// The largest library that is loaded.
inline constexpr std::uint64_t kMostLibraryBytes = std::uint64_t{256} << 20U;

/// Whether the file begins like a shared library: an ELF file that is no executable. False if it cannot be read.
bool is_library(const std::filesystem::path& file);

/// A loaded plugin. It is never unloaded, because its code may have started threads or registered callbacks. Any thread
/// may use it.
class Library {
 public:
  /// Reads the file once, checks it against `sha256` unless that is empty, and loads exactly these bytes. The library's
  /// initialisers run with the rights of this process. Returns kNotFound if there is no such file, and kCorrupt if the
  /// file has another digest. Returns kInvalidInput, with the remedy in the message, if the file is no ELF file, does
  /// not load, does not export get_plugin(), or if get_plugin() returns a table that has another ABI version or lacks a
  /// name or function.
  static Result<std::shared_ptr<const Library>> open(const std::filesystem::path& file,
                                                     const std::string& sha256 = {});

  std::string name() const { return api_->name; }
  const std::string& sha256() const { return sha256_; }
  const millrace_plugin& api() const { return *api_; }

 private:
  Library(const millrace_plugin* api, std::string sha256) : api_(api), sha256_(std::move(sha256)) {}

  const millrace_plugin* api_;
  std::string sha256_;
};

/// A block of a program in the form that plugins see. Holds the memory to which block() points.
class BlockView {
 public:
  BlockView(const kernels::Program& program, const kernels::Block& block);
  BlockView(const BlockView&) = delete;
  BlockView& operator=(const BlockView&) = delete;
  const millrace_block& block() const { return block_; }

 private:
  std::vector<kernels::Tensor> tensors_;  // inputs, then outputs
  std::vector<millrace_tensor> described_;
  std::string name_, runner_, settings_;
  millrace_block block_{};
};

/// Returns the model of one block, whose operation is a PluginOperator of this library.
std::shared_ptr<const kernels::PluginModel> model_of(std::shared_ptr<const Library> library,
                                                     const kernels::Program& program,
                                                     const kernels::Block& block);

}  // namespace millrace::runtime::plugins
