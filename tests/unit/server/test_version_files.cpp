// Tests the files of a repository: which versions it has, and the stored frames of a version.

#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <vector>

#include "fake_pipeline.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "server/models/directory.hpp"
#include "server/models/verification.hpp"

namespace millrace::server::models::test_version_files {
namespace {

using test::FakePipeline;

TEST(ParseVersion, AcceptsPositiveNumbersOfAtMostEighteenDigits) {
  EXPECT_EQ(parse_version("1"), 1U);
  EXPECT_EQ(parse_version("999999999999999999"), 999'999'999'999'999'999U);
  // The number 2^64 + 1 has 20 digits and would overflow to 1.
  for (const char* none : {"", "0", "01", "+1", "-1", "1 ", "1a", "1.0", "1000000000000000000",
                           "18446744073709551617", "99999999999999999999"})
    EXPECT_EQ(parse_version(none), 0U) << "'" << none << "'";
}

TEST(DirectoryScan, FindsVersionsByNumberAndDetectsEveryChange) {
  const TemporaryDirectory root("millrace-root");
  const auto add = [&](const std::string& path) {
    std::filesystem::create_directories((root.path() / path).parent_path());
    ASSERT_TRUE(write_file_atomically(root.path() / path, "x").ok());
  };
  for (const std::string path : {"m/1/deployment.json", "m/10/model.onnx", "m/2/other", "m/01/model.onnx",
                                 "m/a/model.onnx", ".hidden/1/model.onnx", "file", "empty/x/y"})
    add(path);
  const auto found = scan(root.path());
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1U);
  const Versions& versions = found->at("m").versions;
  ASSERT_EQ(versions.size(), 3U);
  EXPECT_EQ(versions.at(1).kind, VersionDirectory::Kind::kDeployment);
  EXPECT_EQ(versions.at(2).kind, VersionDirectory::Kind::kNothing);
  EXPECT_EQ(versions.rbegin()->first, 10U);
  EXPECT_EQ(*scan(root.path()), *found) << "the same while nothing changes";
  add("m/1/images/a");
  EXPECT_NE(scan(root.path())->at("m").versions.at(1).fingerprint, versions.at(1).fingerprint);
  EXPECT_EQ(scan(root.path())->at("m").versions.at(10).fingerprint, versions.at(10).fingerprint);
  EXPECT_EQ(scan(root.path() / "none").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(parse_version("18446744073709551616"), 0U);
  EXPECT_EQ(parse_version("-1"), 0U);
  EXPECT_EQ(parse_version(""), 0U);
}

struct StoredTestFrames : testing::Test {
  void write(const std::string& name, const NpyArray& array) {
    ASSERT_TRUE(write_npy(directory.path() / name, array).ok());
  }
  static NpyArray array(std::vector<std::uint64_t> shape, float first) {
    NpyArray made{"<f4", std::move(shape), {}};
    std::uint64_t elements = 1;
    for (const auto extent : made.shape) elements *= extent;
    for (std::uint64_t i = 0; i < elements; ++i) {
      const float value = first + static_cast<float>(i);
      const auto bytes = std::as_bytes(std::span(&value, 1));
      made.data.insert(made.data.end(), bytes.begin(), bytes.end());
    }
    return made;
  }
  void expect_refused(const std::string& says) {
    const auto stored = read_stored_frames(directory.path(), test::small_model());
    ASSERT_FALSE(stored.ok());
    EXPECT_NE(stored.error().message().find(says), std::string::npos) << stored.error().message();
  }
  TemporaryDirectory directory{"millrace-stored"};
};

TEST_F(StoredTestFrames, VerificationNamesTheOutputElementThatDiffers) {
  write("in0.npy", array({3, 2, 2}, 0));
  write("out0.npy", array({3, 4}, 0));
  auto stored = read_stored_frames(directory.path(), test::small_model());
  ASSERT_TRUE(stored.ok()) << stored.error().message();
  EXPECT_EQ(stored->frames, 3U);
  FakePipeline pipeline;
  EXPECT_TRUE(verify(pipeline, *stored, {}).ok());
  write("out0.npy", array({3, 4}, 1));
  stored = read_stored_frames(directory.path(), test::small_model());
  const Status verified = verify(pipeline, *stored, {});
  ASSERT_FALSE(verified.ok());
  EXPECT_NE(verified.error().message().find("frame 0, output 'y', element 0"), std::string::npos)
      << verified.error().message();
}

TEST_F(StoredTestFrames, AreRefusedIfTheyContradictTheModelOrEachOther) {
  expect_refused("in0.npy");
  write("in0.npy", array({3, 2, 2}, 0));
  expect_refused("contains no expected output");
  write("out0.npy", array({2, 4}, 0));
  expect_refused("has 2 frames, but another file has 3");
  write("out0.npy", array({3, 5}, 0));
  expect_refused("needs the shape of tensor 'y'");
  NpyArray integers{"|u1", {3, 4}, std::vector<std::byte>(12)};
  write("out0.npy", integers);
  expect_refused("has type '|u1', tensor 'y' needs '<f4'");
  std::error_code ignored;
  std::filesystem::remove_all(directory.path(), ignored);
  const auto none = read_stored_frames(directory.path(), test::small_model());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->frames, 0U);
}

}  // namespace
}  // namespace millrace::server::models::test_version_files
