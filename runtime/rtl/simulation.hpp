// A partition's dataflow, verilated and loaded: signals to set and to read, a clock to advance.
//
// A cycle is: set inputs' valid and data and outputs' ready; settle(); read inputs' ready and outputs' valid
// and data; tick(). A beat passes where valid and ready are both set at the tick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/rtl/abi.hpp"
#include "runtime/rtl/design.hpp"
#include "runtime/rtl/memory_model.hpp"

namespace millrace::runtime::rtl {

/// One thread at a time.
class Simulation {
 public:
  /// From a cache entry (build.hpp), whose checksums were found to hold. Registers without a reset start at
  /// random, by `seed`. The model comes out of reset with its inputs idle. kCorrupt where the library is not
  /// one of ours, kResourceExhausted where memory runs out.
  static Result<std::unique_ptr<Simulation>> open(const std::filesystem::path& entry, std::uint64_t seed);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  const Design& design() const { return design_; }

  // In the design's order. Of an input the caller writes valid and data, of an output ready.
  const abi::Port& input(std::size_t i) const { return inputs_[i]; }
  const abi::Port& output(std::size_t i) const { return outputs_[i]; }

  void settle() {
    if (memory_) memory_->drive();
    settle_(model_);
  }
  void tick() {
    if (memory_) memory_->sample();
    tick_(model_);
  }
  /// Some cycles of reset: frames under way are gone.
  void reset();

  /// Gives the dataflow its constants, through a reset before and after: frames under way are gone. Needed
  /// before the first frame where the design has load_words. kCorrupt: not as many bytes as these words have.
  Status load_constants(std::span<const std::byte> words);
  /// The same in pieces: `words` stay until load_more() says that they are all in. Nothing else is clocked
  /// meanwhile.
  Status begin_load(std::span<const std::byte> words);
  /// At most so many cycles of it; true once it is done. kInternal: an assertion failed, and what the tables
  /// hold is neither the old nor the new.
  Result<bool> load_more(std::uint64_t cycles);
  /// What the readers of weights find in memory from then on, through a reset too: design().streamed_bytes of
  /// it, which stay the caller's. Needed before the first frame where there are any. kCorrupt: not as many.
  Status hold_weights(std::span<const std::byte> bytes);
  /// Has that memory hold back at random.
  void stall_memory(double probability, std::uint64_t seed);

  /// The first assertion of the SystemVerilog that failed, or that weights are read where there are none;
  /// empty where neither is so.
  std::string failure() const;
  /// Of a stream, since the last reset.
  std::uint64_t high_water(std::size_t stream) const { return *streams_[stream].high_water; }
  /// Of a layer of the design: cycles since the last reset in which its multipliers took operands, counted in
  /// the model. The mean over its units where it has several.
  double busy_cycles(std::size_t layer) const;
  /// A stream whose beats wait: its FIFO is full, or its reader does not take what is there.
  enum class StreamState { kFlowing, kEmpty, kWaiting, kFull };
  StreamState state(std::size_t stream) const;

 private:
  Simulation() = default;
  Status load(const std::filesystem::path& library, std::uint64_t seed);

  Design design_;
  std::vector<abi::Port> inputs_, outputs_;
  std::optional<MemoryModel> memory_;  // behind the readers of weights
  abi::Weights weights_{};
  abi::Port load_{};  // valid is null where nothing is loaded
  std::span<const std::byte> loading_;
  std::uint64_t load_cycle_ = 0;  // of the load under way
  std::vector<abi::Stream> streams_;
  std::vector<abi::Unit> units_;  // of all layers, in their order
  void* library_ = nullptr;
  void* model_ = nullptr;
  abi::Close* close_ = nullptr;
  abi::Reset* reset_ = nullptr;
  abi::Settle* settle_ = nullptr;
  abi::Tick* tick_ = nullptr;
  abi::Failure* failure_ = nullptr;
};

}  // namespace millrace::runtime::rtl
