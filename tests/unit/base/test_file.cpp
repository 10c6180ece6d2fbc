#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "runtime/base/file.hpp"

namespace millrace::test_file {
namespace {

namespace fs = std::filesystem;

std::size_t entries(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

/// While a FullDisk exists, files of this process can grow to at most `bytes`. Larger writes fail as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
    std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(File, ReadReturnsTheTextWrittenLast) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_TRUE(write_file_atomically(dir.path() / "a", "text").ok());
  ASSERT_TRUE(write_file_atomically(dir.path() / "a", "newer").ok());
  EXPECT_EQ(*read_text_file(dir.path() / "a"), "newer");
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST(File, ReadDistinguishesAbsentFilesDirectoriesAndTooLargeFiles) {
  const TemporaryDirectory dir("millrace-test");
  EXPECT_EQ(read_file(dir.path() / "none", 10).error().code(), ErrorCode::kNotFound);
  EXPECT_NE(read_file(dir.path(), 10).error().message().find("is a directory"), std::string::npos);
  ASSERT_TRUE(write_file_atomically(dir.path() / "a", "12345678901").ok());
  EXPECT_NE(read_file(dir.path() / "a", 10).error().message().find("longer than"), std::string::npos);
}

TEST(File, ReadRefusesATooLargeFileBeforeAllocatingMemory) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_TRUE(write_file_atomically(dir.path() / "sparse", "x").ok());
  std::error_code refused;
  fs::resize_file(dir.path() / "sparse", std::uintmax_t{1} << 40U, refused);
  if (refused) GTEST_SKIP() << "this file system has no sparse files of a terabyte: " << refused.message();
  const auto read = read_file(dir.path() / "sparse", 1000);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(read.error().message().find("sparse: longer than the 1000 bytes"), std::string::npos)
      << read.error().message();
}

TEST(File, ReadRefusesPipesAndDevicesWithoutBlocking) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_EQ(::mkfifo((dir.path() / "fifo").c_str(), 0600), 0);
  ::alarm(20);  // ends the test if read_file() hangs
  for (const fs::path& path : {dir.path() / "fifo", fs::path("/dev/zero")}) {
    const auto read = read_file(path, std::uint64_t{1} << 20U);
    ASSERT_FALSE(read.ok()) << path;
    EXPECT_EQ(read.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(read.error().message().find("is a pipe, device or socket"), std::string::npos)
        << read.error().message();
  }
  ::alarm(0);
}

TEST(File, ReadingAPartRefusesARangeBeyondTheEndOfTheFile) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_TRUE(write_file_atomically(dir.path() / "a", "0123456789").ok());
  EXPECT_EQ(*read_file_part(dir.path() / "a", 3, 4), "3456");
  EXPECT_EQ(*read_file_part(dir.path() / "a", 0, 10), "0123456789");
  EXPECT_EQ(*read_file_part(dir.path() / "a", 10, 0), "");
  const std::uint64_t far = ~std::uint64_t{0};
  for (const auto& [offset, bytes] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{7, 4}, {11, 0}, {far, 1}, {1, far}}) {
    const auto part = read_file_part(dir.path() / "a", offset, bytes);
    ASSERT_FALSE(part.ok()) << offset;
    EXPECT_EQ(part.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(part.error().message().find("/a: ends at byte 10, "), std::string::npos)
        << part.error().message();
  }
  EXPECT_EQ(read_file_part(dir.path() / "none", 0, 1).error().code(), ErrorCode::kNotFound);
  ASSERT_EQ(::mkfifo((dir.path() / "fifo").c_str(), 0600), 0);
  ::alarm(20);
  EXPECT_EQ(read_file_part(dir.path() / "fifo", 0, 0).error().code(), ErrorCode::kInvalidInput);
  ::alarm(0);
}

TEST(File, WritingThroughALinkReplacesItsTargetAndKeepsTheLink) {
  const TemporaryDirectory dir("millrace-test");
  fs::create_directory(dir.path() / "kept");
  ASSERT_TRUE(write_file_atomically(dir.path() / "kept" / "a", "old").ok());
  fs::create_symlink("kept/a", dir.path() / "link");
  ASSERT_TRUE(write_file_atomically(dir.path() / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(dir.path() / "link"));
  EXPECT_EQ(*read_text_file(dir.path() / "kept" / "a"), "new");
}

TEST(File, WritingToAPipeKeepsThePipe) {
  const TemporaryDirectory dir("millrace-test");
  const fs::path fifo = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const Status written = write_file_atomically(fifo, "through");
  EXPECT_TRUE(written.ok()) << written.error().message();
  EXPECT_TRUE(fs::is_fifo(fifo));
  char got[16] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 7);
  EXPECT_STREQ(got, "through");
  ::close(reader);
}

TEST(File, ErrorsNameAnUnwritablePath) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_TRUE(write_file_atomically(dir.path() / "file", "x").ok());
  for (const char* bad : {"", "none/a", "file/a"}) {
    const fs::path path = dir.path() / bad;
    for (const Status& status : {check_file_place(path), write_file_atomically(path, "x")}) {
      ASSERT_FALSE(status.ok()) << path;
      EXPECT_EQ(status.error().message().rfind(path.string() + ": ", 0), 0U) << status.error().message();
    }
  }
  EXPECT_TRUE(check_file_place(dir.path() / "file").ok());
  EXPECT_TRUE(check_file_place(dir.path() / "new").ok());
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST(File, WritingAScratchFileReplacesTheFileAndErrorsNameThePath) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_TRUE(write_scratch_file(dir.path() / "a", "a longer text").ok());
  ASSERT_TRUE(write_scratch_file(dir.path() / "a", "short").ok());
  EXPECT_EQ(*read_text_file(dir.path() / "a"), "short");
  EXPECT_EQ(entries(dir.path()), 1U);
  for (const fs::path& path : {dir.path() / "none/a", dir.path()}) {
    const Status status = write_scratch_file(path, "x");
    ASSERT_FALSE(status.ok()) << path;
    EXPECT_EQ(status.error().message().rfind(path.string() + ": ", 0), 0U) << status.error().message();
  }
  EXPECT_EQ(write_scratch_file("/dev/full", "x").error().code(), ErrorCode::kResourceExhausted);
}

