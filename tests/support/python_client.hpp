// The Python client of tools/clients/python, as a program and with NumPy.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace millrace::tests {

/// Runs `python3 -m millrace_client` with these arguments.
Outcome run_python_client(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {});

/// ASSERT_TRUE(find_python_with("numpy", python)): a Python that has the module, the one on the path or the
/// distribution's. Where neither has it, says what installs it.
testing::AssertionResult find_python_with(const std::string& module, std::string& python);

/// Asks the server for model "fake" with NumPy arrays, and with NumPy hidden
/// (tests/unit/server/udp/drive_arrays.py says which model that is); fails where an answer is wrong.
void expect_arrays_over(const std::string& url);

}  // namespace millrace::tests
