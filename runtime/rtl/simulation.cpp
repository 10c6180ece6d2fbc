#include "runtime/rtl/simulation.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/file.hpp"

namespace millrace::runtime::rtl {

namespace {

constexpr int kResetCycles = 8;
constexpr std::size_t kLoadWordBytes = 8;       // bytes of a word in the stream of constants
constexpr std::uint64_t kSettleCycles = 8;      // cycles from the last hop until the last table is written
constexpr std::uint64_t kReadAheadWords = 128;  // more than any reader of weights reads in advance

constexpr std::uint64_t kWordBytes = 64;
constexpr std::size_t kMostBursts = 8;  // most unfinished read bursts of a port
constexpr std::uint8_t kOkay = 0, kDecodeError = 3;

/// The latency of an Alveo U280's memories when a page must be opened first: 137.8 ns for HBM, 106.7 ns for
/// DDR4, as measured by Wang et al. ("Shuhai", FCCM 2020).
constexpr double kMemoryLatencyNs = 137.8;

std::uint64_t latency_cycles(double clock_mhz) {
  return static_cast<std::uint64_t>(std::ceil(kMemoryLatencyNs * clock_mhz / 1000));
}

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

void MemoryModel::stall(double probability, std::uint64_t seed) {
  threshold_ = static_cast<std::uint64_t>(std::ldexp(std::clamp(probability, 0.0, 1.0), 53)) << 11U;
  random_.seed(seed);
}

void MemoryModel::drive() {
  for (Port& port : ports_) {
    const abi::ReadPort& s = port.signals;
    *s.arready = port.bursts.size() < kMostBursts && !port.hold_address ? 1 : 0;
    if (!port.offered)
      port.offered = !port.bursts.empty() && now_ >= port.bursts.front().due && !port.hold_word;
    *s.rvalid = port.offered ? 1 : 0;
    if (!port.offered) continue;
    const Burst& burst = port.bursts.front();
    const std::uint64_t at = burst.address - kBase;
    const bool inside = burst.address >= kBase && at + kWordBytes <= content_.size();
    if (inside) std::memcpy(s.rdata, content_.data() + at, kWordBytes);
    *s.rresp = inside ? kOkay : kDecodeError;
    *s.rlast = burst.words == 1 ? 1 : 0;
  }
}

void MemoryModel::sample() {
  for (Port& port : ports_) {
    const abi::ReadPort& s = port.signals;
    if (port.offered && *s.rready != 0) {
      port.offered = false;
      Burst& burst = port.bursts.front();
      burst.address += kWordBytes;
      if (--burst.words == 0) port.bursts.pop_front();
    }
    if (*s.arvalid != 0 && *s.arready != 0)
      port.bursts.push_back({*s.araddr, std::uint64_t{*s.arlen} + 1, now_ + latency_});
    port.hold_address = chance();
    port.hold_word = chance();
  }
  ++now_;
}

void MemoryModel::reset() {
  for (Port& port : ports_) {
    port.bursts.clear();
    port.offered = port.hold_address = port.hold_word = false;
  }
}

Result<std::unique_ptr<Simulation>> Simulation::open(const std::filesystem::path& entry, std::uint64_t seed) {
  MILLRACE_ASSIGN(const std::string json, read_text_file(entry / "design.json"));
  MILLRACE_ASSIGN(Design design, parse_design(json));
  std::unique_ptr<Simulation> simulation(new Simulation);
  simulation->design_ = std::move(design);
  MILLRACE_TRY(simulation->load(entry / "simulation.so", seed));
  return simulation;
}

Status Simulation::load(const std::filesystem::path& library, std::uint64_t seed) {
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr)
    return Error(ErrorCode::kCorrupt, "the simulation cannot be loaded: " + std::string(dlerror()));
  abi::Open* open_model = nullptr;
  abi::Connect* connect = nullptr;
  if (!find(library_, abi::kOpen, open_model) || !find(library_, abi::kConnect, connect) ||
      !find(library_, abi::kClose, close_) || !find(library_, abi::kReset, reset_) ||
      !find(library_, abi::kSettle, settle_) || !find(library_, abi::kTick, tick_) ||
      !find(library_, abi::kFailure, failure_))
    return Error(ErrorCode::kCorrupt,
                 library.string() + ": is not a simulation that Millrace built; remove the file");
  model_ = open_model(static_cast<std::uint32_t>(seed % 0x7fffffffU + 1));  // Verilator replaces 0
  if (model_ == nullptr) return Error(ErrorCode::kResourceExhausted, "no memory for the simulation");
  if (const std::string failed = failure(); !failed.empty())
    return Error(ErrorCode::kInternal,
                 "the simulation of partition '" + design_.partition + "' does not start: " + failed);
  inputs_.resize(design_.inputs.size() + (design_.load_words != 0 ? 1 : 0));
  outputs_.resize(design_.outputs.size());
  streams_.resize(design_.streams.size());
  for (const Layer& layer : design_.layers) units_.resize(units_.size() + layer.units.size());
  connect(model_, inputs_.data(), outputs_.data(), streams_.data(), units_.data());
  if (design_.load_words != 0) {
    load_ = inputs_.back();
    inputs_.pop_back();
  }
  if (!design_.weight_ports.empty()) {
    abi::ConnectWeights* connect_weights = nullptr;
    if (!find(library_, abi::kConnectWeights, connect_weights))
      return Error(ErrorCode::kCorrupt,
                   library.string() + ": is not a simulation that Millrace built; remove the file");
    std::vector<abi::ReadPort> ports(design_.weight_ports.size());
    connect_weights(model_, &weights_, ports.data());
    *weights_.active = *weights_.flush = 0;
    *weights_.addr = MemoryModel::kBase;
    memory_.emplace(std::move(ports), latency_cycles(design_.clock_mhz));
  }
  reset();
  return {};
}

Simulation::~Simulation() {
  if (model_ != nullptr) close_(model_);
  if (library_ != nullptr) dlclose(library_);
}

void Simulation::reset() {
  for (const abi::Port& port : inputs_) *port.valid = 0;
  for (const abi::Port& port : outputs_) *port.ready = 0;
  if (load_.valid != nullptr) *load_.valid = 0;
  if (memory_) memory_->reset();
  reset_(model_, 1);
  for (int i = 0; i < kResetCycles; ++i) {
    settle();
    tick();
  }
  reset_(model_, 0);
  // Let the readers of weights read in advance, as hardware does long before a frame arrives.
  for (std::uint64_t i = 0; memory_ && *weights_.active != 0 && i < memory_->latency() + kReadAheadWords;
       ++i) {
    settle();
    tick();
  }
  settle();
}

Status Simulation::load_constants(std::span<const std::byte> words) {
  MILLRACE_TRY(begin_load(words));
  for (;;) {
    MILLRACE_ASSIGN(const bool done, load_more(~std::uint64_t{0}));
    if (done) return {};
  }
}

Status Simulation::begin_load(std::span<const std::byte> words) {
  if (words.size() != design_.load_words * kLoadWordBytes)
    return Error(ErrorCode::kCorrupt, "partition '" + design_.partition + "' takes " +
                                          std::to_string(design_.load_words * kLoadWordBytes) +
                                          " bytes of constants, "
                                          "but the parameters have " +
                                          std::to_string(words.size()) + "; compile the model again");
  reset();
  loading_ = words;
  load_cycle_ = 0;
  return {};
}

Result<bool> Simulation::load_more(std::uint64_t cycles) {
  const std::uint64_t all = design_.load_words + design_.load_hops + kSettleCycles;
  for (; cycles > 0 && load_cycle_ < all; --cycles, ++load_cycle_) {
    const bool word = load_cycle_ < design_.load_words;
    if (load_.valid != nullptr) *load_.valid = word ? 1 : 0;
    if (word) std::memcpy(load_.data, loading_.data() + load_cycle_ * kLoadWordBytes, kLoadWordBytes);
    settle();
    tick();
  }
  if (load_cycle_ < all) return false;
  loading_ = {};
  reset();
  if (std::string failed = failure(); !failed.empty())
    return Error(ErrorCode::kInternal, "partition '" + design_.partition + "': " + failed);
  return true;
}

Status Simulation::hold_weights(std::span<const std::byte> bytes) {
  if (bytes.size() != design_.streamed_bytes)
    return Error(ErrorCode::kCorrupt, "partition '" + design_.partition + "' reads " +
                                          std::to_string(design_.streamed_bytes) +
                                          " bytes of weights from memory, "
                                          "but the parameters have " +
                                          std::to_string(bytes.size()) + "; compile the model again");
  if (!memory_) return {};
  memory_->hold(bytes);
  *weights_.active = 1;
  reset();
  return {};
}

void Simulation::stall_memory(double probability, std::uint64_t seed) {
  if (memory_) memory_->stall(probability, seed);
}

std::string Simulation::failure() const {
  std::string failed = failure_(model_);
  if (failed.empty() && weights_.error != nullptr && *weights_.error != 0)
    failed = "the hardware read weights from an address outside of the weights in memory";
  return failed;
}

double Simulation::busy_cycles(std::size_t layer) const {
  std::size_t unit = 0;
  for (std::size_t i = 0; i < layer; ++i) unit += design_.layers[i].units.size();
  const std::size_t count = design_.layers[layer].units.size();
  std::uint64_t cycles = 0;
  for (std::size_t i = 0; i < count; ++i) cycles += *units_[unit + i].busy_cycles;
  return static_cast<double>(cycles) / static_cast<double>(count);
}

Simulation::StreamState Simulation::state(std::size_t stream) const {
  const std::uint8_t bits = *streams_[stream].state;
  const bool s_valid = (bits & 1U) != 0, s_ready = (bits & 2U) != 0, m_valid = (bits & 4U) != 0,
             m_ready = (bits & 8U) != 0;
  if (s_valid && !s_ready) return StreamState::kFull;
  if (m_valid && !m_ready) return StreamState::kWaiting;
  return s_valid || m_valid ? StreamState::kFlowing : StreamState::kEmpty;
}

}  // namespace millrace::runtime::rtl
