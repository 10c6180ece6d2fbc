// Bench of the shell, in which the bench simulates host, memory and dataflow. Registers and trailers must be as
// image_abi.hpp defines them.
//
// A script is a series of runs: frames in order, frames that the host never asks for, frames that the host asks for too
// late, runs of a stale epoch, and changes of the epoch at random moments in mid-frame. Every run must complete, either
// with its frame or as dropped. After a change of epoch, frames must flow again and no frame of the old epoch may come
// out.
//
// The file is above 500 lines because all parts of the bench share the state of one row, which is an instance of the
// tested module with its own parameters.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

#include "kernels/tb/axi.hpp"
#include "kernels/tb/integers.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::kernels::tb {
namespace {

namespace abi = runtime::plan::abi;

constexpr std::size_t kSlots = 4;
constexpr std::uint8_t kGuard = 0xa5;

/// The form of the elements of an input or output, both on the stream and in memory.
struct Side {
  Side(const Parameters& p, const std::string& prefix)
      : lanes(static_cast<unsigned>(p[prefix + "LANES"])),
        bytes(static_cast<unsigned>(p[prefix + "EBYTES"])),
        type(element_type(p[prefix + "KIND"], p[prefix + "BITS"])) {}
  unsigned lanes, bytes;
  ElementType type;
};

struct Run {
  std::uint32_t epoch = 0;
  std::uint64_t sequence = 0;
  std::size_t slot = 0;
};

class ShellRow {
 public:
  ShellRow(const Parameters& parameters, Ports& ports, std::uint64_t seed, int rounds)
      : clk(ports.at("clk")),
        parameters_(parameters),
        ports_(ports),
        rng_(seed),
        in_(parameters, "I_"),
        out_(parameters, "O_"),
        in_elements_(in_.lanes * static_cast<unsigned>(rng_.between(3, 150))),
        out_elements_(out_.lanes * static_cast<unsigned>(rng_.between(3, 150))),
        rounds_(rounds * 12),
        in_stride_((std::size_t{in_elements_} * in_.bytes + 127) / 64 * 64),
        out_stride_(abi::egress_buffer_bytes(std::uint64_t{out_elements_} * out_.bytes) + 64),
        memory_(ports, "axi_", 0x7'4000'0000u - 64u * static_cast<unsigned>(rng_.between(1, 8)),
                kSlots * (in_stride_ + out_stride_), static_cast<unsigned>(parameters["BURST"]), rng_,
                report()),
        ingress_(ports, "ingress", rng_, report()),
        egress_(ports, "egress", rng_, report()),
        control_(ports, "control", rng_, report()),
        reports_(ports, "supervisor_axi_", 0x2'0000'0000u, 128, 64, rng_, report()),
        supervisor_(ports, "supervisor", rng_, report()) {}

  Port clk;
  bool finished() const { return stage_ == Stage::kFinished; }
  int failures() const { return failures_; }
  void drive();
  void sample();
  void print() const {
    std::printf("  %-8s %s: %u frames delivered, %u dropped, %u epochs, %" PRIu64 " cycles\n",
                parameters_.row().c_str(), failures_ == 0 ? "ok" : "FAILED", delivered_, dropped_, epoch_,
                cycle_);
  }

 private:
  enum class Stage { kReset, kRunning, kNewEpoch, kCounters, kStop, kFault, kMended, kFinished };

  Report report() {
    return [this](const std::string& what) {
      if (++failures_ <= 8)
        std::printf("  %s: cycle %" PRIu64 ": %s\n", parameters_.row().c_str(), cycle_, what.c_str());
    };
  }
  void fail(const std::string& what) { report()(what); }

