// Runs the Python client of tools/clients/python, as a program and with NumPy.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace millrace::tests {

/// Runs `python3 -m millrace_client` with the given arguments.
Outcome run_python_client(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {});

/// For ASSERT_TRUE(find_python_with("numpy", python)): finds a Python that has the module, on the path or
/// from the distribution. If neither has it, the failure names what to install.
testing::AssertionResult find_python_with(const std::string& module, std::string& python);

/// Sends NumPy arrays to model "fake", with NumPy visible and hidden (tests/unit/server/udp/drive_arrays.py
/// describes that model). Fails if an answer is wrong.
void expect_arrays_over(const std::string& url);

}  // namespace millrace::tests