TEST(File, AFullDiskKeepsTheOldContentAndLeavesNoTemporaryFile) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_TRUE(write_file_atomically(dir.path() / "a", "old").ok());
  Status status;
  {
    const FullDisk full(1000);
    status = write_file_atomically(dir.path() / "a", std::string(4000, 'x'));
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(*read_text_file(dir.path() / "a"), "old");
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST(Directory, AtomicWriteReplacesAnOlderDirectory) {
  const TemporaryDirectory dir("millrace-test");
  for (const char* text : {"one", "two"}) {
    const Status status = write_directory_atomically(
        dir.path() / "d", [&](const fs::path& at) { return write_file_atomically(at / text, text); });
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
  EXPECT_FALSE(fs::exists(dir.path() / "d" / "one"));
  EXPECT_EQ(*read_text_file(dir.path() / "d" / "two"), "two");
  EXPECT_EQ(entries(dir.path()), 1U);
}

TEST(Directory, AFailedWriteKeepsTheOldDirectoryAndLeavesNoFiles) {
  const TemporaryDirectory dir("millrace-test");
  const auto fill = [](int failing) {
    return [failing](const fs::path& at) -> Status {
      for (int i = 0; i < 4; ++i) {
        if (i == failing) return Error(ErrorCode::kResourceExhausted, "disk full");
        MILLRACE_TRY(write_file_atomically(at / std::to_string(i), "x"));
      }
      return {};
    };
  };
  ASSERT_TRUE(write_directory_atomically(dir.path() / "d", fill(-1)).ok());
  for (int n = 0; n < 4; ++n) {
    EXPECT_FALSE(write_directory_atomically(dir.path() / "d", fill(n)).ok());
    EXPECT_FALSE(write_directory_atomically(dir.path() / "new", fill(n)).ok());
    EXPECT_EQ(entries(dir.path() / "d"), 4U);
    EXPECT_EQ(entries(dir.path()), 1U);
  }
}

TEST(Directory, NeverReplacesAFile) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_TRUE(write_file_atomically(dir.path() / "d", "precious").ok());
  EXPECT_FALSE(write_directory_atomically(dir.path() / "d", [](const fs::path&) { return Status(); }).ok());
  EXPECT_EQ(*read_text_file(dir.path() / "d"), "precious");
}

TEST(Directory, ErrorNamesAParentThatCannotBeCreated) {
  const TemporaryDirectory dir("millrace-test");
  ASSERT_TRUE(write_file_atomically(dir.path() / "file", "x").ok());
  const Status status =
      write_directory_atomically(dir.path() / "file" / "d", [](const fs::path&) { return Status(); });
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("file"), std::string::npos);
}

TEST(Directory, LeftoversOfAKilledProcessAreRemovedByTheNextWrite) {
  const TemporaryDirectory dir("millrace-test");
  const auto leave = [&](const char* name) {
    fs::create_directories(dir.path() / name);
    std::ofstream(dir.path() / name / "part") << "x";
  };
  for (const char* name : {".a.tmp.1.0", ".ab.tmp.1.0", ".a.b.tmp.1.0", "a.tmp.1.0"}) leave(name);
  const std::string id_used_again = ".a.tmp." + std::to_string(::getpid()) + ".900";
  leave(id_used_again.c_str());
  leave(".a.tmp.3.0");
  const int held = ::open((dir.path() / ".a.tmp.3.0").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX | LOCK_NB), 0);
  bool locked = false;
  const Status written = write_directory_atomically(dir.path() / "a", [&](const fs::path& temporary) {
    const int fd = ::open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
    ::close(fd);
    return Status();
  });
  ::close(held);
  ASSERT_TRUE(written.ok()) << written.error().message();
  EXPECT_TRUE(locked) << "without the lock another process would remove the directory";
  EXPECT_FALSE(fs::exists(dir.path() / ".a.tmp.1.0"));
  EXPECT_FALSE(fs::exists(dir.path() / id_used_again));
  for (const char* stays : {"a", ".a.tmp.3.0", ".ab.tmp.1.0", ".a.b.tmp.1.0", "a.tmp.1.0"})
    EXPECT_TRUE(fs::exists(dir.path() / stays)) << stays;
}

TEST(Directory, ConcurrentWritersOfOneTargetDoNotDisturbEachOther) {
  const TemporaryDirectory dir("millrace-test");
  std::atomic<int> failures{0};
  std::vector<std::thread> writers;
  for (int thread = 0; thread < 4; ++thread)
    writers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Status written =
            write_directory_atomically(dir.path() / "d", [](const fs::path& temporary) -> Status {
              MILLRACE_TRY(write_new_file(temporary / "one", "1"));
              return write_new_file(temporary / "two", "2");
            });
        if (!written.ok()) ++failures;
      }
    });
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(entries(dir.path()), 1U);
  EXPECT_EQ(entries(dir.path() / "d"), 2U);
}

}  // namespace
}  // namespace millrace::test_file