  std::int64_t element(std::uint32_t epoch, std::uint64_t sequence, std::size_t i) const {
    const std::int64_t span = in_.type.highest() - in_.type.lowest() + 1;
    if (in_.type.kind == ElementType::Kind::kBipolar)
      return (sequence * 7 + i * 3 + epoch + i / 5) % 2 == 0 ? 1 : -1;
    return in_.type.lowest() + static_cast<std::int64_t>((sequence * 131 + i * 29 + epoch * 17 + i / 7) %
                                                         static_cast<std::uint64_t>(span));
  }
  /// Returns what the bench's dataflow computes from a frame.
  Values computed(const Values& frame) const {
    Values result(out_elements_);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::int64_t x = frame[i % frame.size()] * 3 + static_cast<std::int64_t>(i);
      if (out_.type.kind == ElementType::Kind::kBipolar)
        result[i] = x % 2 == 0 ? 1 : -1;
      else if (out_.type.kind == ElementType::Kind::kUnsigned)
        result[i] = x & out_.type.highest();
      else
        result[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << (64 - out_.type.bits)) >>
                    (64 - out_.type.bits);
    }
    return result;
  }
  Values frame_of(const Run& run) const {
    Values values(in_elements_);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(run.epoch, run.sequence, i);
    return values;
  }

  std::size_t in_at(const Run& run) const { return run.slot * in_stride_; }
  std::size_t out_at(const Run& run) const { return kSlots * in_stride_ + run.slot * out_stride_; }

  void begin_script();
  void run_script();
  void read_counters();
  void advance();
  void start(RegisterMaster& unit, const Run& run, bool ingress);
  void poll(RegisterMaster& unit, bool ingress);
  void complete(bool ingress);
  void check_frame(const Run& run);
  void one_frame(std::uint64_t sequence);
  void fault();
  void supervise();
  void poll_supervisor();
  void check_report(abi::FaultCode code);
  void dataflow();

  const Parameters& parameters_;
  Ports& ports_;
  Rng rng_;
  Side in_, out_;
  unsigned in_elements_, out_elements_;
  int rounds_;
  std::size_t in_stride_, out_stride_;
  Memory memory_;
  RegisterMaster ingress_, egress_, control_;
  Memory reports_;
  RegisterMaster supervisor_;
  bool reported_ = false;
  unsigned faults_ = 0;

  Stage stage_ = Stage::kReset;
  std::uint64_t cycle_ = 0, quiet_ = 0, change_at_ = 0, fetch_from_ = 0;
  std::uint32_t epoch_ = 0;
  std::deque<Run> to_feed_, to_fetch_;  // runs that were not yet started
  bool feeding_ = false, fetching_ = false;
  std::map<std::uint64_t, bool>
      must_arrive_;  // sequence number -> whether the frame must arrive; of this script
  bool script_disturbed_ = false;

  Values arriving_;
  std::deque<Beat> leaving_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> frame_cycles_;  // of first element in, last element out
  std::size_t beats_out_ = 0;
  bool sending_ = false;
  int failures_ = 0;
  unsigned delivered_ = 0, dropped_ = 0;
  std::vector<std::uint64_t> fed_;  // sequence numbers of the frames sent in this epoch, in order
  std::map<std::uint64_t, std::uint64_t> started_at_, ended_at_;
  std::uint64_t next_in_order_ = 0;
};

void ShellRow::begin_script() {
  to_feed_.clear();
  to_fetch_.clear();
  must_arrive_.clear();
  script_disturbed_ = rng_.chance(0.5);
  memory_.pace = rng_.chance(0.3) ? 1.0 : 0.5;
  const auto runs = static_cast<std::uint64_t>(rng_.between(2, kSlots));
  std::uint64_t sequence = static_cast<std::uint64_t>(rng_.between(0, 1'000'000))
                           << (rng_.chance(0.2) ? 24 : 0);
  for (std::uint64_t i = 0; i < runs; ++i, ++sequence) {
    const Run run{epoch_, sequence, i};
    if (rng_.chance(0.1)) {  // a stale epoch: both runs complete, and the frame is dropped
      to_feed_.push_back({epoch_ + 1, sequence, i});
      to_fetch_.push_back({epoch_ + 1, sequence, i});
      continue;
    }
    to_feed_.push_back(run);
    if (i + 1 < runs && rng_.chance(0.2)) continue;  // the host never asks for this frame
    to_fetch_.push_back(run);
    must_arrive_[sequence] = !script_disturbed_;
  }
  if (rng_.chance(0.3) && to_fetch_.size() > 1) {  // ask for a frame again after the frame has left
    // Only when a later frame arrives can the port tell that the requested frame will not come.
    to_fetch_.insert(to_fetch_.begin() + 1, Run{epoch_, to_fetch_.front().sequence, kSlots - 1});
    if (to_fetch_.back().slot == kSlots - 1 || to_fetch_[2].epoch != epoch_)
      to_fetch_.erase(to_fetch_.begin() + 1);
  }
  for (const Run& run : to_feed_) {
    const Values frame = frame_of(run);
    for (std::size_t i = 0; i < frame.size(); ++i)
      std::memcpy(&memory_.content()[in_at(run) + i * in_.bytes], &frame[i], in_.bytes);
  }
  std::fill(memory_.content().begin() + static_cast<std::ptrdiff_t>(kSlots * in_stride_),
            memory_.content().end(), kGuard);
  fetch_from_ = rng_.chance(0.3) ? cycle_ + 4 * in_elements_ + 500 : cycle_;  // wait, so that frames pile up
  change_at_ = cycle_ + static_cast<std::uint64_t>(
                            rng_.between(1, 4 * static_cast<std::int64_t>(in_elements_ + out_elements_)));
}

