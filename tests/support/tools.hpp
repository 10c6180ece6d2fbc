// Checks for the tools that tests need; `tools/setup test` installs them. If a tool is missing, the test fails, because
// a skipped test would look like a passed one.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace millrace::tests {

/// Whether all these programs are on the path. The failure names the missing program and how to install it. Used as
/// ASSERT_TRUE(installed({"tclsh"})).
testing::AssertionResult installed(std::initializer_list<const char*> programs);

/// Whether tests/node has this npm package. The failure says how to install the package.
testing::AssertionResult node_package_installed(const std::string& package);

}  // namespace millrace::tests
