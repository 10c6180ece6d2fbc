// Fake cards for tests. A card computes with kernels/reference inside the call that brings its last input. It
// can be stalled, killed, or told to die at its Nth operation. Links follow the rows and cables, so a wrong
// binding gives no result.
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

  /// The plan as a loaded deployment. The bytes of each image are its name.
  std::shared_ptr<const runtime::plan::LoadedDeployment> deployment() const;

  void kill(std::uint32_t card);
  /// While a card is stalled, it takes in no frames.
  void stall(std::uint32_t card, bool stalled);
  /// While `held`, ingress runs of the card stay running although their data are taken in.
  void hold_ingress(std::uint32_t card, bool held);
  /// The card hangs: it still answers register accesses, but neither takes nor returns frames and flushes
  /// nothing, until it is loaded again.
  void hang(std::uint32_t card);
  /// While `hung`, reading a register of the card blocks.
  void hang_registers(std::uint32_t card, bool hung);
  /// The card loses its next frame without dying; the egress run ends as dropped.
  void drop_next(std::uint32_t card);
  /// Alters the next trailer that is fetched from the card.
  using Change = std::function<void(runtime::plan::abi::StatusTrailer&)>;
  void change_next_trailer(std::uint32_t card, Change change);
  /// Ends the run of the card's supervisor with this fault.
  void report_fault(std::uint32_t card, const runtime::plan::abi::FaultReport& fault);
  /// The next `times` loads of the card fail.
  void refuse_loads(std::uint32_t card, std::uint32_t times);
  std::uint32_t refusals_left(std::uint32_t card);
  /// Kills the card that performs the Nth operation from now on; 0 kills none.
  void die_at(std::uint64_t operation);
  std::uint64_t operations();
  std::uint32_t loads(std::uint32_t card);
  /// How often a partition of the card was given parameters. A partition that takes parameters computes
  /// nothing before it has them.
  std::uint32_t parameter_loads(std::uint32_t card);

 private:
  friend class FakeCard;
  friend class FakeIngress;
  friend class FakeEgress;

  using Stamp = std::pair<std::uint32_t, std::uint64_t>;  // epoch, sequence
  using Bytes = std::vector<std::byte>;

  struct Run {
    runtime::card::RunState state = runtime::card::RunState::kDone;
    Stamp stamp;
    Bytes data;  // ingress: input data; egress: results
    bool dropped = false;
  };
  struct Unit {
    std::string partition, port;
    bool egress = false;
    std::map<std::uint32_t, Run> runs;  // by slot
    std::map<Stamp, Bytes> results;     // egress: results that no run has fetched yet
  };
  struct State {
    bool alive = false, stalled = false, open = false, drop = false, supervised = false, hung = false,
         held = false, registers_hung = false;
    std::uint32_t refuse = 0, loads = 0, parameter_loads = 0;
    std::map<std::string, Bytes> parameters;  // by unit, given since the image was programmed
    runtime::plan::abi::FaultReport fault;
    Change change_trailer;
    std::string image;
    std::map<std::string, Unit> units;
    std::map<std::uint32_t, std::uint32_t> registers;
    std::map<std::string, std::map<Stamp, std::map<std::string, Bytes>>>
        inputs;  // partition -> frame -> port
  };

  // These functions require mutex_.
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
