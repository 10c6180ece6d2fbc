// A file descriptor that its owner closes.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace millrace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}  // negative: none
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  int get() const { return fd_; }
  /// The object must not hold a descriptor.
  void reset(int fd) { fd_ = fd; }
  /// Closes the descriptor and returns 0 or errno. Some file systems report a full disk only here.
  int close() {
    const int result = ::close(fd_) == 0 ? 0 : errno;
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

}  // namespace millrace
