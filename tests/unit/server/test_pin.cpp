// Tests the file PIN of a model: its valid contents, how it is written and removed, and which version it selects.

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "runtime/base/file.hpp"
#include "server/models/directory.hpp"
#include "server/models/pin.hpp"

namespace millrace::server::models::test_pin {
namespace {

namespace fs = std::filesystem;

class PinFile : public testing::Test {
 protected:
  PinFile() { fs::create_directories(folder); }
  void hold(const std::string& content) { ASSERT_TRUE(write_file_atomically(pin, content).ok()); }
  void add(const std::string& path) {
    fs::create_directories((folder / path).parent_path());
    ASSERT_TRUE(write_file_atomically(folder / path, "x").ok());
  }
  ModelDirectory directory() const { return scan(root.path())->at("m"); }
  /// Expects that the PIN file cannot be read, and that the error names the file, the fault and both remedies.
  void expect_unreadable(const std::string& why) const {
    const Pin read = read_pin(folder);
    EXPECT_TRUE(read.is_set());
    EXPECT_EQ(read.version, 0U);
    for (const std::string& part :
         {"model 'm': " + pin.string() + " " + why,
          std::string("write the number of a version into this file"),
          std::string("'millrace reload --model m --unpin'"), "or remove " + pin.string()})
      EXPECT_NE(read.unreadable.find(part), std::string::npos) << part << " is not in: " << read.unreadable;
    EXPECT_LT(read.unreadable.size(), 800U);
    const auto serves = version_to_serve("m", directory());
    ASSERT_FALSE(serves.ok());
    EXPECT_EQ(serves.error().code(), ErrorCode::kInvalidInput);
    EXPECT_EQ(serves.error().message(), read.unreadable);
  }