void ShellRow::start(RegisterMaster& unit, const Run& run, bool ingress) {
  const std::uint64_t buffer = memory_.base() + (ingress ? in_at(run) : out_at(run));
  const std::size_t bytes =
      ingress ? std::size_t{in_elements_} * in_.bytes : std::size_t{out_elements_} * out_.bytes;
  unit.write_argument(0x10, static_cast<std::uint32_t>(buffer));
  unit.write_argument(0x14, static_cast<std::uint32_t>(buffer >> 32));
  unit.write_argument(0x1c, static_cast<std::uint32_t>(bytes));
  unit.write_argument(0x24, run.epoch);
  unit.write_argument(0x2c, static_cast<std::uint32_t>(run.sequence));
  unit.write_argument(0x30, static_cast<std::uint32_t>(run.sequence >> 32));
  unit.write(0x00, 1);
  poll(unit, ingress);
}

void ShellRow::poll(RegisterMaster& unit, bool ingress) {
  unit.read(0x00, [this, &unit, ingress](std::uint32_t control) {
    if ((control & 2u) == 0) return poll(unit, ingress);
    unit.write(0x00, 0x10, [this, ingress] { complete(ingress); });
  });
}

void ShellRow::complete(bool ingress) {
  quiet_ = 0;
  if (ingress) {
    to_feed_.pop_front();
    feeding_ = false;
  } else {
    check_frame(to_fetch_.front());
    to_fetch_.pop_front();
    fetching_ = false;
  }
}

void ShellRow::check_frame(const Run& run) {
  const std::uint8_t* const buffer = &memory_.content()[out_at(run)];
  const std::size_t bytes = std::size_t{out_elements_} * out_.bytes;
  abi::StatusTrailer trailer;
  std::memcpy(&trailer, buffer + abi::trailer_offset(bytes), sizeof trailer);
  const std::string name = "frame " + std::to_string(run.epoch) + "." + std::to_string(run.sequence);
  if (trailer.magic != abi::StatusTrailer{}.magic) fail(name + ": no trailer");
  if (trailer.epoch != run.epoch || trailer.sequence != run.sequence)
    fail(name + ": another frame's trailer");
  if (trailer.flags != 0) fail(name + ": flags set");
  if (buffer[abi::egress_buffer_bytes(bytes)] != kGuard) fail(name + ": written beyond the trailer");
  if (trailer.status == abi::FrameStatus::kDropped) {
    ++dropped_;
    if (trailer.payload_bytes != 0) fail(name + ": dropped, yet with a payload");
    if (const auto must = must_arrive_.find(run.sequence); must != must_arrive_.end() && must->second)
      fail(name + ": dropped");
    return;
  }
  const bool failed = stage_ == Stage::kFault;
  if (trailer.status != (failed ? abi::FrameStatus::kFailed : abi::FrameStatus::kOk))
    fail(name + ": status " + std::to_string(static_cast<unsigned>(trailer.status)));
  if (failed) return;
  ++delivered_;
  if (!must_arrive_.contains(run.sequence)) fail(name + ": delivered, though it cannot be there");
  if (const auto must = must_arrive_.find(run.sequence); must != must_arrive_.end()) must->second = false;
  if (trailer.payload_bytes != bytes) fail(name + ": wrong payload size");
  const Values want = computed(frame_of(run));
  for (std::size_t i = 0; i < want.size(); ++i) {
    std::int64_t got = 0;
    std::memcpy(&got, buffer + i * out_.bytes, out_.bytes);
    const auto shift = static_cast<unsigned>(64 - 8 * out_.bytes);
    const std::uint64_t mask = ~std::uint64_t{0} >> shift;
    if ((static_cast<std::uint64_t>(want[i]) & mask) != static_cast<std::uint64_t>(got)) {
      fail(name + ": element " + std::to_string(i) + " is wrong");
      break;
    }
  }
  for (std::size_t i = bytes; i < abi::trailer_offset(bytes); ++i) {
    if (buffer[i] != 0) {
      fail(name + ": the padding bytes before the trailer are not zero");
      break;
    }
  }
  const std::uint64_t cycles = ended_at_[run.sequence] - started_at_[run.sequence];
  if (trailer.cycles != cycles) {
    fail(name + ": trailer says " + std::to_string(trailer.cycles) + " cycles, it took " +
         std::to_string(cycles));
  }
  if (trailer.stall_cycles > trailer.cycles) fail(name + ": more stalls than cycles");
}

