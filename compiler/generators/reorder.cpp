// The generator for a Rearrange that changes the order of elements. A memory holds two frames of one chunk of the tensor,
// and counters determine the order in which elements leave the memory.
#include <algorithm>
#include <numeric>

#include "compiler/generators/blocks.hpp"
#include "kernels/program/rearrange.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::Rearrange;

/// Two limits of mr_reorder: the number of its loops, and the beat width in bits up to which no enable signal in the
/// module drives more than 512 loads.
constexpr std::size_t kHardwareLoops = 6;
constexpr std::uint32_t kWidestBeat = 448;

/// The part of a Rearrange that repeats. The input consists of `count` consecutive chunks of `elements` elements. From
/// each chunk, `loops` makes one part of the output.
struct Chunk {
  std::uint64_t elements = 1, count = 1;
  Rearrange loops;
  /// The largest number of neighbouring elements that stay together wherever they are read.
  std::uint32_t run = 1;

  std::uint64_t made() const {
    std::uint64_t product = 1;
    for (const std::uint32_t extent : loops.extents) product *= extent;
    return product;
  }
};

/// Whether all indices that the loops read are at least 0 and below `end`.
bool stays_below(const Rearrange& loops, std::int64_t end) {
  auto highest = static_cast<std::int64_t>(loops.offset), lowest = highest;
  for (std::size_t k = 0; k < loops.extents.size(); ++k) {
    const std::int64_t reach = (std::int64_t{loops.extents[k]} - 1) * loops.strides[k];
    (reach < 0 ? lowest : highest) += reach;
  }
  return lowest >= 0 && highest < end;
}

Chunk smallest_chunk(const Rearrange& rearrange, std::uint64_t in, std::uint64_t out) {
  Chunk chunk{in, 1, kernels::simplified(rearrange, out)};
  Rearrange& loops = chunk.loops;
  while (!loops.extents.empty()) {
    const auto extent = std::int64_t{loops.extents.front()};
    const std::int64_t stride = loops.strides.front();
    Rearrange inner{loops.offset,
                    {loops.extents.begin() + 1, loops.extents.end()},
                    {loops.strides.begin() + 1, loops.strides.end()}};
    if (stride < 1 || static_cast<std::uint64_t>(extent * stride) != chunk.elements ||
        !stays_below(inner, stride))
      break;
    chunk.elements = static_cast<std::uint64_t>(stride);
    chunk.count *= loops.extents.front();
    loops = std::move(inner);
  }
  if (loops.extents.empty()) loops = {loops.offset, {1}, {1}};
  auto run = static_cast<std::int64_t>(std::gcd(chunk.elements, loops.offset));
  for (std::size_t k = 0; k < loops.extents.size(); ++k) {
    const bool innermost = k + 1 == loops.extents.size();
    run =
        std::gcd(run, innermost && loops.strides[k] == 1 ? std::int64_t{loops.extents[k]} : loops.strides[k]);
  }
  chunk.run = static_cast<std::uint32_t>(run);
  return chunk;
}

/// Returns how far the output lags behind the input, as a fraction of the input: the largest part of the input that an
/// output beat has to wait for, beyond the part that corresponds to the beat's own position.
double lead_of(const Chunk& chunk) {
  const auto in = static_cast<double>(chunk.elements), out = static_cast<double>(chunk.made());
  double most = 1, made = 0;
  for (const std::uint32_t source : kernels::sources_of(chunk.loops)) {
    most = std::max(most, source + 1 - made / out * in);
    made += 1;
  }
  return std::min(most / in, 1.0) / static_cast<double>(chunk.count);
}

class ReorderBlock : public LanesBlock {
 public:
  ReorderBlock(const kernels::Program& program, std::uint32_t block)
      : LanesBlock(program, block),
        chunk_(
            smallest_chunk(std::get<Rearrange>(block_.operation), input().elements(), output().elements())),
        lead_(lead_of(chunk_)) {}

  bool fits() const { return chunk_.loops.extents.size() <= kHardwareLoops; }

 protected:
  std::vector<Folding> possible() const override {
    std::vector<Folding> all;
    for (const std::uint32_t lanes : divisors(chunk_.run)) {
      all.emplace_back();
      all.back().simd = lanes;
    }
    return all;
  }
  std::uint64_t interval(const Folding& folding) const override {
    return std::max(input().elements(), output().elements()) / folding.simd;
  }
  Status check(const Folding& folding) const override {
    const bool divides = folding.simd != 0 && chunk_.run % folding.simd == 0;
    if (folding.pe == 1 && folding.pixels == 1 && divides && folding.simd * input().type.bits <= kWidestBeat)
      return {};
    return refuse(
        "SIMD " + std::to_string(folding.simd) + " (PE " + std::to_string(folding.pe) + ", " +
        std::to_string(folding.pixels) + " pixels) does not divide the " + std::to_string(chunk_.run) +
        " elements that stay together, "
        "or a beat has more than " +
        std::to_string(kWidestBeat) + " bits; choose PE 1, 1 pixel and a smaller SIMD that divides " +
        std::to_string(chunk_.run));
  }
  double lead() const override { return lead_; }
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override;

 private:
  Chunk chunk_;
  double lead_;
};

Netlist ReorderBlock::construct(const Folding& folding, NetlistBuilder& netlist) const {
  const std::uint32_t lanes = folding.simd, bits = input().type.bits;
  Rearrange loops = chunk_.loops;  // of beats
  loops.offset /= lanes;
  for (std::size_t k = 0; k < loops.extents.size(); ++k) {
    if (k + 1 == loops.extents.size() && loops.strides[k] == 1)
      loops.extents[k] /= lanes;
    else
      loops.strides[k] /= lanes;
  }
  const StreamIndex from = netlist.input(lanes, bits, input().elements());
  Parameters parameters = {{"WIDTH", std::int64_t{lanes} * bits},
                           {"WORDS", static_cast<std::int64_t>(chunk_.elements / lanes)},
                           {"OFFSET", static_cast<std::int64_t>(loops.offset)}};
  const std::size_t unused = kHardwareLoops - loops.extents.size();
  for (std::size_t k = 0; k < kHardwareLoops; ++k) {
    const bool used = k >= unused;
    parameters.emplace_back("E" + std::to_string(k), used ? loops.extents[k - unused] : 1);
    parameters.emplace_back("S" + std::to_string(k), used ? loops.strides[k - unused] : 0);
  }
  return netlist.finish(netlist.add("mr_reorder", "reorder", std::move(parameters), {from},
                                    {lanes, bits, output().elements() / lanes}));
}

}  // namespace

MadeGenerator make_reorder(const kernels::Program& program, std::uint32_t index) {
  auto made = std::make_unique<ReorderBlock>(program, index);
  if (!made->fits())
    return Error(ErrorCode::kUnsupported,
                 block_label(program.blocks[index]) + "moves elements in more than " +
                     std::to_string(kHardwareLoops) +
                     " nested loops; "
                     "take a Transpose or Reshape out of the model, or run the block on the host");
  return std::unique_ptr<Generator>(std::move(made));
}

}  // namespace millrace::compiler::generators
