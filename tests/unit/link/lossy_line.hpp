// Two ends of a channel in simulated time, joined by a network that loses, repeats, reorders and damages datagrams.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/link/cable_end.hpp"
#include "runtime/link/impairment.hpp"

namespace millrace::runtime::link {

using namespace std::chrono_literals;

/// A sender on endpoint 1 and a receiver on endpoint 2. Time passes only in run().
class LossyLine {
 public:
  LossyLine(std::uint32_t packet_bytes, std::uint32_t credits, const Impairment& impairment,
            std::uint32_t seed = 1, const Timing& timing = {})
      : sender(near.add_sender(kTag, packet_bytes, credits, timing)),
        receiver(far.add_receiver(kTag, packet_bytes, credits, timing)),
        forth(seed),
        back(seed + 1) {
    impair(impairment);
  }

  void impair(const Impairment& impairment) {
    forth.set(impairment, now);
    back.set(impairment, now);
  }

  /// Lets time pass. After each event, calls `act`. Stops when `act` returns true, or after `limit`. Returns whether
  /// `act` returned true.
  bool run(std::chrono::milliseconds limit, const std::function<bool()>& act) {
    const Time end = now + limit;
    for (;;) {
      if (act()) return true;
      if (exchange()) continue;
      const Time next = std::min({near.next_time(), far.next_time(), forth.next_time(), back.next_time()});
      if (std::min(next, end) >= end) {
        now = end;
        return act();
      }
      now = std::max(next, now + 1us);
    }
  }

  static constexpr std::uint8_t kTag = 4;
  CableEnd near{1, 2}, far{2, 1};
  Sender& sender;
  Receiver& receiver;
  Impairer forth, back;
  Time now{1000h};

 private:
  bool exchange() {
    bool moved = false;
    for (auto d = near.next_datagram(now); !d.empty(); d = near.next_datagram(now), moved = true)
      forth.accept(d, now);
    for (auto d = far.next_datagram(now); !d.empty(); d = far.next_datagram(now), moved = true)
      back.accept(d, now);
    for (auto d = forth.next(now); !d.empty(); d = forth.next(now), moved = true) far.receive(d, true, now);
    for (auto d = back.next(now); !d.empty(); d = back.next(now), moved = true) near.receive(d, true, now);
    return moved;
  }
};

}  // namespace millrace::runtime::link
