// Tools that tests need and that `tools/setup test` installs. If one is missing, the test fails: a skipped
// test would look like a passed one.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace millrace::tests {

/// For ASSERT_TRUE(installed({"tclsh"})): whether all these programs are on the path. The failure names the
/// missing program and how to install it.
testing::AssertionResult installed(std::initializer_list<const char*> programs);

/// Like installed(), for an npm package of tests/node.
testing::AssertionResult node_package_installed(const std::string& package);

}  // namespace millrace::tests
