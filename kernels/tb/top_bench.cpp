// Bench of a whole emitted partition behind its AXI ports. Frames and results are in memory, as image_abi.hpp defines.
// The bench drives either the partition's top module or the Vitis kernel around it. The kernel has one register slave,
// with a window for each unit of the top.
//
// The bench runs in the folder that compiler/emit/rtl wrote. Files `bench/<port>.<n>.bin` contain frame n of each input
// and output in storage form. kernels/reference computed the outputs. The parameter FRAMES is the number of frames;
// WINDOWS lists the kernel's windows as its kernel.xml has them. The bench finds the ports in the model. It runs
// batches of frames and cuts some off with a new epoch. Every run must complete, every delivered result must be right,
// and later frames must not be disturbed.
//
// The file is above 500 lines because the host and its units share one state.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "kernels/tb/unit_registers.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::kernels::tb {
namespace {

namespace abi = runtime::plan::abi;

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kMostRuns = 4;  // most runs of a unit in each batch
constexpr unsigned kBurst = 16;
constexpr std::uint64_t kFrameDeadlockCycles = 300'000;
constexpr std::uint8_t kGuard = 0xa5;
constexpr unsigned kRest = 400;  // cycles between batches
constexpr std::uint64_t kResetCycles = 4;

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

/// An ingress or egress unit of a card, with the memory that it reads or writes.
struct Unit {
  std::string name, folder;
  bool input = false;
  std::vector<Bytes> frames;
  std::size_t stride = 0;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Registers> registers;
  Bus* bus = nullptr;
  std::deque<Run> runs;  // if `running`, the first run is under way
  bool running = false;
  unsigned delivered = 0, dropped = 0;
};

/// Loads parameters: constants, and weights that the hardware streams from the buffer that contains them. There are two
/// versions of the parameters, at different offsets of one buffer. Files `bench/load.<v>.bin` and
/// `bench/streamed.<v>.bin` are sections of a parameter file.
class ParameterLoader {
 public:
  ParameterLoader(Bus& bus, const std::string& folder, Rng& rng, const Report& report)
      : registers_(bus, "parameters", report) {
    std::vector<Bytes> sections;
    std::size_t bytes = 0;
    for (std::size_t v = 0; v < kVersions; ++v)
      for (const char* section : {"load.", "streamed."}) {
        sections.push_back(read_file(folder + "/bench/" + section + std::to_string(v) + ".bin"));
        offsets_.push_back(bytes);
        bytes += (sections.back().size() + kPage - 1) / kPage * kPage;
      }
    load_bytes_ = sections.front().size();
    const auto add = [&](const std::string& name, unsigned burst) {
      auto memory = std::make_unique<Memory>(bus.ports, bus.memory(name), kBase, bytes, burst, rng, report);
      for (std::size_t s = 0; s < sections.size(); ++s)
        std::copy(sections[s].begin(), sections[s].end(),
                  memory->content().begin() + static_cast<std::ptrdiff_t>(offsets_[s]));
      memories_.push_back(std::move(memory));
    };
    add("parameters", kBurst);
    const auto weights = [](std::size_t i) { return "weights" + std::to_string(i); };
    for (std::size_t i = 0; bus.ports.contains(bus.memory(weights(i)) + "arvalid"); ++i)
      add(weights(i), kLongBurst);
  }

  static constexpr std::size_t kVersions = 2;

  /// Begins a run that loads one version of the parameters, and calls `then` when the run is done.
  void load(std::size_t version, std::function<void()> then) {
    // The buffer begins one page before the memory. It contains both versions of the parameters, with each section at
    // its own offset.
    const std::uint64_t buffer = kBase - kPage;
    const std::size_t load = offsets_[2 * version] + kPage, streamed = offsets_[2 * version + 1] + kPage;
    registers_.write_argument(0x10, static_cast<std::uint32_t>(buffer));
    registers_.write_argument(0x14, static_cast<std::uint32_t>(buffer >> 32));
    registers_.write_argument(0x1c, 0);
    registers_.write_argument(0x24, static_cast<std::uint32_t>(load));
    registers_.write_argument(0x2c, static_cast<std::uint32_t>(load_bytes_));
    registers_.write_argument(0x34, static_cast<std::uint32_t>(streamed));
    registers_.start();
    registers_.finish(std::move(then));
  }
  void pace(double pace) {
    for (auto& memory : memories_) memory->pace = pace;
  }
  bool idle() const { return registers_.idle(); }
  void drive() {
    for (auto& memory : memories_) memory->drive();
  }
  void sample() {
    for (auto& memory : memories_) memory->sample();
  }

