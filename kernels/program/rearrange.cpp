#include "kernels/program/rearrange.hpp"

#include <algorithm>

namespace millrace::kernels {

Rearrange transposition(const std::vector<std::uint32_t>& dims, const std::vector<std::uint32_t>& perm) {
  std::vector<std::int64_t> stride(dims.size(), 1);  // of the axes of the input
  for (std::size_t axis = dims.size(); axis-- > 1;)
    stride[axis - 1] = stride[axis] * std::int64_t{dims[axis]};
  Rearrange r;
  for (const std::uint32_t axis : perm) {
    r.extents.push_back(dims[axis]);
    r.strides.push_back(stride[axis]);
  }
  return r;
}

Rearrange simplified(const Rearrange& r, std::uint64_t elements) {
  if (r.extents.empty()) return {0, {static_cast<std::uint32_t>(elements)}, {1}};
  Rearrange out;
  out.offset = r.offset;
  for (std::size_t k = r.extents.size(); k-- > 0;) {  // `out` has the innermost loop first until the end
    if (r.extents[k] == 1) continue;
    if (!out.extents.empty() && r.strides[k] == out.strides.back() * std::int64_t{out.extents.back()}) {
      out.extents.back() *= r.extents[k];
      continue;
    }
    out.extents.push_back(r.extents[k]);
    out.strides.push_back(r.strides[k]);
  }
  if (out.extents.empty()) return {r.offset, {1}, {1}};
  std::reverse(out.extents.begin(), out.extents.end());
  std::reverse(out.strides.begin(), out.strides.end());
  return out;
}

bool keeps_order(const Rearrange& r, std::uint64_t in, std::uint64_t out) {
  if (in != out) return false;
  const Rearrange loops = simplified(r, out);
  return loops.offset == 0 && loops.extents.size() == 1 && loops.strides[0] == 1;
}

std::vector<std::uint32_t> sources_of(const Rearrange& r) {
  std::vector<std::uint32_t> sources{static_cast<std::uint32_t>(r.offset)};
  // Expand one loop after another, from the outermost to the innermost: each source found so far becomes as many
  // sources as the loop has turns.
  for (std::size_t k = 0; k < r.extents.size(); ++k) {
    std::vector<std::uint32_t> next;
    next.reserve(sources.size() * r.extents[k]);
    for (const std::uint32_t source : sources)
      for (std::int64_t i = 0; i < r.extents[k]; ++i)
        next.push_back(static_cast<std::uint32_t>(source + i * r.strides[k]));
    sources = std::move(next);
  }
  return sources;
}

std::optional<Rearrange> find_loops(const std::vector<std::uint32_t>& source) {
  if (source.empty()) return std::nullopt;
  Rearrange r;  // the innermost loop first until the end
  r.offset = source[0];
  const auto advance = [&source](std::size_t i) { return std::int64_t{source[i]} - std::int64_t{source[0]}; };
  for (std::size_t block = 1; block < source.size();) {
    const std::int64_t stride = advance(block);
    std::size_t extent = 1;
    while (extent * block < source.size() &&
           advance(extent * block) == static_cast<std::int64_t>(extent) * stride)
      ++extent;
    if (extent < 2 || source.size() % (block * extent) != 0) return std::nullopt;
    r.extents.push_back(static_cast<std::uint32_t>(extent));
    r.strides.push_back(stride);
    block *= extent;
  }
  if (r.extents.empty()) r = {r.offset, {1}, {1}};
  std::reverse(r.extents.begin(), r.extents.end());
  std::reverse(r.strides.begin(), r.strides.end());
  // The loops were found by looking at few elements. Check them against all elements.
  if (r.extents.size() > kMostLoops || sources_of(r) != source) return std::nullopt;
  return r;
}

}  // namespace millrace::kernels
