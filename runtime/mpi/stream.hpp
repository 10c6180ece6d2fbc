// One direction of a channel between two ranks. A message is a FrameHeader and a payload of a fixed size. Messages
// arrive in the order in which they were sent. All requests are persistent: a message allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "runtime/mpi/session.hpp"
#include "runtime/mpi/wire.hpp"

namespace millrace::runtime::mpi {

/// The sending end. Each slot has a buffer and a request. A slot belongs to one thread at a time.
class Sender {
 public:
  Sender(int to, int tag, std::size_t payload_bytes, std::uint32_t slots);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// The slot's buffer. Do not write to it while busy(slot).
  std::span<std::byte> payload(std::uint32_t slot);
  /// Whether the slot's last message still uses its buffer. Does not wait.
  bool busy(std::uint32_t slot);
  /// Starts to send the slot's buffer. The slot must not be busy. Returns kUnavailable if MPI reports an error.
  Status send(const FrameHeader& header);

 private:
  struct Requests;
  const std::size_t payload_bytes_, stride_;
  Bytes buffers_;
  std::unique_ptr<Requests> requests_;
};

/// The receiving end, with `buffers` buffers. A buffer that holds a message is not used again until release().
class Receiver final : public Pollable {
 public:
  /// Handles a message; called inside poll(). Must not block.
  using Handler = std::function<void(const FrameHeader& header, std::span<const std::byte> payload,
                                     std::uint32_t buffer)>;
  Receiver(int from, int tag, std::size_t payload_bytes, std::uint32_t buffers, Handler handler);
  ~Receiver() override;
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  bool poll() override;
  /// Lets MPI write to the buffer again. Any thread may call it, also the handler.
  void release(std::uint32_t buffer);
  std::span<const std::byte> payload(std::uint32_t buffer) const;

 private:
  struct Requests;
  const std::size_t payload_bytes_, stride_;
  const Handler handler_;
  Bytes buffers_;
  std::unique_ptr<Requests> requests_;
  std::mutex mutex_;
  std::deque<std::uint32_t>
      posted_;  // buffers in the order in which messages will fill them; protected by mutex_
};

}  // namespace millrace::runtime::mpi
