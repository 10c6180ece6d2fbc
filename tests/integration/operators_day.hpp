// The base of test_operators_day.cpp: an operator with an installed prefix, a repository and a server.
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

/// Shared by all tests: a prefix, and two versions of LeNet-5 that its compiler built.
class Site {
 public:
  Site();  // throws std::runtime_error

  const InstalledPrefix& prefix() const { return prefix_; }
  std::string cluster() const { return prefix_.shared("clusters/two-ku060.yaml"); }
  /// A picture of the digit seven.
  std::filesystem::path picture() const { return source("1") / "seven.png"; }
  /// The directory of a version's source: an ONNX model and its files, before compilation.
  std::filesystem::path source(const std::string& version) const {
    return prefix_.elsewhere() / "trained" / version;
  }
  std::filesystem::path deployment(const std::string& version) const {
    return prefix_.elsewhere() / "built" / version;
  }

  /// The arguments of `millrace` that compile a version to `to`.
  std::vector<std::string> compile(const std::string& version, const std::filesystem::path& to) const;
  /// The command that runs the installed `millrace` with `words` from elsewhere().
  std::vector<std::string> command(std::vector<std::string> words) const;
  Outcome run(const std::vector<std::string>& words) const { return run_program(command(words)); }

 private:
  const InstalledPrefix prefix_;
};

/// The shared Site, which the first call makes.
const Site& site();

/// A server on two cards over a repository of one model, "lenet5".
class InstalledServer : public testing::Test {
 protected:
  InstalledServer();

  std::filesystem::path model() const { return directory_.path() / "models" / "lenet5"; }
  void set_mode(const std::string& mode);

  /// Puts a compiled version into the repository, in one step.
  void copy_version(const std::string& version) const;
  /// Truncates each image of the version to half, as an interrupted copy would.
  void cut_short(const std::string& version) const;

  /// Runs `millrace reload` for the model.
  Outcome reload_model(std::vector<std::string> more) const;
  void restart();
  /// Expects that only `version` serves, judged by answers and by the metrics.
  void expect_served(const std::string& version) const;

  TemporaryDirectory directory_{"millrace-operator"};
  InstalledService service_{site().prefix(), directory_.path() / "etc"};
};

}  // namespace millrace::tests
