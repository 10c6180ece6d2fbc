#include <gtest/gtest.h>

#include <random>

#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"

namespace millrace::test_npy {
namespace {

std::string with_header(const std::string& dictionary, const std::string& data) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8);
  return text + dictionary + data;
}

Result<NpyArray> read(const std::string& bytes) {
  const TemporaryDirectory dir("millrace-test");
  const auto written = write_file_atomically(dir.path() / "x.npy", bytes);
  return written.ok() ? read_npy(dir.path() / "x.npy") : Result<NpyArray>(written.error());
}

TEST(Npy, ArraysOfEveryRankReadBackUnchanged) {
  const TemporaryDirectory dir("millrace-test");
  for (const std::vector<std::uint64_t>& shape :
       {std::vector<std::uint64_t>{}, {3}, {0}, {2, 3}, {1, 2, 3, 4}}) {
    NpyArray array{"<f4", shape, {}};
    array.data.resize(array.elements() * 4, std::byte{7});
    ASSERT_TRUE(write_npy(dir.path() / "a.npy", array).ok());
    const auto back = read_npy(dir.path() / "a.npy");
    ASSERT_TRUE(back.ok()) << back.error().message();
    EXPECT_EQ(back->descr, array.descr);
    EXPECT_EQ(back->shape, array.shape);
    EXPECT_EQ(back->data, array.data);
  }
}

TEST(Npy, RefusesUnusableFilesAndNamesTheWrongField) {
  const struct {
    std::string bytes, expected;
  } cases[] = {
      {"", "magic"},
      {"\x89PNG\r\n\x1a\n00", "magic"},
      {std::string("\x93NUMPY\x01\x00\xff\xff", 10), "ends inside its header"},
      {std::string("\x93NUMPY\x09\x00\x00\x00", 10), "version 9"},
      {with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234"), "'>f4'"},
      {with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"), "descr"},
      {with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "1234"), "fortran_order"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "1234"), "shape"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234"), "needs 8 bytes"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296,), }", "1234"),
       "4 GiB"},
      {with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1", "1234"), "shape"},
      {with_header("{'descr': '<f4'", ""), "fortran_order"},
  };
  for (const auto& c : cases) {
    const auto result = read(c.bytes);
    ASSERT_FALSE(result.ok()) << c.expected;
    EXPECT_NE(result.error().message().find(c.expected), std::string::npos) << result.error().message();
  }
}

TEST(Npy, NeverReadsPastTheEndOfADamagedFile) {
  const std::string good = with_header("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }", "abcd");
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    bad.resize(random() % (bad.size() + 1));
    const auto result = read(bad);
    if (result.ok()) {
      EXPECT_EQ(result->data.size(), result->elements() * static_cast<std::uint64_t>(result->descr[2] - '0'));
    }
  }
}

}  // namespace
}  // namespace millrace::test_npy
