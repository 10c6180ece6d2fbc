// Tools that a test needs and `tools/setup test` installs. Where one is missing the test fails: skipped, it
// would pass for held.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace millrace::tests {

/// ASSERT_TRUE(installed({"tclsh"})): whether all these programs are on the path; names the missing one and
/// what installs it.
testing::AssertionResult installed(std::initializer_list<const char*> programs);

/// The same of a package of tests/node.
testing::AssertionResult node_package_installed(const std::string& package);

}  // namespace millrace::tests