  TemporaryDirectory root{"millrace-pin"};
  const fs::path folder = root.path() / "m", pin = folder / "PIN";
};

TEST_F(PinFile, DoesNotExistIfNoVersionIsPinned) {
  EXPECT_EQ(read_pin(folder), Pin());
  EXPECT_FALSE(read_pin(folder).is_set());
  EXPECT_EQ(read_pin(root.path() / "absent"), Pin());
  EXPECT_EQ(remove_pin(folder).error().code(), ErrorCode::kNotFound);
}

TEST_F(PinFile, ContainsTheNumberOfAVersion) {
  for (const std::string content : {"12", "12\n", " 12\r\n", "\n\t12 "}) {
    hold(content);
    EXPECT_EQ(read_pin(folder).version, 12U) << content;
    EXPECT_EQ(read_pin(folder).unreadable, "");
  }
}

TEST_F(PinFile, ErrorQuotesContentThatIsNotAVersion) {
  add("1/deployment.json");
  for (const std::string content : {"", "\n", "  \r\n"}) {
    hold(content);
    expect_unreadable("is empty");
  }
  for (const std::string content : {"0", "-1", "01", "1.0", "0x1", "1 2", "newest", "1234567890123456789"}) {
    hold(content + "\n");
    expect_unreadable("holds '" + content + "', which is no version's number");
  }
  hold(std::string("1\0", 2));
  expect_unreadable("holds '1\\x00'");
  hold("\x1b[31m\xff");
  expect_unreadable("holds '\\x1b[31m\\xff'");
  hold(std::string(60, '7'));
  expect_unreadable("holds '" + std::string(20, '7') + "…'");
}

TEST_F(PinFile, IsNotReadIfItIsTooLarge) {
  add("1/deployment.json");
  hold("1");
  fs::resize_file(pin, std::uint64_t{1} << 40U);
  expect_unreadable("has 1099511627776 bytes");
}

TEST_F(PinFile, ErrorSaysThatThePinIsALinkOrAFolder) {
  add("1/deployment.json");
  add("one");
  fs::create_symlink(folder / "one", pin);
  expect_unreadable("is a symbolic link, which the server does not follow");
  fs::remove(pin);
  fs::create_symlink(folder / "nowhere", pin);
  expect_unreadable("is a symbolic link, which the server does not follow");
  fs::remove(pin);
  fs::create_directory(pin);
  expect_unreadable("is a folder and not a file");
  fs::remove(pin);
  ASSERT_EQ(::mkfifo(pin.c_str(), 0600), 0);
  expect_unreadable("is no regular file");
}

TEST_F(PinFile, WritingReplacesAnyFileAtomicallyAndFollowsNoLink) {
  add("other");
  ASSERT_TRUE(write_pin(folder, 3).ok());
  EXPECT_EQ(*read_text_file(pin), "3\n");
  hold("garbage");
  ASSERT_TRUE(write_pin(folder, 4).ok());
  EXPECT_EQ(*read_text_file(pin), "4\n");
  fs::remove(pin);
  fs::create_symlink(folder / "other", pin);
  ASSERT_TRUE(write_pin(folder, 5).ok());
  EXPECT_FALSE(fs::is_symlink(pin));
  EXPECT_EQ(*read_text_file(pin), "5\n");
  EXPECT_EQ(*read_text_file(folder / "other"), "x") << "the link was replaced and not followed";
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_TRUE(entry.path() == pin || entry.path() == folder / "other") << entry.path();
}

TEST_F(PinFile, SymbolicLinkIsKeptIfTheDiskIsFull) {
  add("other");
  fs::create_symlink(folder / "other", pin);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit nothing{0, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &nothing), 0);
  const Status written = write_pin(folder, 5);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(fs::is_symlink(pin)) << "without it the model would not be pinned at the next start";
  EXPECT_TRUE(write_pin(folder, 5).ok());
  EXPECT_EQ(read_pin(folder).version, 5U);
}

TEST_F(PinFile, IsRemovedWhateverItsContent) {
  add("other");
  for (const std::string content : {"3", "", "garbage"}) {
    hold(content);
    EXPECT_TRUE(remove_pin(folder).ok());
    EXPECT_FALSE(fs::exists(pin));
  }
  fs::create_symlink(folder / "other", pin);
  EXPECT_TRUE(remove_pin(folder).ok());
  EXPECT_TRUE(fs::exists(folder / "other"));
}

TEST_F(PinFile, FolderNamedPinIsKeptAndReported) {
  fs::create_directory(pin);
  for (const Status& status : {check_pin_place(folder), write_pin(folder, 1), remove_pin(folder)}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message().find(pin.string() + " is a folder"), std::string::npos)
        << status.error().message();
  }
  EXPECT_TRUE(fs::is_directory(pin));
}

TEST_F(PinFile, DecidesWhichVersionServes) {
  for (const std::string path : {"1/deployment.json", "2/model.onnx", "3/deployment.json", "4/other"})
    add(path);
  EXPECT_EQ((*version_to_serve("m", directory()))->first, 3U) << "without a pin the newest that holds one";
  hold("1");
  EXPECT_EQ((*version_to_serve("m", directory()))->first, 1U);
  hold("7");
  auto refused = version_to_serve("m", directory());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(
      refused.error().message().find(
          "pinned to version '7', which is not in the repository; it has 1, 2, 3, 4; no other version is "
          "loaded: add the pinned version, or to unpin the model, run 'millrace reload --model m --unpin'"),
      std::string::npos)
      << refused.error().message();
  hold("4");
  refused = version_to_serve("m", directory());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("'4', which holds neither deployment.json nor model.onnx"),
            std::string::npos)
      << refused.error().message();
}

TEST_F(PinFile, KeepsAModelInTheRepositoryScanIfTheModelHasNoVersions) {
  hold("1");
  EXPECT_EQ(directory().pin.version, 1U);
  ASSERT_TRUE(remove_pin(folder).ok());
  EXPECT_FALSE(scan(root.path())->contains("m"));
}

}  // namespace
}  // namespace millrace::server::models::test_pin
