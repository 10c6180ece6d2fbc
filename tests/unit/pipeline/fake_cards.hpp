// Fake cards for tests. A card computes with kernels/reference inside the call that supplies the last input. A test can
// stall a card, kill it, or choose the operation at which it dies. Links use the rows of the link tables and the
// cables, so a frame gets no result if the wrong cards or cables were chosen.
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

  /// Returns the plan as a loaded deployment. The bytes of an FPGA image are the image's name.
  std::shared_ptr<const runtime::plan::LoadedDeployment> deployment() const;

  void kill(std::uint32_t card);
  /// Stalls a card or ends the stall. A stalled card accepts no frames.
  void stall(std::uint32_t card, bool stalled);
  /// While `held` is true, ingress runs of the card do not end, although the card has read their data.
  void hold_ingress(std::uint32_t card, bool held);
  /// Makes the card hang until it is loaded again: it answers register accesses, but neither accepts nor returns frames
  /// and does not flush.
  void hang(std::uint32_t card);
  /// While `hung` is true, reading a register of the card blocks.
  void hang_registers(std::uint32_t card, bool hung);
  /// While `down` is true, no cable is up, so the ends of links do not see each other.
  void take_cables_down(bool down);
  /// Sets the steps of Card::reset() that the card supports; at first none. Each of them ends a hang.
  void support_resets(std::uint32_t card, std::set<runtime::card::ResetStep> steps);
  /// Returns the steps of all calls of Card::reset(), supported or not, in their order.
  std::vector<runtime::card::ResetStep> tried_resets(std::uint32_t card);
  enum class Flaw { kNone, kWrongResults, kNoResults };
  /// Makes the card compute wrong results, or lose all frames, until a reset that it supports.
  void set_flaw(std::uint32_t card, Flaw flaw);
  /// Makes the card lose its next frame without dying. The egress run ends as dropped.
  void drop_next(std::uint32_t card);
  /// Alters the next status trailer (which follows a frame's payload) that is fetched from the card.
  using Change = std::function<void(runtime::plan::abi::StatusTrailer&)>;
  void change_next_trailer(std::uint32_t card, Change change);
  /// Makes the card report this fault: the run of its supervisor (the unit that reports faults) ends.
  /// The next `times` - 1 runs of the supervisor end with the same report as soon as they start.
  void report_fault(std::uint32_t card, const runtime::plan::abi::FaultReport& fault,
                    std::uint32_t times = 1);
  /// Makes the next `times` loads of the card fail.
  void refuse_loads(std::uint32_t card, std::uint32_t times);
  std::uint32_t refusals_left(std::uint32_t card);
  /// Kills the card that performs the Nth operation from now on; 0 kills none.
  void die_at(std::uint64_t operation);
  std::uint64_t operations();
  std::uint32_t loads(std::uint32_t card);
  /// Returns how often parameters were loaded into partitions of the card. A partition that needs parameters computes
  /// nothing without them.
  std::uint32_t parameter_loads(std::uint32_t card);

 private:
  friend class FakeCard;
  friend class FakeIngress;
  friend class FakeEgress;

  using Stamp = std::pair<std::uint32_t, std::uint64_t>;  // the epoch and the sequence number of a frame
  using Bytes = std::vector<std::byte>;

  struct Run {
    runtime::card::RunState state = runtime::card::RunState::kDone;
    Stamp stamp;
    Bytes data;  // the input of an ingress run, the results of an egress run
    bool dropped = false;
  };
  struct Unit {
    std::string partition, port;
    bool egress = false;
    std::map<std::uint32_t, Run> runs;  // the runs by slot
    std::map<Stamp, Bytes> results;     // for egress: results that no run has fetched yet
  };
  struct State {
    bool alive = false, stalled = false, open = false, drop = false, supervised = false, hung = false,
         held = false, registers_hung = false;
    Flaw flaw = Flaw::kNone;
    std::uint32_t refuse = 0, faults = 0, loads = 0, parameter_loads = 0;
    std::set<runtime::card::ResetStep> resets;
    std::vector<runtime::card::ResetStep> tried_resets;
    std::map<std::string, Bytes> parameters;  // by unit, loaded since the last programming
    runtime::plan::abi::FaultReport fault;
    Change change_trailer;
    std::string image;
    std::map<std::string, Unit> units;
    std::map<std::uint32_t, std::uint32_t> registers;
    std::map<std::string, std::map<Stamp, std::map<std::string, Bytes>>>
        inputs;  // by partition, frame and port
  };

  // The following functions are called with mutex_ held.
  bool cable_is_up(std::uint32_t card, std::uint32_t status_register);
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
  bool cables_down_ = false;
};

}  // namespace millrace::tests
