// An operator with an installed prefix, a repository and a server over it: what test_operators_day.cpp needs for
// each of its steps.
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

/// What all tests share: a prefix, and two versions of LeNet-5 that its compiler built.
class Site {
 public:
  Site();  // throws std::runtime_error

  const InstalledPrefix& prefix() const { return prefix_; }
  std::string cluster() const { return prefix_.shared("clusters/two-ku060.yaml"); }
  /// A seven.
  std::filesystem::path picture() const { return source("1") / "seven.png"; }
  /// A version as it comes from training.
  std::filesystem::path source(const std::string& version) const {
    return prefix_.elsewhere() / "trained" / version;
  }
  std::filesystem::path deployment(const std::string& version) const {
    return prefix_.elsewhere() / "built" / version;
  }

  /// The words behind `millrace` that compile a version to this folder.
  std::vector<std::string> compile(const std::string& version, const std::filesystem::path& to) const;
  /// The installed `millrace` with these words, from elsewhere.
  std::vector<std::string> command(std::vector<std::string> words) const;
  Outcome run(const std::vector<std::string>& words) const { return run_program(command(words)); }

 private:
  const InstalledPrefix prefix_;
};

/// Made at the first call.
const Site& site();

/// A server on two cards over a repository of one model, "lenet5".
class OperatorsDay : public testing::Test {
 protected:
  OperatorsDay();

  std::filesystem::path model() const { return directory_.path() / "models" / "lenet5"; }
  void set_mode(const std::string& mode);

  /// Puts a version into the repository, as a deployment and in one step.
  void copy_version(const std::string& version) const;
  /// Makes it a copy that ended early: of each image the half is there.
  void cut_short(const std::string& version) const;

  /// `millrace reload` of the model.
  Outcome reload_model(std::vector<std::string> more) const;
  void restart();
  /// That this version serves and no other, by what clients get and by the metrics.
  void expect_served(const std::string& version) const;

  TemporaryDirectory directory_{"millrace-operator"};
  InstalledService service_{site().prefix(), directory_.path() / "etc"};
};

}  // namespace millrace::tests
