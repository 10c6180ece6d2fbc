// Runs NVIDIA's own tritonclient.http against a server. This program is not part of the test suite, because
// neither Debian nor npm has that client. tools/triton-client runs it with the client's source on PYTHONPATH.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/repository_host.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/programs.hpp"

namespace millrace::tests {
namespace {

TEST(TritonLibrary, EveryCallOfTheClientLibrarySucceeds) {
  RepositoryHost host;
  host.add("1", chain_program(6));
  host.start();
  const Outcome run =
      run_program({"/usr/bin/python3", "-B",
                   std::string(tests::source_dir()) + "/tests/integration/drive_tritonclient.py",
                   "127.0.0.1:" + std::to_string(host.port()), "m"});
  EXPECT_EQ(run.exit_code, 0) << run.err << host.server().err();
  EXPECT_NE(run.out.find("\"answers\": 54"), std::string::npos) << run.out;
  EXPECT_EQ(host.server().stop(SIGTERM), 0) << host.server().err();
}

}  // namespace
}  // namespace millrace::tests
