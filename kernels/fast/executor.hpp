// A program prepared for speed: weights repacked, scratch planned, the best instructions of this CPU chosen
// once. Equal to kernels/reference byte for byte at every level.
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

/// The best level this CPU has. MILLRACE_SIMD=baseline|avx2|avx512vnni lowers it (a level the CPU lacks, or
/// an unknown word, is ignored).
SimdLevel best_level();
bool is_available(SimdLevel level);

class Executor {
 public:
  /// `program` must pass validate(); it is not needed afterwards. Allocates everything run() needs.
  explicit Executor(const Program& program, SimdLevel level = best_level());
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  /// One frame. Pointers in the order of the program's inputs and outputs, to storage_bytes() each, no
  /// alignment demanded, inputs and outputs not overlapping. Allocates nothing, never fails. One thread at a
  /// time an executor.
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) noexcept;

  /// As run(), and shows every tensor that exists in this form of the program (blocks fused into others have
  /// none).
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           const std::function<void(TensorIndex, std::span<const std::byte>)>& observe);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::kernels::fast
