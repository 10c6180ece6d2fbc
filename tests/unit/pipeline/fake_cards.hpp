// Cards that are not there: they compute at once, with kernels/reference, inside the call that brings the
// last input. They can be stalled, killed, and told to die at their Nth operation. Links follow the rows and
// cables, so that a wrong binding gives no result.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/pipeline/fleet.hpp"
#include "runtime/plan/image_abi.hpp"
#include "tests/unit/pipeline/plans.hpp"

namespace millrace::tests {

class FakeWorld {
 public:
  FakeWorld(Plan plan, runtime::plan::Cluster cluster);

  runtime::pipeline::CardSource source();
  const Plan& plan() const { return plan_; }
  const runtime::plan::Cluster& cluster() const { return cluster_; }

  /// What the engine is given as bytes of an image: its name.
  runtime::pipeline::Images images() const;

  void kill(std::uint32_t card);
  /// A stalled card takes frames in only when it is released.
  void stall(std::uint32_t card, bool stalled);
  /// Ingress runs of the card stay running although what they bring is taken in, until they are let go.
  void hold_ingress(std::uint32_t card, bool held);
  /// Until it is loaded again the card answers, but takes nothing in, gives nothing out and flushes nothing.
  void hang(std::uint32_t card);
  /// Who reads a register of the card waits until it is let go.
  void hang_registers(std::uint32_t card, bool hung);
  /// The card loses what it is given next (an egress run ends as dropped) without dying.
  void drop_next(std::uint32_t card);
  /// The next trailer that is fetched from the card has gone through this.
  using Change = std::function<void(runtime::plan::abi::StatusTrailer&)>;
  void change_next_trailer(std::uint32_t card, Change change);
  /// The card's supervisor ends with this.
  void report_fault(std::uint32_t card, const runtime::plan::abi::FaultReport& fault);
  /// That many further loads of the card fail.
  void refuse_loads(std::uint32_t card, std::uint32_t times);
  std::uint32_t refusals_left(std::uint32_t card);
  /// The card that does the Nth operation from now on dies of it; 0: none does.
  void die_at(std::uint64_t operation);
  std::uint64_t operations();
  std::uint32_t loads(std::uint32_t card);
  /// Times a partition of the card was given parameters; one that takes them computes nothing before.
  std::uint32_t gifts(std::uint32_t card);

 private:
  friend class FakeCard;
  friend class FakeIngress;
  friend class FakeEgress;

  using Stamp = std::pair<std::uint32_t, std::uint64_t>;  // epoch, sequence
  using Bytes = std::vector<std::byte>;

  struct Run {
    runtime::card::RunState state = runtime::card::RunState::kDone;
    Stamp stamp;
    Bytes data;  // ingress: what it brings; egress: what came
    bool dropped = false;
  };
  struct Unit {
    std::string partition, port;
    bool egress = false;
    std::map<std::uint32_t, Run> runs;  // by slot
    std::map<Stamp, Bytes> results;     // egress: not yet asked for
  };
  struct State {
    bool alive = false, stalled = false, open = false, drop = false, supervised = false, hung = false,
         held = false, registers_hung = false;
    std::uint32_t refuse = 0, loads = 0, gifts = 0;
    std::map<std::string, Bytes> parameters;  // by unit, since the image was programmed
    runtime::plan::abi::FaultReport fault;
    Change change_trailer;
    std::string image;
    std::map<std::string, Unit> units;
    std::map<std::uint32_t, std::uint32_t> registers;
    std::map<std::string, std::map<Stamp, std::map<std::string, Bytes>>>
        inputs;  // partition -> frame -> port
  };

  // All with mutex_ held.
  bool operate(std::uint32_t card);
  void die(std::uint32_t card);
  std::uint32_t epoch(std::uint32_t card);
  void deliver(std::uint32_t card, const std::string& partition, const std::string& port, Stamp stamp,
               Bytes data);
  void send(std::uint32_t card, std::uint32_t row, Stamp stamp, const Bytes& data);
  void match(std::uint32_t card);
  void flush(std::uint32_t card);

  const Plan plan_;
  const runtime::plan::Cluster cluster_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> cards_;
  std::uint64_t operations_ = 0, fatal_ = 0;
};

}  // namespace millrace::tests
