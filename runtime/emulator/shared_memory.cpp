#include "runtime/emulator/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace millrace::runtime::emulator {

namespace {

Error refused(const char* what) {
  return Error(ErrorCode::kResourceExhausted,
               std::string("shared memory for emulated cards: ") + what + ": " + std::strerror(errno));
}

std::byte* map(int descriptor, std::uint64_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const char* name, std::uint64_t bytes) {
  SharedMemory memory;
  memory.descriptor_ = memfd_create(name, MFD_CLOEXEC);
  if (memory.descriptor_ < 0) return refused("memfd_create");
  if (ftruncate(memory.descriptor_, static_cast<off_t>(bytes)) != 0) return refused("ftruncate");
  memory.data_ = map(memory.descriptor_, bytes);
  if (memory.data_ == nullptr) return refused("mmap");
  memory.bytes_ = bytes;
  return memory;
}

Result<SharedMemory> SharedMemory::open(int descriptor) {
  SharedMemory memory;
  memory.descriptor_ = descriptor;
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return refused("fstat");
  if (status.st_size == 0) return memory;
  memory.data_ = map(descriptor, static_cast<std::uint64_t>(status.st_size));
  if (memory.data_ == nullptr) return refused("mmap");
  memory.bytes_ = static_cast<std::uint64_t>(status.st_size);
  return memory;
}

void SharedMemory::discard(std::uint64_t offset, std::uint64_t length) const {
  (void)fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(length));
}

void SharedMemory::reset() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
  data_ = nullptr;
  bytes_ = 0;
  descriptor_ = -1;
}

}  // namespace millrace::runtime::emulator
