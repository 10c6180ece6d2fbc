// A whole emitted partition behind its AXI ports: frames in memory, results in memory, as image_abi.hpp says.
//
// The folder it runs in is what compiler/emit/rtl wrote, and `bench/<port>.<n>.bin`: frame n of each input
// and of each output, in storage form, the outputs as kernels/reference computes them. Parameter FRAMES: how
// many there are. Which ports exist is read off the model's. Batches of frames, some cut off by a new epoch:
// every run completes, what is delivered is right, and what follows is not disturbed.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "kernels/tb/axi.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::kernels::tb {
namespace {

namespace abi = runtime::plan::abi;

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kMostRuns = 4;  // of a batch, on each unit
constexpr unsigned kBurst = 16;
constexpr std::uint64_t kDeadlockCycles = 300'000;
constexpr std::uint8_t kGuard = 0xa5;

Bytes read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Run {
  std::uint32_t epoch = 0;
  std::uint64_t sequence = 0;
  std::size_t frame = 0, slot = 0;
};

/// An ingress or egress unit with the memory behind it.
struct Unit {
  std::string name;
  bool input = false;
  std::vector<Bytes> frames;
  std::size_t stride = 0;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<RegisterMaster> registers;
  std::deque<Run> runs;  // the first one runs where `running`
  bool running = false;
  unsigned delivered = 0, dropped = 0;
};

class Host {
 public:
  Host(Ports& ports, std::size_t frames, std::uint64_t seed, int rounds);

  int failures() const { return failures_; }
  bool finished() const { return stage_ == Stage::kFinished; }
  void drive();
  void sample();
  void print() const;

 private:
  enum class Stage { kReset, kBatch, kNewEpoch, kCounters, kStop, kFinished };

  Report report() {
    return [this](const std::string& what) {
      if (++failures_ <= 8) std::printf("  cycle %" PRIu64 ": %s\n", cycle_, what.c_str());
    };
  }
  void add_unit(const std::string& name, std::size_t frames);
  void begin_batch();
  void start(Unit& unit);
  void poll(Unit& unit);
  void check(Unit& unit, const Run& run);
  void advance();
  void check_counters();
  void stop_supervisor();

  Ports& ports_;
  Rng rng_;
  int batches_;
  std::vector<std::unique_ptr<Unit>> units_;
  RegisterMaster control_, supervisor_;
  Memory reports_;
  Stage stage_ = Stage::kReset;
  std::uint64_t cycle_ = 0, quiet_ = 0, change_at_ = 0, sequence_ = 0;
  std::uint32_t epoch_ = 0;
  std::size_t frames_;
  bool disturbed_ = false, reported_ = false;
  int failures_ = 0;
};

Host::Host(Ports& ports, std::size_t frames, std::uint64_t seed, int rounds)
    : ports_(ports),
      rng_(seed),
      batches_(10 * rounds),
      control_(ports, "control_axil", rng_, report()),
      supervisor_(ports, "supervisor_axil", rng_, report()),
      reports_(ports, "supervisor_axi_", 0x2'0000'0000u, 128, kBurst, rng_, report()),
      frames_(frames) {
  const std::string suffix = "_axil_awvalid";
  for (const auto& [port, unused] : ports) {
    if (port.size() <= suffix.size() || port.substr(port.size() - suffix.size()) != suffix) continue;
    const std::string name = port.substr(0, port.size() - suffix.size());
    if (name != "control" && name != "supervisor") add_unit(name, frames);
  }
}

void Host::add_unit(const std::string& name, std::size_t frames) {
  auto unit = std::make_unique<Unit>();
  unit->name = name;
  unit->input = ports_.contains(name + "_axi_arvalid");
  for (std::size_t i = 0; i < frames; ++i)
    unit->frames.push_back(read_file("bench/" + name + "." + std::to_string(i) + ".bin"));
  unit->stride = abi::egress_buffer_bytes(unit->frames.front().size()) + 64;
  const auto base =
      0x7'4000'0000u + 0x100'0000u * units_.size() - 64u * static_cast<unsigned>(rng_.between(1, 8));
  unit->memory = std::make_unique<Memory>(ports_, name + "_axi_", base, kMostRuns * unit->stride, kBurst,
                                          rng_, report());
  unit->registers = std::make_unique<RegisterMaster>(ports_, name + "_axil", rng_, report());
  units_.push_back(std::move(unit));
}

void Host::begin_batch() {
  stage_ = Stage::kBatch;
  disturbed_ = rng_.chance(0.4);
  change_at_ = cycle_ + static_cast<std::uint64_t>(rng_.between(10, 6000));
  const double pace = rng_.chance(0.4) ? 1.0 : 0.5;
  const auto count = static_cast<std::size_t>(rng_.between(1, kMostRuns));
  std::vector<Run> runs;
  for (std::size_t i = 0; i < count; ++i)
    runs.push_back({epoch_, sequence_++,
                    static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(frames_) - 1)), i});
  for (auto& unit : units_) {
    unit->memory->pace = pace;
    auto& content = unit->memory->content();
    std::fill(content.begin(), content.end(), kGuard);
    for (const Run& run : runs) {
      unit->runs.push_back(run);
      const Bytes& frame = unit->frames[run.frame];
      if (unit->input)
        std::copy(frame.begin(), frame.end(),
                  content.begin() + static_cast<std::ptrdiff_t>(run.slot * unit->stride));
    }
  }
}