/// Simulates the dataflow: takes a frame in, computes it as a whole, and sends it out. A reset of the flow empties the
/// dataflow.
void ShellRow::dataflow() {
  if (ports_.at("flow_rst").get() != 0) {
    arriving_.clear();
    leaving_.clear();
    sending_ = false;
    beats_out_ = 0;
    frame_cycles_.clear();
    return;
  }
  if (ports_.at("m_valid").get() != 0 && ports_.at("m_ready").get() != 0) {
    if (arriving_.empty()) frame_cycles_.push_back({cycle_, 0});
    const Beat beat = ports_.at("m_data").read();
    for (unsigned i = 0; i < in_.lanes; ++i) {
      const unsigned low = i * in_.type.bits;
      std::int64_t value = static_cast<std::int64_t>(beat.get(low, in_.type.bits));
      if (in_.type.kind == ElementType::Kind::kSigned) value = beat.get_signed(low, in_.type.bits);
      if (in_.type.kind == ElementType::Kind::kBipolar) value = value != 0 ? 1 : -1;
      arriving_.push_back(value);
    }
    if (arriving_.size() == in_elements_) {
      for (Beat& out : to_beats(computed(arriving_), out_.type, out_.lanes))
        leaving_.push_back(std::move(out));
      arriving_.clear();
    }
  }
  if (sending_ && ports_.at("s_ready").get() != 0) {
    sending_ = false;
    leaving_.pop_front();
    if (++beats_out_ == out_elements_ / out_.lanes) {
      beats_out_ = 0;
      // Frames leave in the order in which they entered, so this frame belongs to the oldest run of the
      // present epoch that has not ended.
      while (next_in_order_ < fed_.size() && ended_at_.contains(fed_[next_in_order_])) ++next_in_order_;
      if (next_in_order_ < fed_.size()) {
        started_at_[fed_[next_in_order_]] = frame_cycles_.front().first;
        ended_at_[fed_[next_in_order_]] = cycle_;
      }
      frame_cycles_.pop_front();
    }
  }
}

void ShellRow::drive() {
  ports_.at("rst").set(stage_ == Stage::kReset);
  memory_.drive();
  ingress_.drive();
  egress_.drive();
  control_.drive();
  reports_.drive();
  supervisor_.drive();
  ports_.at("m_ready").set(leaving_.size() < 3u * out_elements_ / out_.lanes + 1 && rng_.chance(0.8));
  sending_ = sending_ || (!leaving_.empty() && rng_.chance(0.8));
  ports_.at("s_valid").set(sending_);
  if (sending_) ports_.at("s_data").write(0, leaving_.front());
}

void ShellRow::sample() {
  ++cycle_;
  if (stage_ == Stage::kReset) {
    if (cycle_ == 4) {
      stage_ = Stage::kRunning;
      begin_script();
    }
    return;
  }
  memory_.sample();
  ingress_.sample();
  egress_.sample();
  control_.sample();
  reports_.sample();
  supervisor_.sample();
  dataflow();
  advance();
}

