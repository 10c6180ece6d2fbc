// Runs the Python client of tools/clients/python as a program, and with NumPy arrays.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace millrace::tests {

/// Runs `python3 -m millrace_client` with `arguments`.
Outcome run_python_client(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {});

/// Finds a Python interpreter that has the module. Tries the one on the path, then the distribution's. If neither has
/// the module, the failure names what to install. Used as ASSERT_TRUE(find_python_with("numpy", python)).
testing::AssertionResult find_python_with(const std::string& module, std::string& python);

/// Sends arrays to the model "fake" at `url`, once with NumPy and once with NumPy hidden. The model is described in
/// tests/unit/server/udp/drive_arrays.py. The test fails if an answer is wrong.
void expect_arrays_over(const std::string& url);

}  // namespace millrace::tests