void Host::start(Unit& unit) {
  const Run& run = unit.runs.front();
  unit.running = true;
  const std::uint64_t buffer = unit.memory->base() + run.slot * unit.stride;
  RegisterMaster& r = *unit.registers;
  r.write(0x10, static_cast<std::uint32_t>(buffer));
  r.write(0x14, static_cast<std::uint32_t>(buffer >> 32));
  r.write(0x1c, static_cast<std::uint32_t>(unit.frames.front().size()));
  r.write(0x24, run.epoch);
  r.write(0x2c, static_cast<std::uint32_t>(run.sequence));
  r.write(0x30, static_cast<std::uint32_t>(run.sequence >> 32));
  r.write(0x00, 1);
  poll(unit);
}

void Host::poll(Unit& unit) {
  unit.registers->read(0x00, [this, &unit](std::uint32_t control) {
    if ((control & 2u) == 0) return poll(unit);
    unit.registers->write(0x00, 0x10, [this, &unit] {
      quiet_ = 0;
      if (!unit.input) check(unit, unit.runs.front());
      unit.runs.pop_front();
      unit.running = false;
    });
  });
}

void Host::check(Unit& unit, const Run& run) {
  const Bytes& want = unit.frames[run.frame];
  const std::uint8_t* const got = &unit.memory->content()[run.slot * unit.stride];
  abi::StatusTrailer trailer;
  std::memcpy(&trailer, got + abi::trailer_offset(want.size()), sizeof trailer);
  const std::string name =
      unit.name + ", frame " + std::to_string(run.epoch) + "." + std::to_string(run.sequence);
  if (trailer.magic != abi::StatusTrailer{}.magic || trailer.epoch != run.epoch ||
      trailer.sequence != run.sequence)
    return report()(name + ": not its trailer");
  if (trailer.status == abi::FrameStatus::kDropped) {
    ++unit.dropped;
    if (!disturbed_) report()(name + ": dropped");
    return;
  }
  ++unit.delivered;
  if (trailer.payload_bytes != want.size()) report()(name + ": wrong payload size");
  if (trailer.cycles == 0) report()(name + ": computed in no time");
  const auto wrong = std::mismatch(want.begin(), want.end(), got).first - want.begin();
  if (static_cast<std::size_t>(wrong) != want.size())
    report()(name + ": byte " + std::to_string(wrong) + " is wrong");
  if (got[abi::egress_buffer_bytes(want.size())] != kGuard) report()(name + ": written beyond the trailer");
}

void Host::drive() {
  ports_.at("rst").set(stage_ == Stage::kReset);
  for (auto& unit : units_) {
    unit->memory->drive();
    unit->registers->drive();
  }
  control_.drive();
  supervisor_.drive();
  reports_.drive();
}

void Host::sample() {
  ++cycle_;
  if (stage_ == Stage::kReset) {
    if (cycle_ == 4) begin_batch();
    return;
  }
  for (auto& unit : units_) {
    unit->memory->sample();
    unit->registers->sample();
  }
  control_.sample();
  supervisor_.sample();
  reports_.sample();
  advance();
}

