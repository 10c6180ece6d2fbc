#include "compiler/generators/unrolled.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <map>
#include <set>

#include "compiler/generators/netlist_builder.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::ElementType;

std::int64_t trailing_zeros(std::int64_t n) {
  return std::countr_zero(static_cast<std::uint64_t>(n));
}

/// Returns the lowest signed digit of an odd number, in the form in which no two adjacent digits are nonzero.
std::int64_t digit(std::int64_t odd) {
  return (odd & 3) == 3 ? -1 : 1;
}

/// Returns the sum of an odd number's two lowest nonzero signed digits, or its only nonzero signed digit.
std::int64_t low_pair(std::int64_t odd) {
  const std::int64_t rest = odd - digit(odd);
  if (rest == 0) return odd;
  const std::int64_t zeros = trailing_zeros(rest);
  return digit(odd) + digit(rest >> zeros) * (std::int64_t{1} << zeros);
}

/// Returns the pipeline stage that computes the product of an input and an odd number; 0 if the product is the input
/// itself.
unsigned stage_of(std::int64_t odd) {
  return odd == 1 ? 0 : low_pair(odd) == odd ? 1 : 2;
}

/// A computed value. Its signal omits the `zeros` lowest bits. If `minus` is set, the value is subtracted later.
struct Node {
  std::string name;
  std::int64_t low = 0, high = 0;  // range of the value
  std::int64_t zeros = 0;
  bool minus = false;

  std::int64_t bits() const { return bits_of(low, high) - zeros; }
  static std::int64_t bits_of(std::int64_t low, std::int64_t high) {
    if (low < 0) return signed_bits(low, high);
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(high))));
  }
};

class Unroller {
 public:
  Unroller(const ConstantMatrix& matrix, bool text) : matrix_(matrix), wanted_(text) {
    const ElementType type = matrix.input;
    const bool bipolar = type.kind == ElementType::Kind::kBipolar;
    low_ = bipolar ? -1 : type.lowest();
    high_ = bipolar ? 1 : type.highest();
    plan();
  }

  UnrolledModule run(const std::string& name, const std::string& about) {
    for (std::uint32_t i = 0; i < matrix_.columns; ++i) add_column(i);
    for (std::uint32_t o = 0; o < matrix_.rows; ++o) add_row(o);
    UnrolledModule made;
    made.latency = latency();
    made.parameters = {{"MH", matrix_.rows},          {"MW", matrix_.columns},
                       {"ABITS", matrix_.input.bits}, {"ACCBITS", matrix_.acc_bits},
                       {"LATENCY", made.latency},     {"ADDERS", adders_},
                       {"ADDBITS", adder_bits_},      {"REGBITS", register_bits_}};
    if (wanted_) made.text = head(name, about) + body_ + tail() + "endmodule\n`default_nettype wire\n";
    return made;
  }

 private:
  static std::string number(std::int64_t n) { return std::to_string(n); }
  unsigned latency() const { return stages_ + levels_ + (last_ ? 1 : 0); }
  std::int64_t weight(std::uint32_t o, std::uint32_t i) const {
    return matrix_.weights[std::size_t{o} * matrix_.columns + i];
  }
  std::int64_t bias(std::uint32_t o) const { return matrix_.biases.empty() ? 0 : matrix_.biases[o]; }

  /// Computes the number of stages for multiples, the depth of the adder trees, and whether a last clock is needed.
  void plan() {
    for (std::uint32_t o = 0; o < matrix_.rows; ++o) {
      std::size_t terms = 0;
      bool positive = false;
      for (std::uint32_t i = 0; i < matrix_.columns; ++i) {
        const std::int64_t w = weight(o, i);
        if (w == 0) continue;
        ++terms;
        positive = positive || w > 0;
        const std::int64_t size = std::abs(w);
        stages_ = std::max(stages_, stage_of(size >> trailing_zeros(size)));
      }
      levels_ = std::max(levels_, static_cast<unsigned>(terms > 1 ? std::bit_width(terms - 1) : 0));
      last_ = last_ || bias(o) != 0 || (terms > 0 && !positive);
    }
    last_ = last_ || stages_ + levels_ == 0;
  }

