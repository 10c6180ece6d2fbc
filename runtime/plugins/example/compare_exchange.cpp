// An example of a plugin: computes the operator org.example:CompareExchange, which Millrace does not know. The operator has
// two inputs and two outputs of one shape. Element by element, the first output is the smaller of the two inputs and the
// second output the larger one. Sorting networks consist of such operators. README.md explains the plugin step by step.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "millrace_plugin.hpp"

namespace {

using millrace::plugin::Graph;
using millrace::plugin::Subgraph;

constexpr char kOperator[] = "org.example:CompareExchange";
constexpr char kRunner[] = "compare_exchange";
// The signal `take` of the hardware enables two registers of each lane. With 16 lanes of 8 bits it drives 256 flip-flops;
// more would make the clock slow.
constexpr std::uint64_t kMostLanes = 16;

int fail(const millrace_answer* answer, const std::string& why) {
  answer->fail(answer->context, why.c_str());
  return 1;
}

bool is(const millrace_node& node, const char* type) {
  return std::strcmp(node.type, type) == 0 && node.domain[0] == '\0';
}

/// Whether two quantisers have the same constant scale and zero point.
bool same_scale(const Graph& graph, const millrace_node& a, const millrace_node& b) {
  const millrace_value *scale_a = graph.input(a, 1), *scale_b = graph.input(b, 1);
  if (scale_a == nullptr || scale_b == nullptr || scale_a->reals == nullptr || scale_b->reals == nullptr)
    return false;
  if (scale_a->element_count != 1 || scale_b->element_count != 1 || scale_a->reals[0] != scale_b->reals[0])
    return false;
  const auto zero = [&](const millrace_node& n) -> std::int64_t {
    const millrace_value* value = graph.input(n, 2);
    return value == nullptr || value->integers == nullptr ? 0 : value->integers[0];
  };
  return zero(a) == zero(b);
}

/// Selects each CompareExchange together with the two DequantizeLinear before it and the QuantizeLinear after each of
/// its outputs. If all of them have the same scale, comparing the integers gives the same order as comparing the
/// numbers that they stand for.
int partition(const millrace_graph* plain, const millrace_answer* answer) {
  const Graph graph(*plain);
  for (Subgraph& found : graph.filter_by_type(kOperator)) {
    const millrace_node& node = graph.node(found.nodes.front());
    const std::string here = std::string("node '") + node.name + "': ";
    std::vector<std::size_t> quantisers;
    for (std::size_t i = 0; i < 2; ++i) {
      const Subgraph before = graph.producer(node, i), behind = graph.readers(node, i);
      if (before.nodes.size() != 1 || !is(graph.node(before.nodes.front()), "DequantizeLinear"))
        return fail(answer, here + "a DequantizeLinear must produce each input of the node");
      if (behind.nodes.size() != 1 || !is(graph.node(behind.nodes.front()), "QuantizeLinear"))
        return fail(answer, here + "one QuantizeLinear must read each output of the node");
      quantisers.push_back(before.nodes.front());
      quantisers.push_back(behind.nodes.front());
      found.merge(before);
      found.merge(behind);
    }
    for (const std::size_t other : quantisers)
      if (!same_scale(graph, graph.node(quantisers.front()), graph.node(other)))
        return fail(answer, here + "the node's inputs and outputs must share one scale and one zero point");
    found.name = node.name;
    found.device = "card";
    found.runner = kRunner;
    found.select(*answer);
  }
  return 0;
}

/// Whether the ports of a block are those of a CompareExchange on integers of at most 8 bits.
bool is_sound(const millrace_block* block) {
  if (block->input_count != 2 || block->output_count != 2) return false;
  const millrace_tensor& first = block->inputs[0];
  for (const millrace_tensor* t : {&block->inputs[1], &block->outputs[0], &block->outputs[1]})
    if (t->kind != first.kind || t->bits != first.bits || t->elements != first.elements) return false;
  return first.kind <= MILLRACE_UNSIGNED && first.bits <= 8;
}

/// Offers one candidate for each number of lanes that divides the number of elements. The formulas for LUTs and flip-flops
/// give exactly what Yosys 0.23 counts in the module for UltraScale+, for 4 and 8 bits and 1, 2, 4, 8 and 16 lanes.
int compile(const millrace_block* block, const millrace_answer* answer) {
  if (!is_sound(block))
    return fail(answer, "the two inputs and two outputs must have the same integer type of at most 8 bits");
  const std::uint64_t elements = block->inputs[0].elements;
  const std::int64_t bits = block->inputs[0].bits;
  for (std::uint32_t lanes = 1; lanes <= std::min<std::uint64_t>(elements, kMostLanes); ++lanes) {
    if (elements % lanes != 0) continue;
    const std::string id = "lanes" + std::to_string(lanes);
    const std::uint32_t both[] = {lanes, lanes};
    millrace_candidate candidate{};
    candidate.id = id.c_str();
    candidate.interval_cycles = elements / lanes;
    candidate.latency_cycles = 1;
    candidate.lead = static_cast<double>(lanes) / static_cast<double>(elements);
    candidate.input_lanes = both;
    candidate.output_lanes = both;
    candidate.lut = 3 + (lanes * 11 * bits + 3) / 4;
    candidate.ff = 2 + lanes * 2 * bits;
    answer->offer(answer->context, &candidate);
  }
  return 0;
}

/// The hardware. %...% are the names and numbers that build() fills in.
constexpr char kModule[] = R"(// Element by element, m0 has the smaller of s0 and s1, and m1 the larger one.
`default_nettype none
module %MODULE% (
  input  logic clk,
  input  logic rst,
  input  logic s0_valid,
  output logic s0_ready,
  input  logic [%WIDTH%-1:0] s0_data,
  input  logic s1_valid,
  output logic s1_ready,
  input  logic [%WIDTH%-1:0] s1_data,
  output logic m0_valid,
  input  logic m0_ready,
  output logic [%WIDTH%-1:0] m0_data,
  output logic m1_valid,
  input  logic m1_ready,
  output logic [%WIDTH%-1:0] m1_data
);
  // A beat of both inputs is taken at once, when the registers of both outputs are free.
  logic take;
  assign take = s0_valid && s1_valid && (!m0_valid || m0_ready) && (!m1_valid || m1_ready);
  assign s0_ready = take;
  assign s1_ready = take;

  always_ff @(posedge clk)
    if (rst) begin
      m0_valid <= 1'b0;
      m1_valid <= 1'b0;
    end else begin
      if (take || m0_ready) m0_valid <= take;
      if (take || m1_ready) m1_valid <= take;
    end

  for (genvar i = 0; i < %LANES%; i = i + 1) begin : lane
    logic %SIGNED%[%BITS%-1:0] a, b;
    assign a = s0_data[i*%BITS% +: %BITS%];
    assign b = s1_data[i*%BITS% +: %BITS%];
    always_ff @(posedge clk)
      if (take) begin
        m0_data[i*%BITS% +: %BITS%] <= a < b ? a : b;
        m1_data[i*%BITS% +: %BITS%] <= a < b ? b : a;
      end
  end
endmodule
`default_nettype wire
)";

