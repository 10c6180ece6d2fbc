#include "runtime/mpi/stream.hpp"

#include <cstring>
#include <vector>

#include "runtime/mpi/communicator.hpp"

namespace millrace::runtime::mpi {
namespace {

constexpr std::size_t kAlignment = 64;

constexpr std::size_t stride_of(std::size_t payload_bytes) {
  return (kPayloadOffset + payload_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int message_bytes(std::size_t payload_bytes) {
  return static_cast<int>(kPayloadOffset + payload_bytes);
}

}  // namespace

struct Sender::Requests {
  std::vector<MPI_Request> all;
};

Sender::Sender(int to, int tag, std::size_t payload_bytes, std::uint32_t slots)
    : payload_bytes_(payload_bytes),
      stride_(stride_of(payload_bytes)),
      buffers_(stride_ * slots),
      requests_(std::make_unique<Requests>()) {
  requests_->all.resize(slots, MPI_REQUEST_NULL);
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    MPI_Send_init(buffers_.data() + slot * stride_, message_bytes(payload_bytes), MPI_BYTE, to, tag,
                  communicator(), &requests_->all[slot]);
}

Sender::~Sender() {
  bool sending = false;
  for (std::uint32_t slot = 0; slot < requests_->all.size(); ++slot) sending = busy(slot) || sending;
  // MPI cannot cancel a message to a rank that is lost, and may read the buffers until the end of the job. So
  // never free buffers that are still being sent.
  if (sending) static_cast<void>(new Bytes(std::move(buffers_)));
  for (MPI_Request& request : requests_->all) MPI_Request_free(&request);
}

std::span<std::byte> Sender::payload(std::uint32_t slot) {
  return std::span(buffers_).subspan(slot * stride_ + kPayloadOffset, payload_bytes_);
}

bool Sender::busy(std::uint32_t slot) {
  int done = 0;
  return MPI_Test(&requests_->all[slot], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0;
}

Status Sender::send(const FrameHeader& header) {
  std::memcpy(buffers_.data() + header.slot * stride_, &header, sizeof header);
  if (MPI_Start(&requests_->all[header.slot]) != MPI_SUCCESS)
    return Error(ErrorCode::kUnavailable, "MPI cannot send a frame: the other rank is lost");
  return {};
}

struct Receiver::Requests {
  std::vector<MPI_Request> all;
};

Receiver::Receiver(int from, int tag, std::size_t payload_bytes, std::uint32_t buffers, Handler handler)
    : payload_bytes_(payload_bytes),
      stride_(stride_of(payload_bytes)),
      handler_(std::move(handler)),
      buffers_(stride_ * buffers),
      requests_(std::make_unique<Requests>()) {
  requests_->all.resize(buffers, MPI_REQUEST_NULL);
  for (std::uint32_t buffer = 0; buffer < buffers; ++buffer) {
    MPI_Recv_init(buffers_.data() + buffer * stride_, message_bytes(payload_bytes), MPI_BYTE, from, tag,
                  communicator(), &requests_->all[buffer]);
    release(buffer);
  }
}

Receiver::~Receiver() {
  for (MPI_Request& request : requests_->all) {
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);  // a cancelled receive is complete at once
    }
    MPI_Request_free(&request);
  }
}

bool Receiver::poll() {
  std::uint32_t buffer = 0;
  {
    const std::lock_guard lock(mutex_);
    if (posted_.empty()) return false;
    buffer = posted_.front();
    int done = 0;
    if (MPI_Test(&requests_->all[buffer], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0) return false;
    posted_.pop_front();
  }
  FrameHeader header;
  std::memcpy(&header, buffers_.data() + buffer * stride_, sizeof header);
  handler_(header, payload(buffer), buffer);
  return true;
}

void Receiver::release(std::uint32_t buffer) {
  const std::lock_guard lock(mutex_);
  if (MPI_Start(&requests_->all[buffer]) == MPI_SUCCESS) posted_.push_back(buffer);
}

std::span<const std::byte> Receiver::payload(std::uint32_t buffer) const {
  return std::span(buffers_).subspan(buffer * stride_ + kPayloadOffset, payload_bytes_);
}

}  // namespace millrace::runtime::mpi
