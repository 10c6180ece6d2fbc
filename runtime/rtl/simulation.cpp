#include "runtime/rtl/simulation.hpp"

#include <dlfcn.h>

#include <cstring>

#include "runtime/base/file.hpp"

namespace millrace::runtime::rtl {

namespace {

constexpr int kResetCycles = 8;

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

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
    return Error(ErrorCode::kCorrupt, library.string() + ": is no simulation of ours; remove it");
  model_ =
      open_model(static_cast<std::uint32_t>(seed % 0x7fffffffU + 1));  // 0 would be Verilator's own choice
  if (model_ == nullptr) return Error(ErrorCode::kResourceExhausted, "no memory for the simulation");
  if (const std::string failed = failure(); !failed.empty())
    return Error(ErrorCode::kInternal,
                 "the simulation of partition '" + design_.partition + "' does not start: " + failed);
  inputs_.resize(design_.inputs.size() + (design_.load_words != 0 ? 1 : 0));
  outputs_.resize(design_.outputs.size());
  streams_.resize(design_.streams.size());
  connect(model_, inputs_.data(), outputs_.data(), streams_.data());
  if (design_.load_words != 0) {
    load_ = inputs_.back();
    inputs_.pop_back();
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
  reset_(model_, 1);
  for (int i = 0; i < kResetCycles; ++i) {
    settle();
    tick();
  }
  reset_(model_, 0);
  settle();
}

Status Simulation::load_constants(std::span<const std::byte> words) {
  constexpr std::size_t kWord = 8;
  if (words.size() != design_.load_words * kWord)
    return Error(ErrorCode::kCorrupt, "partition '" + design_.partition + "' takes " +
                                          std::to_string(design_.load_words * kWord) +
                                          " bytes of constants, the parameters have " +
                                          std::to_string(words.size()) + "; compile the model again");
  reset();
  for (std::size_t at = 0; at < words.size(); at += kWord) {
    *load_.valid = 1;
    std::memcpy(load_.data, words.data() + at, kWord);
    settle();
    tick();
  }
  if (load_.valid != nullptr) *load_.valid = 0;
  for (std::uint64_t i = 0; i < design_.load_hops + 8; ++i) {
    settle();
    tick();
  }
  reset();
  if (std::string failed = failure(); !failed.empty())
    return Error(ErrorCode::kInternal, "partition '" + design_.partition + "': " + failed);
  return {};
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
