#include "compiler/generators/shell.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/generators/blocks.hpp"

namespace millrace::compiler::generators {
namespace {

std::int64_t number(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

Result<Cost> tag_fifo(const Catalog& catalog) {
  return cost(catalog, "mr_fifo", {{"WIDTH", kTagBits}, {"DEPTH", kTags}, {"MEMORY", 1}});
}

/// Returns the cost of a link port whose beats are cable words. Other widths differ by some hundred LUTs.
Result<Cost> link_port_cost(const Catalog& catalog, const ShellPort& port) {
  const std::uint64_t bits = port.beats * port.lanes * port.type.bits, word = 8 * kLinkBytes;
  Parameters parameters = {{"BYTES", kLinkBytes},
                           {"LANES", kLinkBytes},
                           {"ABITS", 8},
                           {"BEATS", number((bits + word - 1) / word)}};
  if (port.input) {
    parameters.emplace_back("BUFFER", kLeastLinkCredits * kLinkPacket / kLinkBytes);
    parameters.emplace_back("MOST", kLeastLinkCredits);
    return cost(catalog, "mr_link_receive", parameters);
  }
  parameters.emplace_back("PACKET", kLinkPacket);
  MILLRACE_ASSIGN(const Cost send, cost(catalog, "mr_link_send", parameters));
  MILLRACE_ASSIGN(const Cost tags, tag_fifo(catalog));
  return send + tags;
}

}  // namespace

Instance host_port(const ShellPort& port) {
  return {port.input ? "mr_ingress" : "mr_egress",
          "",
          {{"DATA_BYTES", kDataBytes},
           {"BURST", kBurst},
           {"LANES", port.lanes},
           {"EBYTES", number(port.type.storage_bytes())},
           {"ABITS", port.type.bits},
           {"AKIND", kind(port.type)}}};
}

Result<Cost> host_port_cost(const Catalog& catalog, const ShellPort& port) {
  const Instance unit = host_port(port);
  MILLRACE_ASSIGN(Cost sum, cost(catalog, unit.module, unit.parameters));
  if (port.input) return sum;
  MILLRACE_ASSIGN(const Cost tags, tag_fifo(catalog));
  return sum + tags;
}

Result<Cost> shell_cost(const Catalog& catalog, const std::vector<ShellPort>& ports, double clock_mhz,
                        std::uint32_t connectors) {
  const auto links = std::count_if(ports.begin(), ports.end(), [](const auto& port) { return port.link; });
  MILLRACE_ASSIGN(Cost sum, cost(catalog, "mr_control",
                                 {{"LINK_PORTS", links},
                                  {"CLOCK_MHZ", static_cast<std::int64_t>(std::llround(clock_mhz))}}));
  MILLRACE_ASSIGN(const Cost supervisor, cost(catalog, "mr_supervisor", {{"DATA_BYTES", kDataBytes}}));
  sum += supervisor;
  if (links > 0) {
    MILLRACE_ASSIGN(const Cost hub, cost(catalog, "mr_link_hub",
                                         {{"BYTES", kLinkBytes},
                                          {"PORTS", links},
                                          {"CONNECTORS", std::max(1U, connectors)},
                                          {"PACKET", kLinkPacket}}));
    sum += hub;
  }
  const auto inputs = std::count_if(ports.begin(), ports.end(), [](const auto& port) { return port.input; });
  const auto outputs = static_cast<std::ptrdiff_t>(ports.size()) - inputs;
  for (const auto& [module, count] : {std::pair("mr_join", inputs), std::pair("mr_fork", outputs)}) {
    if (count == 0) continue;
    MILLRACE_ASSIGN(const Cost tags, cost(catalog, module, {{"N", count}, {"WIDTH", kTagBits}}));
    sum += tags;
  }
  for (const auto& port : ports) {
    MILLRACE_ASSIGN(const Cost one,
                    port.link ? link_port_cost(catalog, port) : host_port_cost(catalog, port));
    sum += one;
  }
  return sum;
}

}  // namespace millrace::compiler::generators