 private:
  static constexpr std::uint64_t kBase = 0x3'0000'0000u;
  static constexpr std::size_t kPage = 4096;
  static constexpr unsigned kLongBurst = 32;

  Registers registers_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<std::size_t> offsets_;
  std::size_t load_bytes_ = 0;
};

/// The parts that each simulated card has once: the bus, the loader of parameters and the incoming cable.
struct Card {
  Card(Ports& all, const std::string& windows, Rng& rng, const Report& report)
      : bus(all, windows, rng, report),
        control(bus, "control", report),
        supervisor(bus, "supervisor", report),
        reports(all, bus.memory("supervisor"), 0x2'0000'0000u, 128, kBurst, rng, report) {}
  Bus bus;
  Registers control, supervisor;
  Memory reports;
  std::unique_ptr<ParameterLoader> loader;     // null if the image contains all constants
  std::deque<std::pair<Beat, bool>> arriving;  // words on the cable to this card
  bool reported = false;
};

class Host {
 public:
  Host(Model& model, std::uint64_t seed, int rounds);

  int failures() const { return failures_; }
  bool finished() const { return stage_ == Stage::kFinished; }
  void drive();
  void sample();
  void clock(bool high) {
    for (auto& card : cards_) card->bus.clock(high);
  }
  void print() const;

 private:
  enum class Stage { kReset, kBind, kLoad, kBatch, kNewEpoch, kCounters, kStop, kFinished };

  Report report() {
    return [this](const std::string& what) {
      if (++failures_ <= 8) std::printf("  cycle %" PRIu64 ": %s\n", cycle_, what.c_str());
    };
  }
  void add_unit(Bus& bus, const std::string& name, const std::string& folder);
  void bind();
  void wait_for_links(std::size_t card);
  void cables();
  void load_parameters();
  void begin_batch();
  void start(Unit& unit);
  void check(Unit& unit, const Run& run);
  void advance();
  void check_counters();
  void stop_supervisor(Card& card);
  bool controls_idle() const;