int build(const millrace_block* block, const char* candidate, const char* module,
          const millrace_answer* answer) {
  const std::string lanes = std::string(candidate).substr(std::strlen("lanes"));
  const std::string bits = std::to_string(block->inputs[0].bits);
  std::string text = kModule;
  const auto fill = [&text](const std::string& name, const std::string& value) {
    for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.replace(at, name.size(), value);
  };
  fill("%MODULE%", module);
  fill("%WIDTH%", lanes + "*" + bits);
  fill("%LANES%", lanes);
  fill("%BITS%", bits);
  fill("%SIGNED%", block->inputs[0].kind == MILLRACE_SIGNED ? "signed " : "");
  answer->add_file(answer->context, (std::string(module) + ".sv").c_str(), text.c_str());
  return 0;
}

template <class Element>
void exchange(const void* const* inputs, void* const* outputs, std::uint64_t elements) {
  const auto *a = static_cast<const Element*>(inputs[0]), *b = static_cast<const Element*>(inputs[1]);
  auto *low = static_cast<Element*>(outputs[0]), *high = static_cast<Element*>(outputs[1]);
  for (std::uint64_t i = 0; i < elements; ++i) {
    low[i] = std::min(a[i], b[i]);
    high[i] = std::max(a[i], b[i]);
  }
}

/// Computes a frame on an emulated card. Elements of at most 8 bits have one byte each.
int run(const millrace_block* block, const void* const* inputs, void* const* outputs,
        const millrace_answer* answer) {
  if (!is_sound(block))
    return fail(answer, "the two inputs and two outputs must have the same integer type of at most 8 bits");
  if (block->inputs[0].kind == MILLRACE_SIGNED)
    exchange<std::int8_t>(inputs, outputs, block->inputs[0].elements);
  else
    exchange<std::uint8_t>(inputs, outputs, block->inputs[0].elements);
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const millrace_plugin* get_plugin(void) {
  static const millrace_plugin plugin{
      MILLRACE_PLUGIN_ABI, "compare_exchange", partition, compile, build, run};
  return &plugin;
}