  static std::string declared(const Node& node) {
    return std::string(node.low < 0 ? "signed " : "") +
           (node.bits() > 1 ? "[" + number(node.bits() - 1) + ":0] " : "") + node.name;
  }

  /// Returns an expression for the node's signal extended to `bits` bits, of which the lowest `zeros` are then dropped.
  static std::string operand(const Node& node, std::int64_t bits, std::int64_t zeros) {
    const std::string wide = node.bits() == bits ? node.name
                             : node.low < 0      ? number(bits) + "'($signed(" + node.name + "))"
                                                 : number(bits) + "'(" + node.name + ")";
    return node.zeros == zeros ? wide : "(" + wide + " << " + number(node.zeros - zeros) + ")";
  }

  void store(const Node& node, const std::string& value) {
    register_bits_ += node.bits();
    if (!wanted_) return;
    names_ += "  logic " + declared(node) + ";\n";
    body_ += "    " + node.name + " <= " + value + ";\n";
  }

  /// Adds a register: the node's value one clock later.
  Node later(const Node& from, std::string name) {
    Node node = from;
    node.name = std::move(name);
    store(node, from.name);
    return node;
  }

  /// Adds a + b one clock later, considering the signs in `minus`. If `multiple` is set, the sum is a multiple of one
  /// input, and `multiple` has the sum's range.
  Node sum(const Node& a, const Node& b, std::string name, const Node* multiple = nullptr) {
    const bool same = a.minus == b.minus;
    const Node &left = same || !a.minus ? a : b, &right = same || !a.minus ? b : a;
    Node node;
    node.name = std::move(name);
    node.minus = same && a.minus;
    node.low = same ? left.low + right.low : left.low - right.high;
    node.high = same ? left.high + right.high : left.high - right.low;
    if (multiple != nullptr) {
      node.low = multiple->low;
      node.high = multiple->high;
    }
    node.zeros = std::min(left.zeros, right.zeros);
    ++adders_;
    adder_bits_ += same ? overlap(left, right, node) : node.bits() + node.zeros - right.zeros;
    std::string value;
    if (wanted_)
      value = operand(left, node.bits(), node.zeros) + (same ? " + " : " - ") +
              operand(right, node.bits(), node.zeros);
    store(node, value);
    return node;
  }

  /// Returns at how many positions of a sum both operands have a bit. At all other positions, one operand passes
  /// through the carry chain or, in a subtraction, through inverters above its own lowest bit.
  static std::int64_t overlap(const Node& left, const Node& right, const Node& sum) {
    const auto top = [&](const Node& n) {
      return n.low < 0 ? sum.bits() + sum.zeros : std::min(n.bits() + n.zeros, sum.bits() + sum.zeros);
    };
    return std::max<std::int64_t>(0, std::min(top(left), top(right)) - std::max(left.zeros, right.zeros));
  }

  Node scaled(const Node& from, std::int64_t by) const {
    Node node = from;
    node.low *= by;
    node.high *= by;
    node.zeros += trailing_zeros(by);
    return node;
  }

  void add_column(std::uint32_t i) {
    std::set<std::int64_t> used, first;
    for (std::uint32_t o = 0; o < matrix_.rows; ++o) {
      const std::int64_t size = std::abs(weight(o, i));
      if (size != 0) used.insert(size >> trailing_zeros(size));
    }
    Node x;
    x.name = "x" + number(i);
    x.low = low_;
    x.high = high_;
    if (wanted_ && !used.empty()) {
      const std::string bits = number(matrix_.input.bits),
                        at = "s_data[" + number(i) + "*" + bits + "+:" + bits + "]";
      names_ += "  logic " + declared(x) + ";\n  assign " + x.name + " = " +
                (matrix_.input.kind == ElementType::Kind::kBipolar ? "{!" + at + ", 1'b1}" : at) + ";\n";
    }
    for (const std::int64_t odd : used) {
      if (stage_of(odd) < 2) {
        first.insert(odd);
        continue;
      }
      const std::int64_t pair = low_pair(odd), rest = odd - pair;
      first.insert(std::abs(pair));
      first.insert(rest >> trailing_zeros(rest));
    }
    std::map<std::int64_t, Node> made;
    if (stages_ == 0) {
      for (const std::int64_t odd : used) made[odd] = x;
    } else {
      open();
      for (const std::int64_t odd : first) made[odd] = first_stage(x, odd, stages_ == 1 ? "" : "_early");
      if (stages_ == 2) {
        std::map<std::int64_t, Node> second;
        for (const std::int64_t odd : used) second[odd] = second_stage(x, made, odd);
        made = std::move(second);
      }
      close();
    }
    multiples_.push_back(std::move(made));
  }

