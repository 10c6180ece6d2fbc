// A plugin that does what the environment variable MILLRACE_FAULT says. Without that variable, it takes each node of
// type Relu together with the DequantizeLinear before it and the QuantizeLinear after it.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "millrace_plugin.hpp"

namespace {

using millrace::plugin::Graph;
using millrace::plugin::Subgraph;

std::string fault() {
  const char* text = std::getenv("MILLRACE_FAULT");
  return text == nullptr ? "" : text;
}

int partition(const millrace_graph* plain, const millrace_answer* answer) {
  if (fault() == "throw") throw std::runtime_error("the disk is full of bees");
  if (fault() == "crash") std::abort();
  if (fault() == "hang")
    for (;;) ::pause();
  if (fault() == "fail") {
    answer->fail(answer->context, "node 'r' is too large");
    return 7;
  }
  if (fault() == "print") ::write(STDOUT_FILENO, "hello\n", 6);
  const Graph graph(*plain);
  for (Subgraph& found :
       graph.filter_by_template({{"DequantizeLinear"}, {"Relu", {0}}, {"QuantizeLinear", {1}}})) {
    found.name = "relu";
    found.runner = "relu";
    if (fault() == "device") found.device = "gpu";
    if (fault() == "name") found.name = "../relu";
    if (fault() == "float") found.nodes.pop_back();
    if (fault() == "unknown") found.nodes.push_back(999);
    if (fault() == "many")
      for (std::size_t i = 1000; i < 1020; ++i) found.nodes.push_back(i);
    if (fault() == "empty") found.nodes.clear();
    found.select(*answer);
    if (fault() == "overlap") found.select(*answer);
  }
  return 0;
}

int compile(const millrace_block* block, const millrace_answer* answer) {
  if (fault() == "throw_compile") throw std::runtime_error("no hardware today");
  if (fault() == "crash_compile") std::abort();
  const std::uint32_t lanes[] = {fault() == "lanes" ? 3U : 1U};
  millrace_candidate candidate{};
  candidate.id = fault() == "id" ? "" : "slow";
  candidate.interval_cycles = fault() == "interval" ? 1 : block->inputs[0].elements;
  candidate.latency_cycles = 1;
  candidate.lead = fault() == "lead" ? 2 : 1;
  candidate.input_lanes = candidate.output_lanes = lanes;
  candidate.lut = fault() == "resources" ? -5 : 50;
  if (fault() != "none") answer->offer(answer->context, &candidate);
  return 0;
}

int build(const millrace_block*, const char*, const char* module, const millrace_answer* answer) {
  if (fault() == "build") return 3;
  const std::string name = std::string(module) + (fault() == "file" ? ".exe" : ".sv");
  answer->add_file(answer->context, name.c_str(),
                   ("module " + std::string(module) + " (); endmodule").c_str());
  return 0;
}

/// Computes Relu. With MILLRACE_FAULT=run, the first element says what goes wrong: 1 fails, 2 throws, 3 crashes, 4 hangs.
int run(const millrace_block* block, const void* const* inputs, void* const* outputs,
        const millrace_answer* answer) {
  const auto* from = static_cast<const std::int8_t*>(inputs[0]);
  auto* to = static_cast<std::int8_t*>(outputs[0]);
  const int first = fault() == "run" ? from[0] : 0;
  if (first == 1) {
    answer->fail(answer->context, "this plugin cannot compute");
    return 1;
  }
  if (first == 2) throw std::runtime_error("out of cheese");
  if (first == 3) std::abort();
  if (first == 4)
    for (;;) ::pause();
  for (std::uint64_t i = 0; i < block->inputs[0].elements; ++i)
    to[i] = from[i] < 0 ? std::int8_t{0} : from[i];
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const millrace_plugin* FACTORY(void) {
  static millrace_plugin plugin{MILLRACE_PLUGIN_ABI, "faulty", partition, compile, build, run};
  if (fault() == "null") return nullptr;
  if (fault() == "crash_factory") std::abort();
  if (fault() == "throw_factory") throw std::runtime_error("not now");
  plugin.abi = fault() == "abi" ? 99 : MILLRACE_PLUGIN_ABI;
  plugin.name = fault() == "unnamed" ? "" : "faulty";
  plugin.run = fault() == "function" ? nullptr : run;
  return &plugin;
}
