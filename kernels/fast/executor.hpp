// Prepares a program to run fast on this CPU: repacks weights, plans scratch memory and chooses the instructions, all
// once. Results equal kernels/reference byte for byte at every instruction-set level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/program/program.hpp"

namespace millrace::kernels::fast {

enum class SimdLevel : std::uint8_t { kBaseline, kAvx2, kAvx512Vnni };

std::string_view to_string(SimdLevel level);  // "baseline", "avx2", "avx512vnni"

/// Returns the highest instruction-set level that this CPU supports. The environment variable MILLRACE_SIMD can choose
/// a lower level: baseline, avx2 or avx512vnni. An unknown name, or a level that the CPU lacks, is ignored.
SimdLevel best_level();
bool is_available(SimdLevel level);

class Executor {
 public:
  /// Prepares `program`, which must pass validate() and is not needed afterwards. Each plugin operator in it must have
  /// its PluginModel (the plugin's code). Allocates everything that run() needs.
  explicit Executor(const Program& program, SimdLevel level = best_level());
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  /// Computes one frame. The pointers are in the order of the program's inputs and outputs. Each points to
  /// storage_bytes() of memory with any alignment; inputs and outputs must not overlap. Allocates nothing. Fails only if a
  /// plugin's model throws a PluginFailure, which run() passes on: the outputs then hold anything, and the next frame is not
  /// affected. Only one thread at a time may use an executor.
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs);

  /// Computes one frame like run() without an observer, and calls `observe` with every tensor that is computed. A
  /// tensor between two fused blocks is never computed.
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           const std::function<void(TensorIndex, std::span<const std::byte>)>& observe);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::kernels::fast
