// The main function of a test program that contains the tests of several ctest entries. build/…/tests has a link to the
// program for each entry. If the program is started by the name of such a link, it runs the tests of that entry only.
#pragma once

#include <span>

namespace millrace::tests {

/// A source file and the ctest entry to which its tests belong.
struct EntryFile {
  const char* entry;  ///< the entry's name, which is also the name of the link to the program
  const char* file;   ///< the path of the source file below the source folder
};

/// Runs the tests in the files of the entry whose name is that of the program, `arguments[0]` without its folder. If no
/// entry has this name, runs all tests. GoogleTest's options select among these tests. Returns 0 if all tests pass, and
/// 1 if a test fails or the entry's files contain no test.
int run_entry(int count, char** arguments, std::span<const EntryFile> files);

}  // namespace millrace::tests
