// The base of the tests in test_operators_day.cpp: an installed prefix, a model repository and a server.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/installed_prefix.hpp"
#include "tests/integration/installed_service.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {

/// What all tests share: an installed prefix, and two versions of LeNet-5 that the installed compiler has built.
class Site {
 public:
  Site();  // throws std::runtime_error

  const InstalledPrefix& prefix() const { return prefix_; }
  std::string cluster() const { return prefix_.shared("clusters/two-ku060.yaml"); }
  std::filesystem::path picture() const { return source("1") / "seven.png"; }
  /// The directory of a version's source: an ONNX model and its files, before compilation.
  std::filesystem::path source(const std::string& version) const {
    return prefix_.elsewhere() / "trained" / version;
  }
  std::filesystem::path deployment(const std::string& version) const {
    return prefix_.elsewhere() / "built" / version;
  }

  /// Returns the arguments with which `millrace` compiles a version to the directory `to`.
  std::vector<std::string> compile(const std::string& version, const std::filesystem::path& to) const;
  /// Returns the command that runs the installed `millrace` with the arguments `words` in elsewhere().
  std::vector<std::string> command(std::vector<std::string> words) const;
  Outcome run(const std::vector<std::string>& words) const { return run_program(command(words)); }

 private:
  const InstalledPrefix prefix_;
};

/// Returns the shared Site. The first call makes it.
const Site& site();

/// The base of the tests: a server on two cards that serves a repository with one model, "lenet5".
class InstalledServer : public testing::Test {
 protected:
  InstalledServer();

  std::filesystem::path model() const { return directory_.path() / "models" / "lenet5"; }
  void set_mode(const std::string& mode);

  /// Puts a compiled version into the repository atomically, so that the server never sees a part of it.
  void copy_version(const std::string& version) const;
  /// Truncates each FPGA image of the version to half, as an interrupted copy would.
  void cut_short(const std::string& version) const;

  /// Runs `millrace reload` for the model.
  Outcome reload_model(std::vector<std::string> more) const;
  void restart();
  /// Expects that only `version` serves requests, according to both the answers and the metrics.
  void expect_served(const std::string& version) const;

  TemporaryDirectory directory_{"millrace-operator"};
  InstalledService service_{site().prefix(), directory_.path() / "etc"};
};

}  // namespace millrace::tests