  Rng rng_;
  int batches_;
  std::vector<std::unique_ptr<Card>> cards_;
  std::vector<std::unique_ptr<Unit>> units_;
  Stage stage_ = Stage::kReset;
  std::uint64_t cycle_ = 0, quiet_ = 0, change_at_ = 0, sequence_ = 0;
  std::uint32_t epoch_ = 0;
  std::size_t frames_;
  bool disturbed_ = false;
  std::size_t bound_ = 0;  // number of cards whose links are in service
  bool has_parameters_ = false;
  std::size_t version_ = 0;  // version of the parameters that is loaded
  unsigned loads_ = 0, resting_ = 0;
  int failures_ = 0;
};

Host::Host(Model& model, std::uint64_t seed, int rounds)
    : rng_(seed), batches_(10 * rounds), frames_(static_cast<std::size_t>(model_rows().front()["FRAMES"])) {
  for (std::size_t card = 0; card < model_rows().size(); ++card) {
    const Parameters& row = model_rows()[card];
    cards_.push_back(std::make_unique<Card>(model.ports(card), row.text("WINDOWS"), rng_, report()));
    Bus& bus = cards_.back()->bus;
    for (const std::string& name : bus.units())
      if (name != "control" && name != "supervisor" && name != "parameters")
        add_unit(bus, name, row.text("DIR"));
    if (bus.has("parameters"))
      cards_.back()->loader = std::make_unique<ParameterLoader>(bus, row.text("DIR"), rng_, report());
    if (cards_.back()->loader) has_parameters_ = true;
  }
  if (has_parameters_) frames_ /= ParameterLoader::kVersions;
}

void Host::add_unit(Bus& bus, const std::string& name, const std::string& folder) {
  auto unit = std::make_unique<Unit>();
  unit->name = name;
  unit->bus = &bus;
  unit->input = bus.ports.contains(bus.memory(name) + "arvalid");
  for (std::size_t i = 0; i < frames_; ++i)
    unit->frames.push_back(read_file(folder + "/bench/" + name + "." + std::to_string(i) + ".bin"));
  unit->stride = abi::egress_buffer_bytes(unit->frames.front().size()) + 64;
  const auto base =
      0x7'4000'0000u + 0x100'0000u * units_.size() - 64u * static_cast<unsigned>(rng_.between(1, 8));
  unit->memory = std::make_unique<Memory>(bus.ports, bus.memory(name), base, kMostRuns * unit->stride, kBurst,
                                          rng_, report());
  unit->registers = std::make_unique<Registers>(bus, name, report());
  units_.push_back(std::move(unit));
}

/// Binds row 0 of each card's link table to the one cable, with equal settings for receiver and sender.
void Host::bind() {
  stage_ = Stage::kBind;
  if (cards_.size() == 1) return has_parameters_ ? load_parameters() : begin_batch();
  const auto packet_bytes = static_cast<std::uint32_t>(rng_.between(1, 60));
  const auto credits = static_cast<std::uint32_t>(rng_.between(1, 16));
  for (std::size_t card = 0; card < cards_.size(); ++card) {
    Registers& control = cards_[card]->control;
    control.read(abi::kRegLinkPorts, [this](std::uint32_t got) {
      if (got != 1) report()("link ports: register says " + std::to_string(got));
    });
    control.write(abi::kLinkTable + abi::kLinkTag, 5);
    control.write(abi::kLinkTable + abi::kLinkPacketBytes, packet_bytes);
    control.write(abi::kLinkTable + abi::kLinkCredits, credits);
    control.write(abi::kLinkTable + abi::kLinkEnable, 1);
    wait_for_links(card);
  }
}

/// Loads one of the two versions of the parameters, chosen at random, while no frame is inside. Later frames are
/// computed with that version.
void Host::load_parameters() {
  stage_ = Stage::kLoad;
  version_ = loads_ == 0 ? 0 : static_cast<std::size_t>(rng_.between(0, ParameterLoader::kVersions - 1));
  ++loads_;
  ParameterLoader& loader = *cards_.front()->loader;
  loader.pace(rng_.chance(0.4) ? 1.0 : 0.5);
  loader.load(version_, [this] {
    quiet_ = 0;
    begin_batch();
  });
}

void Host::wait_for_links(std::size_t card) {
  cards_[card]->control.read(abi::kLinkTable + abi::kLinkStatus, [this, card](std::uint32_t status) {
    if (status != 3) return wait_for_links(card);
    quiet_ = 0;
    if (++bound_ == cards_.size()) begin_batch();
  });
}

/// Carries words from connector 0 of each card to the other card, with a delay of some cycles. Other connectors have no
/// cable.
void Host::cables() {
  if (cards_.size() < 2) return;
  for (std::size_t i = 0; i < 2; ++i) {
    Ports& ports = cards_[i]->bus.ports;
    if (ports.at("link0_tx_tvalid").get() != 0 && ports.at("link0_tx_tready").get() != 0)
      cards_[1 - i]->arriving.emplace_back(ports.at("link0_tx_tdata").read(),
                                           ports.at("link0_tx_tlast").get() != 0);
  }
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
                    version_ * frames_ +
                        static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(frames_) - 1)),
                    i});
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
  Registers& r = *unit.registers;
  r.write_argument(0x10, static_cast<std::uint32_t>(buffer));
  r.write_argument(0x14, static_cast<std::uint32_t>(buffer >> 32));
  r.write_argument(0x1c, static_cast<std::uint32_t>(unit.frames.front().size()));
  r.write_argument(0x24, run.epoch);
  r.write_argument(0x2c, static_cast<std::uint32_t>(run.sequence));
  r.write_argument(0x30, static_cast<std::uint32_t>(run.sequence >> 32));
  r.start();
  r.finish([this, &unit] {
    quiet_ = 0;
    if (!unit.input) check(unit, unit.runs.front());
    unit.runs.pop_front();
    unit.running = false;
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
  for (auto& card : cards_) {
    card->bus.drive();
    card->reports.drive();
    if (card->loader) card->loader->drive();
    if (cards_.size() < 2) continue;
    card->bus.ports.at("link0_up").set(1);
    card->bus.ports.at("link0_tx_tready").set(rng_.chance(0.9));
    const bool word = !card->arriving.empty() && rng_.chance(0.8);
    card->bus.ports.at("link0_rx_tvalid").set(word);
    if (!word) continue;
    card->bus.ports.at("link0_rx_tdata").write(0, card->arriving.front().first);
    card->bus.ports.at("link0_rx_tlast").set(card->arriving.front().second);
    card->arriving.pop_front();
  }
  for (auto& unit : units_) {
    unit->memory->drive();
  }
}

void Host::sample() {
  ++cycle_;
  if (stage_ == Stage::kReset) {
    // The kernel's internal reset ends one cycle after its reset input.
    for (auto& card : cards_) card->bus.in_reset = cycle_ < kResetCycles;
    if (cycle_ == 2 * kResetCycles) bind();
    return;
  }
  cables();
  for (auto& unit : units_) {
    unit->memory->sample();
  }
  for (auto& card : cards_) {
    card->bus.sample();
    card->reports.sample();
    if (card->loader) card->loader->sample();
  }
  advance();
}

bool Host::controls_idle() const {
  return std::all_of(cards_.begin(), cards_.end(), [](const auto& card) { return card->control.idle(); });
}

void Host::advance() {
  if (++quiet_ > kFrameDeadlockCycles) {
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
      // Cancel the runs that were not yet started.
      for (auto& unit : units_)
        while (unit->runs.size() > (unit->running ? 1u : 0u)) unit->runs.pop_back();
      stage_ = Stage::kNewEpoch;
      if (!done || rng_.chance(0.3)) {
        ++epoch_;
        for (auto& card : cards_) card->control.write(abi::kRegEpoch, epoch_);
      }
    }
  } else if (stage_ == Stage::kNewEpoch) {
    const bool rest =
        std::all_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->runs.empty(); });
    if (!rest || !controls_idle()) return;
    if (++resting_ < kRest) return;  // by then the new epoch has flushed everything
    resting_ = 0;
    for (const auto& unit : units_)
      if (unit->bus->interrupts(unit->name)) report()(unit->name + ": interrupts at rest");
    if (--batches_ > 0) return has_parameters_ && rng_.chance(0.4) ? load_parameters() : begin_batch();
    stage_ = Stage::kCounters;
    check_counters();
  } else if (stage_ == Stage::kCounters && controls_idle()) {
    stage_ = Stage::kStop;
    for (auto& card : cards_) stop_supervisor(*card);
  } else if (stage_ == Stage::kStop && controls_idle() &&
             std::all_of(cards_.begin(), cards_.end(), [](const auto& card) { return card->reported; })) {
    for (auto& card : cards_) {
      abi::FaultReport got;
      std::memcpy(&got, card->reports.content().data(), sizeof got);
      if (got.magic != abi::FaultReport{}.magic || got.code != abi::FaultCode::kStopped)
        report()("a wrong report: code " + std::to_string(static_cast<unsigned>(got.code)));
      if (card->bus.raises_error()) report()("error raised");
    }
    stage_ = Stage::kFinished;
  }
}

