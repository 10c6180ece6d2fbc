// The base of tests of server settings: writes settings files and a deployment for `millrace serve`, and
// searches its log.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/file.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {

class ServeSettings : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const auto path = directory_.path() / name;
    EXPECT_TRUE(write_file_atomically(path, text).ok());
    return path.string();
  }
  std::string deployed() const {
    const auto deployment = directory_.path() / "deployment";
    deploy(chain_program(2), emulated_ring(1), 1, deployment);
    return deployment.string();
  }
  static bool said(const BackgroundProgram& server, const std::string& words) {
    return wait_until([&] { return server.err().find(words) != std::string::npos; });
  }

  static int count(const BackgroundProgram& server, const std::string& words) {
    const std::string all = server.err();
    int times = 0;
    for (auto at = all.find(words); at != std::string::npos; at = all.find(words, at + 1)) ++times;
    return times;
  }

  const std::string kCluster = std::string(tests::source_dir()) + "/configs/clusters/three-ku060.yaml";
  TemporaryDirectory directory_{"millrace-settings"};
};

}  // namespace millrace::tests