/// Starts the next runs of the script. At the end of the script, or in the middle of it, begins the next epoch, which
/// discards all frames inside the shell.
void ShellRow::run_script() {
  if (!feeding_ && !to_feed_.empty() && ingress_.idle()) {
    feeding_ = true;
    if (to_feed_.front().epoch == epoch_) fed_.push_back(to_feed_.front().sequence);
    start(ingress_, to_feed_.front(), true);
  }
  if (!fetching_ && !to_fetch_.empty() && egress_.idle() && cycle_ >= fetch_from_) {
    fetching_ = true;
    start(egress_, to_fetch_.front(), false);
  }
  const bool done = to_feed_.empty() && to_fetch_.empty();
  if (done || (script_disturbed_ && cycle_ >= change_at_)) {
    stage_ = Stage::kNewEpoch;
    control_.write(abi::kRegEpoch, epoch_ + 2);
    if (!done) {  // cancel runs that the script has not started
      while (to_feed_.size() > (feeding_ ? 1u : 0u)) to_feed_.pop_back();
      while (to_fetch_.size() > (fetching_ ? 1u : 0u)) to_fetch_.pop_back();
    }
  }
}

/// Compares the control registers with the events of the scripts.
void ShellRow::read_counters() {
  stage_ = Stage::kCounters;
  const auto expect = [this](std::uint32_t address, std::uint32_t want, const char* what) {
    control_.read(address, [this, want, what](std::uint32_t got) {
      if (got != want)
        fail(std::string(what) + ": register says " + std::to_string(got) + ", expected " +
             std::to_string(want));
    });
  };
  expect(abi::kRegAbiVersion, abi::kAbiVersion, "ABI version");
  expect(abi::kRegEpoch, epoch_, "epoch");
  expect(abi::kRegLinkPorts, 0, "link ports");
  expect(abi::kRegFramesLow, delivered_, "frames");
  expect(abi::kRegFramesHigh, 0, "frames, high");
  expect(0x7fc, 0, "no register");
  control_.read(abi::kRegBusyLow, [this](std::uint32_t got) {
    if (delivered_ > 0 && (got == 0 || got > cycle_ / 10))
      fail("busy: register says " + std::to_string(got) + " us");
  });
}

void ShellRow::advance() {
  if (++quiet_ > 200'000) {
    fail("deadlock: a run does not complete");
    stage_ = Stage::kFinished;
    return print();
  }
  if (stage_ == Stage::kRunning) {
    run_script();
  } else if (stage_ == Stage::kNewEpoch && control_.idle() && to_feed_.empty() && to_fetch_.empty()) {
    epoch_ += 2;
    fed_.clear();
    started_at_.clear();
    ended_at_.clear();
    next_in_order_ = 0;
    if (--rounds_ > 0) {
      stage_ = Stage::kRunning;
      begin_script();
    } else {
      read_counters();
    }
  } else if (stage_ == Stage::kCounters && control_.idle()) {
    if (ports_.at("error").get() != 0) fail("error raised");
    // Stopping the supervisor (the unit that reports faults) while it has no run must do nothing. Afterwards,
    // start a run that only a second stop ends.
    stage_ = Stage::kStop;
    control_.write(abi::kRegSupervisorStop, 1, [this] {
      supervise();
      control_.read(abi::kRegAbiVersion, [this](std::uint32_t) {
        if (reported_) fail("the supervisor's run ended unasked");
      });
    });
  } else if (stage_ == Stage::kStop && supervisor_.idle() && reported_) {
    check_report(abi::FaultCode::kStopped);
    // Now let a fault occur before the run that reports it.
    stage_ = Stage::kFault;
    fault();
  } else if (stage_ == Stage::kFault && supervisor_.idle() && reported_ && to_feed_.empty() &&
             to_fetch_.empty()) {
    check_report(abi::FaultCode::kInternal);
    if (ports_.at("error").get() == 0) fail("memory failed, but `error` is low");
    if (++faults_ == 3) {
      stage_ = Stage::kFinished;
      return print();
    }
    // The next epoch, which begins with a flush, must not remember the fault: a good frame passes, and the next fault
    // is reported like the first.
    memory_.failing_reads = false;
    stage_ = Stage::kMended;
    epoch_ += 2;
    control_.write(abi::kRegEpoch, epoch_);
    control_.read(abi::kRegEpoch, [this](std::uint32_t) { one_frame(1); });
  } else if (stage_ == Stage::kMended && control_.idle() && to_feed_.empty() && to_fetch_.empty()) {
    if (ports_.at("error").get() != 0) fail("`error` is still high in a new epoch");
    fault();
  }
}