  Node first_stage(const Node& x, std::int64_t odd, const char* suffix) {
    const std::string name = x.name + "_" + number(odd) + suffix;
    if (odd == 1) return later(x, name);
    Node one = x;
    one.minus = digit(odd) < 0;
    const Node range = scaled(x, odd);
    return sum(scaled(x, odd - digit(odd)), one, name, &range);
  }

  Node second_stage(const Node& x, const std::map<std::int64_t, Node>& first, std::int64_t odd) {
    const std::string name = x.name + "_" + number(odd);
    if (stage_of(odd) < 2) return later(first.at(odd), name);
    const std::int64_t pair = low_pair(odd), rest = odd - pair;
    const std::int64_t shift = std::int64_t{1} << trailing_zeros(rest);
    Node low = first.at(std::abs(pair));
    low.minus = pair < 0;
    const Node range = scaled(x, odd);
    return sum(scaled(first.at(rest / shift), shift), low, name, &range);
  }

  void add_row(std::uint32_t o) {
    std::vector<Node> nodes;
    for (std::uint32_t i = 0; i < matrix_.columns; ++i) {
      const std::int64_t w = weight(o, i), size = std::abs(w);
      if (w == 0) continue;
      const std::int64_t zeros = trailing_zeros(size);
      nodes.push_back(scaled(multiples_[i].at(size >> zeros), std::int64_t{1} << zeros));
      nodes.back().minus = w < 0;
    }
    std::stable_sort(nodes.begin(), nodes.end(),
                     [](const Node& a, const Node& b) { return a.bits() + a.zeros < b.bits() + b.zeros; });
    open();
    const std::string row = "y" + number(o) + "_";
    for (unsigned level = 1; level <= levels_; ++level) {
      std::vector<Node> next;
      for (std::size_t n = 0; n < nodes.size(); n += 2) {
        std::string name;  // stays empty if no text is wanted
        if (wanted_) name = row + number(level) + "_" + number(static_cast<std::int64_t>(n / 2));
        next.push_back(n + 1 < nodes.size() ? sum(nodes[n], nodes[n + 1], name) : later(nodes[n], name));
      }
      nodes = std::move(next);
    }
    finish(o, nodes);
    close();
  }

  void finish(std::uint32_t o, const std::vector<Node>& nodes) {
    assert(nodes.size() <= 1);
    const auto bits = static_cast<std::int64_t>(matrix_.acc_bits);
    const std::string sum = "y" + number(o);
    const bool negated = !nodes.empty() && nodes.front().minus;
    if (last_ && !nodes.empty()) {
      register_bits_ += bits - (bias(o) == 0 && !negated ? nodes.front().zeros : 0);
      if (bias(o) != 0 || negated) {
        ++adders_;
        adder_bits_ += bits;
      }
    }
    if (!wanted_) return;
    names_ += "  logic [" + number(bits - 1) + ":0] " + sum + ";\n";
    joined_ = sum + (joined_.empty() ? "" : ", ") + joined_;
    const std::int64_t b = bias(o);
    const std::string constant = (b < 0 ? "-" : "") + number(bits) + "'sd" + number(b < 0 ? -b : b);
    const std::string value = nodes.empty() ? constant
                              : negated     ? constant + " - " + operand_of_result(nodes.front())
                              : b != 0      ? constant + " + " + operand_of_result(nodes.front())
                                            : operand_of_result(nodes.front());
    if (last_ && !nodes.empty())
      body_ += "    " + sum + " <= " + value + ";\n";
    else
      assigns_ += "  assign " + sum + " = " + value + ";\n";
  }