void Host::advance() {
  if (++quiet_ > kDeadlockCycles) {
    report()("deadlock: a run does not complete");
    for (const auto& unit : units_)
      std::printf("    %s: %zu runs left%s\n", unit->name.c_str(), unit->runs.size(),
                  unit->running ? ", one runs" : "");
    stage_ = Stage::kFinished;
    return;
  }
  if (stage_ == Stage::kBatch) {
    bool done = true;
    for (auto& unit : units_) {
      if (!unit->running && !unit->runs.empty()) start(*unit);
      done = done && unit->runs.empty();
    }
    if (done || (disturbed_ && cycle_ >= change_at_)) {
      // What has not been started will not be.
      for (auto& unit : units_)
        while (unit->runs.size() > (unit->running ? 1u : 0u)) unit->runs.pop_back();
      stage_ = Stage::kNewEpoch;
      if (!done || rng_.chance(0.3)) control_.write(abi::kRegEpoch, ++epoch_);
    }
  } else if (stage_ == Stage::kNewEpoch) {
    const bool rest =
        std::all_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->runs.empty(); });
    if (!rest || !control_.idle()) return;
    if (--batches_ > 0) return begin_batch();
    stage_ = Stage::kCounters;
    check_counters();
  } else if (stage_ == Stage::kCounters && control_.idle()) {
    stage_ = Stage::kStop;
    stop_supervisor();
  } else if (stage_ == Stage::kStop && reported_ && control_.idle()) {
    abi::FaultReport got;
    std::memcpy(&got, reports_.content().data(), sizeof got);
    if (got.magic != abi::FaultReport{}.magic || got.code != abi::FaultCode::kStopped)
      report()("a wrong report");
    if (ports_.at("error").get() != 0) report()("error raised");
    stage_ = Stage::kFinished;
  }
}

void Host::check_counters() {
  unsigned outputs = 0, delivered = 0;
  for (const auto& unit : units_) {
    outputs += unit->input ? 0 : 1;
    delivered += unit->input ? 0 : unit->delivered;
  }
  control_.read(abi::kRegAbiVersion, [this](std::uint32_t got) {
    if (got != abi::kAbiVersion) report()("another ABI version");
  });
  control_.read(abi::kRegEpoch, [this](std::uint32_t got) {
    if (got != epoch_) report()("another epoch");
  });
  control_.read(abi::kRegFramesLow, [this, outputs, delivered](std::uint32_t got) {
    if (outputs == 1 && got != delivered)
      report()("frames: register says " + std::to_string(got) + ", delivered " + std::to_string(delivered));
  });
}

void Host::stop_supervisor() {
  supervisor_.write(0x10, static_cast<std::uint32_t>(reports_.base()));
  supervisor_.write(0x14, static_cast<std::uint32_t>(reports_.base() >> 32));
  supervisor_.write(0x00, 1, [this] { control_.write(abi::kRegSupervisorStop, 1); });
  struct Poll {
    Host& host;
    void operator()(std::uint32_t control) const {
      if ((control & 2u) == 0) return host.supervisor_.read(0x00, Poll{host});
      host.supervisor_.write(0x00, 0x10, [&host = host] { host.reported_ = true; });
    }
  };
  supervisor_.read(0x00, Poll{*this});
}

void Host::print() const {
  for (const auto& unit : units_) {
    if (!unit->input)
      std::printf("  %s %s: %u frames delivered, %u dropped, %u epochs, %" PRIu64 " cycles\n",
                  unit->name.c_str(), failures_ == 0 ? "ok" : "FAILED", unit->delivered, unit->dropped,
                  epoch_, cycle_);
  }
}

int run_top_bench(std::uint64_t seed, int rounds) {
  const auto model = make_model();
  Ports& ports = model->ports(0);
  const Port clk = ports.at("clk");
  Host host(ports, static_cast<std::size_t>(model_rows().front()["FRAMES"]), seed, rounds);
  while (!host.finished()) {
    host.drive();
    model->eval();
    host.sample();
    clk.set(1);
    model->eval();
    clk.set(0);
  }
  model->final();
  host.print();
  return host.failures();
}

}  // namespace

void add_top_bench(Benches& benches) {
  benches["top"] = run_top_bench;
}

}  // namespace millrace::kernels::tb
