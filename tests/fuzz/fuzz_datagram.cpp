// Feeds arbitrary datagrams to the parser of UDP links and to both ends of a channel, which must not crash, exceed the
// plan's credits, or send a datagram that the parser refuses.
//
// The first input byte selects options. If bit 0 is set, magic, version and CRCs are corrected, so that the input
// reaches the code after those checks. If bit 1 is set, the channels are brought up first. The rest is a series of
// records: a u16 length, a datagram of that length, and a u8 number of milliseconds that pass.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/link/cable_end.hpp"
#include "runtime/link/checksum.hpp"

namespace {

using namespace millrace::runtime::link;

constexpr std::uint32_t kPacketBytes = 48, kCredits = 5;
constexpr std::uint8_t kTag = 0;

void require(bool holds) {
  if (!holds) std::abort();
}

void repair(std::span<std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return;
  const auto store = [&](std::size_t at, std::uint32_t value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  std::memcpy(bytes.data(), "MRLK\2", 5);
  store(56, crc32c(bytes.subspan(kHeaderBytes)));
  store(60, crc32c(bytes.first(60)));
}

/// An end of a cable with a sender and a receiver, both with tag 0.
class Bench {
 public:
  Bench()
      : sender_(end_.add_sender(kTag, kPacketBytes, kCredits, {})),
        receiver_(end_.add_receiver(kTag, kPacketBytes, kCredits, {})) {
    sender_.start(1, 1, now_);
    receiver_.start(1, 1);
  }

  void bring_up() {
    Datagram d;
    d.type = Type::kReceiverOpened;
    d.channel = {1, 2, kTag};
    d.generation = d.epoch = d.incarnation = 1;
    give(d);
    d.type = Type::kState;
    d.limit = kCredits;
    give(d);
    d.type = Type::kGreeting;
    d.channel = {2, 1, kTag};
    d.limit = 0;
    d.packet_bytes = kPacketBytes;
    d.credits = kCredits;
    give(d);
    require(sender_.credit() == kCredits);
  }

  void receive(std::span<const std::byte> bytes) {
    Datagram read;
    if (parse(bytes, read) == Refusal::kNone) {
      std::array<std::byte, kHeaderBytes> header{};
      encode_header(read, header);
      require(std::equal(header.begin(), header.end(), bytes.begin()));
    }
    end_.receive(bytes, true, now_);
  }

  void work(std::chrono::milliseconds passed) {
    now_ += passed;
    require(sender_.credit() <= kCredits);
    const std::array<std::byte, 20> payload{};
    sender_.push(1, 0, false, payload);
    std::size_t sent = 0;
    for (auto bytes = end_.next_datagram(now_); !bytes.empty(); bytes = end_.next_datagram(now_)) {
      Datagram read;
      require(parse(bytes, read) == Refusal::kNone);
      require(++sent <= 2 * kCredits + 5);
    }
    Packet packet;
    for (std::uint32_t taken = 0; receiver_.peek(packet); ++taken) {
      require(taken < kCredits && !packet.payload.empty() && packet.payload.size() <= kPacketBytes);
      receiver_.take();
    }
  }

 private:
  void give(const Datagram& d) {
    std::array<std::byte, kHeaderBytes> bytes{};
    encode_header(d, bytes);
    receive(bytes);
  }

  CableEnd end_{1, 2};
  Sender& sender_;
  Receiver& receiver_;
  Time now_{std::chrono::hours(1000)};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool repaired = (data[0] & 1U) != 0;
  Bench bench;
  if ((data[0] & 2U) != 0) bench.bring_up();
  std::span<const std::uint8_t> rest(data + 1, size - 1);
  while (rest.size() > 3) {
    const std::size_t length = std::min(rest[0] + std::size_t{256} * rest[1], rest.size() - 3);
    const auto from = std::as_bytes(rest.subspan(2, length));
    std::vector<std::byte> bytes(from.begin(), from.end());  // copied, so that ASan detects overreads
    if (repaired) repair(bytes);
    bench.receive(bytes);
    bench.work(std::chrono::milliseconds(rest[2 + length]));
    rest = rest.subspan(3 + length);
  }
  return 0;
}