/// Sends one frame through the shell, outside any script.
void ShellRow::one_frame(std::uint64_t sequence) {
  const Run run{epoch_, sequence, 0};
  fed_ = {sequence};
  started_at_.clear();
  ended_at_.clear();
  next_in_order_ = 0;
  must_arrive_ = {{sequence, true}};
  const Values frame = frame_of(run);
  for (std::size_t i = 0; i < frame.size(); ++i)
    std::memcpy(&memory_.content()[in_at(run) + i * in_.bytes], &frame[i], in_.bytes);
  std::fill(memory_.content().begin() + static_cast<std::ptrdiff_t>(kSlots * in_stride_),
            memory_.content().end(), kGuard);
  to_feed_ = {run};
  to_fetch_ = {run};
  start(ingress_, run, true);
  start(egress_, run, false);
}

void ShellRow::fault() {
  stage_ = Stage::kFault;
  memory_.failing_reads = true;
  one_frame(2);
  supervise();
}

void ShellRow::supervise() {
  reported_ = false;
  std::fill(reports_.content().begin(), reports_.content().end(), kGuard);
  supervisor_.write(0x10, static_cast<std::uint32_t>(reports_.base()));
  supervisor_.write(0x14, static_cast<std::uint32_t>(reports_.base() >> 32));
  supervisor_.write(0x00, 1, [this] {
    if (stage_ == Stage::kStop) control_.write(abi::kRegSupervisorStop, 1);
  });
  poll_supervisor();
}

void ShellRow::poll_supervisor() {
  supervisor_.read(0x00, [this](std::uint32_t control) {
    if ((control & 2u) == 0) return poll_supervisor();
    supervisor_.write(0x00, 0x10, [this] { reported_ = true; });
  });
}

void ShellRow::check_report(abi::FaultCode code) {
  abi::FaultReport got;
  std::memcpy(&got, reports_.content().data(), sizeof got);
  if (got.magic != abi::FaultReport{}.magic || got.code != code || got.link_index != 0 || got.reserved != 0)
    fail("a wrong fault report");
  const auto* end = static_cast<const char*>(std::memchr(got.detail, 0, sizeof got.detail));
  const char* const text =
      code == abi::FaultCode::kStopped ? "stopped by the host" : "an access to memory failed";
  if (end == nullptr || std::strcmp(got.detail, text) != 0) fail("the report's text is damaged");
  if (reports_.content()[sizeof got] != kGuard) fail("written beyond the report");
}

}  // namespace

static int run_shell_bench(std::uint64_t seed, int rounds) {
  const auto& parameters = model_rows();
  const auto model = make_model();
  std::vector<std::unique_ptr<ShellRow>> rows;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    rows.push_back(std::make_unique<ShellRow>(parameters[i], model->ports(i), seed * 1000 + i, rounds));
  }
  for (bool any = true; any;) {
    any = false;
    std::vector<ShellRow*> active;
    for (auto& row : rows) {
      if (!row->finished()) active.push_back(row.get());
    }
    for (ShellRow* row : active) row->drive();
    model->eval();
    for (ShellRow* row : active) {
      row->sample();
      row->clk.set(1);
      any = true;
    }
    model->eval();
    for (ShellRow* row : active) row->clk.set(0);
  }
  model->final();
  int failures = 0;
  for (const auto& row : rows) failures += row->failures();
  return failures;
}

void add_shell_bench(Benches& benches) {
  benches["mr_shell"] = run_shell_bench;
}

}  // namespace millrace::kernels::tb