  /// Returns the last node as an expression of acc_bits bits, which may be more bits than the range of the node needs.
  std::string operand_of_result(const Node& node) const {
    const auto bits = static_cast<std::int64_t>(matrix_.acc_bits);
    const std::string wide =
        number(bits) + "'(" + (node.low < 0 ? "$signed(" + node.name + ")" : node.name) + ")";
    return node.zeros == 0 ? wide : "(" + wide + " << " + number(node.zeros) + ")";
  }

  void open() { mark_ = body_.size(); }
  /// Puts all text that was stored since open() into an always_ff block.
  void close() {
    if (body_.size() == mark_) return;
    body_.insert(mark_, "  always_ff @(posedge clk) if (en) begin\n");
    body_ += "  end\n";
  }

  std::string head(const std::string& name, const std::string& about) const {
    const std::string in = number(std::int64_t{matrix_.columns} * matrix_.input.bits - 1),
                      out = number(std::int64_t{matrix_.rows} * matrix_.acc_bits - 1),
                      deep = number(latency()), top = number(std::int64_t{latency()} - 1);
    return "/// " + name + ": " + about +
           "\n///\n"
           "/// Lane i of s_data is input i, and lane o of m_data is sum o. x3_5 is input 3 times 5. "
           "y2_1_0 is the first node on level 1 of the adder tree of sum 2.\n"
           "/// Interval 1, latency " +
           deep + ". Registered: multiples, every adder level, m_valid" + (last_ ? ", m_data" : "") +
           ". "
           "The module was generated for these constants and has never been through Vivado.\n"
           "`default_nettype none\n"
           "module " +
           name +
           " (\n"
           "  input  logic clk,\n"
           "  input  logic rst,\n\n"
           "  input  logic s_valid,\n"
           "  output logic s_ready,\n"
           "  input  logic [" +
           in +
           ":0] s_data,\n\n"
           "  output logic m_valid,\n"
           "  input  logic m_ready,\n"
           "  output logic [" +
           out +
           ":0] m_data\n);\n"
           "  logic en;\n"
           "  logic [" +
           top +
           ":0] valid;\n"
           "  assign en = !m_valid || m_ready;\n"
           "  assign s_ready = en;\n"
           "  assign m_valid = valid[" +
           top +
           "];\n"
           "  always_ff @(posedge clk)\n"
           "    if (rst) valid <= '0;\n"
           "    else if (en) valid <= " +
           deep +
           "'({valid, s_valid});\n"
           "  logic unused;\n"
           "  assign unused = &{1'b0, s_data};  // inputs whose weights are all zero\n\n" +
           names_ + "\n" + assigns_;
  }

  std::string tail() const {
    return "  assign m_data = {" + joined_ +
           "};\n"
           "`ifndef SYNTHESIS\n"
           "  mr_handshake_check #(.WIDTH(" +
           number(std::int64_t{matrix_.rows} * matrix_.acc_bits) +
           ")) check (.clk, .rst, "
           ".valid(m_valid), .ready(m_ready), .data(m_data));\n"
           "`endif\n";
  }

  const ConstantMatrix& matrix_;
  bool wanted_;
  std::int64_t low_ = 0, high_ = 0;
  unsigned stages_ = 0, levels_ = 0;
  bool last_ = false;
  std::vector<std::map<std::int64_t, Node>> multiples_;  // one map per input; the key is the odd number
  std::int64_t adders_ = 0, adder_bits_ = 0, register_bits_ = 0;
  std::size_t mark_ = 0;
  std::string names_, body_, assigns_, joined_;
};

}  // namespace

UnrolledModule unroll(const ConstantMatrix& matrix, const std::string& name, const std::string& about,
                      bool text) {
  assert(matrix.weights.size() == std::size_t{matrix.rows} * matrix.columns);
  return Unroller(matrix, text).run(name, about);
}

}  // namespace millrace::compiler::generators