void Host::check_counters() {
  unsigned outputs = 0, delivered = 0;
  for (const auto& unit : units_) {
    outputs += unit->input ? 0 : 1;
    delivered += unit->input ? 0 : unit->delivered;
  }
  for (auto& card : cards_) {
    card->control.read(abi::kRegAbiVersion, [this](std::uint32_t got) {
      if (got != abi::kAbiVersion) report()("another ABI version");
    });
    card->control.read(abi::kRegEpoch, [this](std::uint32_t got) {
      if (got != epoch_) report()("another epoch");
    });
  }
  cards_.back()->control.read(abi::kRegFramesLow, [this, outputs, delivered](std::uint32_t got) {
    if (outputs == 1 && got != delivered)
      report()("frames: register says " + std::to_string(got) + ", delivered " + std::to_string(delivered));
  });
}

void Host::stop_supervisor(Card& card) {
  card.supervisor.write(0x10, static_cast<std::uint32_t>(card.reports.base()));
  card.supervisor.write(0x14, static_cast<std::uint32_t>(card.reports.base() >> 32));
  card.supervisor.start([&card] { card.control.write(abi::kRegSupervisorStop, 1); });
  card.supervisor.finish([&card] { card.reported = true; });
}

void Host::print() const {
  for (const auto& unit : units_) {
    if (!unit->input)
      std::printf("  %s %s: %u frames delivered, %u dropped, %u epochs, %u parameter loads, %" PRIu64
                  " cycles\n",
                  unit->name.c_str(), failures_ == 0 ? "ok" : "FAILED", unit->delivered, unit->dropped,
                  epoch_, loads_, cycle_);
  }
}

int run_top_bench(std::uint64_t seed, int rounds) {
  const auto model = make_model();
  Host host(*model, seed, rounds);
  const auto clock = [&](bool high) { host.clock(high); };
  while (!host.finished()) {
    host.drive();
    model->eval();
    host.sample();
    clock(true);
    model->eval();
    clock(false);
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
