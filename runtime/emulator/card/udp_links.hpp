// The UDP cables of an emulated card. Each cable has a socket on the host's network and a thread that runs the protocol
// (runtime/link), so that a link keeps its deadlines while the card computes, as link hardware does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/emulator/protocol.hpp"
#include "runtime/link/udp_cable.hpp"

namespace millrace::runtime::emulator {

/// One end of a UDP cable: a socket and its thread. Any thread may call any function.
class UdpEnd {
 public:
  /// Opens the socket of end `end` of a cable and publishes its port in the memory that all cards share (`fabric`). The
  /// thread rings `doorbell` when something has arrived. `fabric` must outlive the object.
  static Result<std::unique_ptr<UdpEnd>> open(Fabric& fabric, std::uint32_t cable, std::uint32_t end,
                                              Doorbell& doorbell);
  ~UdpEnd();
  UdpEnd(const UdpEnd&) = delete;
  UdpEnd& operator=(const UdpEnd&) = delete;

  /// Calls `action(link::CableEnd&, link::Time)` while no other thread uses the cable. Then sends the datagrams that
  /// are due.
  template <class Action>
  auto with(Action action) {
    const std::lock_guard lock(mutex_);
    const link::Time now = link::Clock::now();
    if constexpr (std::is_void_v<decltype(action(cable_->end(), now))>) {
      action(cable_->end(), now);
      send(now);
    } else {
      auto result = action(cable_->end(), now);
      send(now);
      return result;
    }
  }

  /// Calls `action(link::CableEnd&, link::Time)` like with(), but sends nothing.
  template <class Action>
  auto look(Action action) {
    const std::lock_guard lock(mutex_);
    return action(cable_->end(), link::Clock::now());
  }

  /// Whether a link of this cable may have a fault to report. Takes no lock, so that the card can ask often.
  bool has_trouble() const { return trouble_.load(std::memory_order_acquire); }
  /// Returns why the thread that serves the cable has ended, or an empty text while it serves.
  std::string failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  UdpEnd(Fabric& fabric, std::uint32_t cable, std::uint32_t end, Doorbell& doorbell,
         std::unique_ptr<link::UdpCable> socket, int timer);
  void serve();
  void read_fabric(link::Time now);
  void send(link::Time now);

  Fabric& fabric_;
  const std::uint32_t cable_index_, end_;
  Doorbell& doorbell_;
  const int timer_;

  std::mutex mutex_;
  std::unique_ptr<link::UdpCable> cable_;
  link::Time armed_ = link::Time::max();  // when the timer wakes the thread
  std::uint32_t faults_version_ = 0;      // version of the faults that the cable has now
  bool stopping_ = false;
  std::string failure_;  // why serve() has ended, although the object lives
  std::atomic<bool> trouble_{false};
  std::thread thread_;
};

/// One end of a channel on a UDP cable, in service from construction to destruction. Only the card's main thread may use
/// it.
class UdpChannel {
 public:
  struct Settings {
    bool sends = false;
    std::uint32_t tag = 0, packet_bytes = 0, credits = 0;
    std::uint32_t generation = 0;  // for receivers: the incarnation
    std::uint32_t epoch = 0;
  };
  /// No other channel of `end` in service may have the same tag and direction.
  UdpChannel(std::shared_ptr<UdpEnd> end, const Settings& settings);
  ~UdpChannel();
  UdpChannel(const UdpChannel&) = delete;
  UdpChannel& operator=(const UdpChannel&) = delete;

  void set_epoch(std::uint32_t epoch);

  /// For senders: sends packets of `frame` from byte `sent` on, as far as credit allows, and advances `sent`.
  /// Returns the number of packets sent.
  std::uint32_t send(std::uint32_t epoch, std::uint64_t sequence, std::span<const std::byte> frame,
                     std::uint64_t& sent);

  /// For receivers: removes the next packet, whose bytes are then in payload(). Returns false if none has arrived.
  bool take(PacketHeader& header);
  const std::byte* payload() const { return payload_.data(); }
  /// Lets the sender know of the packets that were taken. Called once after one or several calls of take().
  void give_credit();

  struct Report {
    link::LinkState state = link::LinkState::kDown;
    link::Violation violation = link::Violation::kNone;
    std::uint64_t repeats = 0, losses = 0, damaged = 0, dropped = 0;  // damaged, dropped: on the whole cable
  };
  Report report();
  /// Whether report() or failure() may tell of a fault. Takes no lock.
  bool has_trouble() const { return end_->has_trouble(); }
  /// Returns why the cable's thread has ended, or an empty text while it serves the cable.
  std::string failure() { return end_->failure(); }

 private:
  const std::shared_ptr<UdpEnd> end_;
  const std::uint32_t packet_bytes_;
  link::Sender* sender_ = nullptr;  // either sender_ or receiver_ is set
  link::Receiver* receiver_ = nullptr;
  std::vector<std::byte> payload_;
};

/// The ends of UDP cables at a card, opened when they are first used.
class UdpLinks {
 public:
  UdpLinks(Fabric& fabric, std::uint32_t card) : fabric_(fabric), card_(card) {}

  /// Returns end `end` of the cable. Opens it anew if its thread has ended. Only the card's main thread may call it.
  Result<std::shared_ptr<UdpEnd>> find(std::uint32_t cable, std::uint32_t end);

 private:
  Fabric& fabric_;
  const std::uint32_t card_;
  std::map<std::uint32_t, std::shared_ptr<UdpEnd>> ends_;  // by cable
};

}  // namespace millrace::runtime::emulator
