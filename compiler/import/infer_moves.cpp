#include <algorithm>

#include "compiler/import/infer_rules.hpp"

namespace millrace::compiler::import::rules {

using graph::elements;
using graph::to_string;

namespace {

std::string join(Context& c, std::size_t first, std::size_t step) {
  const std::int64_t wanted = c.op.integer("axis", 1);
  c.type = c.in(first).type;
  c.shape = c.shape_of(first);
  const auto axis = axis_in(wanted, c.shape.size());
  if (!axis) return "has an axis outside its inputs";
  for (std::size_t i = first + step; i < c.count(); i += step) {
    if (!c.has(i)) return "leaves out an input";
    Shape other = c.shape_of(i);
    if (other.size() != c.shape.size() || c.in(i).type != c.type) return "joins different types or ranks";
    const std::int64_t extent = other[*axis];
    other[*axis] = c.shape[*axis];
    if (other != c.shape) return "joins shapes that differ outside its axis";
    c.shape[*axis] += extent;
  }
  return {};
}

}  // namespace

std::string flatten(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto r = static_cast<std::int64_t>(c.shape.size());
  std::int64_t axis = c.op.integer("axis", 1);
  if (axis < -r || axis > r) return "has an axis outside its input";
  if (axis < 0) axis += r;
  const Shape before(c.shape.begin(), c.shape.begin() + axis), after(c.shape.begin() + axis, c.shape.end());
  c.shape = {elements(before), elements(after)};
  return {};
}

std::string reshape(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto wanted = integers_of(c, 1, "shape");
  if (!wanted) return "has a shape that is not known at compile time";
  if (wanted->size() > 8) return "has a shape of rank " + std::to_string(wanted->size());
  Shape shape;
  std::int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    std::int64_t d = (*wanted)[i];
    if (d == 0 && c.op.integer("allowzero", 0) == 0) {
      if (i >= c.shape.size()) return "copies a dimension its input does not have";
      d = c.shape[i];
    }
    if (d == -1 && open) return "leaves two dimensions open";
    if (d < -1 || d > kMostElements) return "has the impossible dimension " + std::to_string(d);
    if (d == -1)
      open = i;
    else
      known *= d;
    if (known > kMostElements) return "has an absurd shape";
    shape.push_back(d);
  }
  const std::int64_t total = elements(c.shape);
  if (open) {
    if (known == 0 || total % known != 0) return "cannot reshape " + to_string(c.shape);
    shape[*open] = total / known;
  }
  if (elements(shape) != total)
    return "reshapes " + to_string(c.shape) + " to " + to_string(shape) + ", which has another size";
  c.shape = shape;
  return {};
}

std::string squeeze(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const bool given = c.has(1) || c.op.has("axes");
  const auto axes = integers_of(c, 1, "axes");
  if (given && !axes) return "has axes that are not known at compile time";
  std::vector<bool> drop(c.shape.size(), false);
  if (axes)
    for (const std::int64_t a : *axes) {
      const auto axis = axis_in(a, c.shape.size());
      if (!axis || c.shape[*axis] != 1) return "squeezes an axis that is not 1";
      drop[*axis] = true;
    }
  Shape shape;
  for (std::size_t i = 0; i < c.shape.size(); ++i)
    if (axes ? !drop[i] : c.shape[i] != 1) shape.push_back(c.shape[i]);
  c.shape = shape;
  return {};
}

std::string unsqueeze(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto axes = integers_of(c, 1, "axes");
  if (!axes) return "has axes that are not known at compile time";
  const std::size_t rank = c.shape.size() + axes->size();
  if (rank > 8) return "makes a shape of rank " + std::to_string(rank);
  std::vector<bool> fresh(rank, false);
  for (const std::int64_t a : *axes) {
    const auto axis = axis_in(a, rank);
    if (!axis || fresh[*axis]) return "has an axis that is outside its output, or there twice";
    fresh[*axis] = true;
  }
  Shape shape;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(fresh[i] ? 1 : c.shape[next++]);
  c.shape = shape;
  return {};
}

std::string transpose(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  std::vector<std::int64_t> perm = c.op.integers("perm", {});
  if (perm.empty())
    for (std::size_t i = c.shape.size(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  if (perm.size() != c.shape.size()) return "has a perm of the wrong length";
  std::vector<bool> seen(perm.size(), false);
  Shape shape;
  for (const std::int64_t p : perm) {
    if (p < 0 || p >= static_cast<std::int64_t>(perm.size()) || seen[static_cast<std::size_t>(p)])
      return "has a perm that is no permutation";
    seen[static_cast<std::size_t>(p)] = true;
    shape.push_back(c.shape[static_cast<std::size_t>(p)]);
  }
  c.shape = shape;
  return {};
}

std::string concat(Context& c) {
  if (std::string why = need(c, 1); !why.empty()) return why;
  return join(c, 0, 1);
}

/// inputs: output scale, output zero point, then (x, scale, zero point) for each.
std::string qlinear_concat(Context& c) {
  if (c.count() < 5 || (c.count() - 2) % 3 != 0) return "has the wrong number of inputs";
  if (std::string why = need(c, c.count()); !why.empty()) return why;
  if (std::string why = join(c, 2, 3); !why.empty()) return why;
  for (std::size_t i = 2; i < c.count(); i += 3) {
    if (!c.in(i).type.is_integer()) return "takes integers";
    if (std::string why = check_parameters(c, i, i + 1, i + 2, 1); !why.empty()) return why;
  }
  c.type = c.in(1).type;
  return check_result(c, 0, 1);
}

std::string shape_of(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  c.type = Type::integer(64);
  c.shape = {static_cast<std::int64_t>(c.shape.size())};
  return {};
}

std::string gather(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  const auto axis = axis_in(c.op.integer("axis", 0), c.rank(0));
  if (!axis || !c.in(1).type.is_integer())
    return "has an axis outside its input, or indices that are no integers";
  const Shape& data = c.shape_of(0);
  c.type = c.in(0).type;
  c.shape.assign(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(*axis));
  c.shape.insert(c.shape.end(), c.shape_of(1).begin(), c.shape_of(1).end());
  c.shape.insert(c.shape.end(), data.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, data.end());
  return {};
}

std::string slice(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto starts = integers_of(c, 1, "starts"), ends = integers_of(c, 2, "ends");
  if (!starts || !ends || starts->size() != ends->size())
    return "has bounds that are not known at compile time";
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (const auto given = integers_of(c, 3, "axes")) axes = *given;
  if (const auto steps = integers_of(c, 4, "steps"))
    for (const std::int64_t s : *steps)
      if (s != 1) return "has a step other than 1, which is not taken";
  if (axes.size() != starts->size()) return "has axes of the wrong length";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_in(axes[i], c.shape.size());
    if (!axis) return "has an axis outside its input";
    const std::int64_t extent = c.shape[*axis];
    const auto bound = [extent](std::int64_t x) {
      return std::min(std::max<std::int64_t>(x < 0 ? x + extent : x, 0), extent);
    };
    c.shape[*axis] = std::max<std::int64_t>(0, bound((*ends)[i]) - bound((*starts)[i]));
  }
  return {};
}

}  // namespace millrace::compiler::import::rules
