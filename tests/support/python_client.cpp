#include "tests/support/python_client.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests {

Outcome run_python_client(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment) {
  std::vector<std::string> command = {"python3", "-B", "-m", "millrace_client"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> all = environment;
  all.push_back(std::string("PYTHONPATH=") + tests::source_dir() + "/tools/clients/python");
  return run_program(command, all);
}

testing::AssertionResult find_python_with(const std::string& module, std::string& python) {
  for (const char* candidate : {"python3", "/usr/bin/python3"}) {
    python = candidate;
    if (run_program({python, "-c", "import " + module}).exit_code == 0) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no Python has the module " << module << ": run 'tools/setup test'";
}

void expect_arrays_over(const std::string& url) {
  const std::string drive = std::string(tests::source_dir()) + "/tests/unit/server/udp/drive_arrays.py";
  std::string python;
  ASSERT_TRUE(find_python_with("numpy", python));
  const Outcome with = run_program({python, "-B", drive, url});
  EXPECT_EQ(with.exit_code, 0) << with.out << with.err;
  const Outcome without = run_program({python, "-B", drive, url, "hidden"});
  EXPECT_EQ(without.exit_code, 0) << without.out << without.err;
}

}  // namespace millrace::tests
