// Asks a plugin's library which nodes of a model it computes.
#include <algorithm>
#include <map>
#include <utility>

#include "compiler/generators/plugin.hpp"
#include "compiler/generators/plugin_answer.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::generators {
namespace {

constexpr std::size_t kMostSubgraphs = 20000;
constexpr std::size_t kMostFindings = 10;
constexpr char kCard[] = "card";  // the only device on which plugins compute

/// What is wrong with an answer. An error quotes the first findings and counts the others.
class Findings {
 public:
  void add(const std::string& finding) {
    if (++count_ <= kMostFindings) text_ += "\n  " + printable(finding);
  }
  Status status() const {
    if (count_ == 0) return {};
    std::string more;
    if (count_ > kMostFindings) {
      const std::size_t unlisted = count_ - kMostFindings;
      more = "\n  and " + std::to_string(unlisted) + " more";
    }
    return Error(ErrorCode::kInvalidInput,
                 "the plugin's partition() selects nodes that a plugin may not take:" + text_ + more);
  }

 private:
  std::size_t count_ = 0;
  std::string text_;
};

/// Reads a text of a subgraph.
Result<std::string> read_text(const Field& field, const char* key) {
  MILLRACE_ASSIGN(const Field text, field.member(key));
  if (!text.value().is_string()) return text.error("not a text");
  return std::string(text.value().get_string());
}

Result<PluginSubgraph> read_subgraph(const Field& field) {
  MILLRACE_TRY(field.object({"name", "device", "runner", "settings", "nodes"}));
  PluginSubgraph made;
  MILLRACE_ASSIGN(made.name, field.name("name"));
  MILLRACE_ASSIGN(const std::string device, read_text(field, "device"));
  if (device != kCard)
    return field.error("device '" + printable(device.substr(0, 80)) + "' of subgraph '" + made.name +
                       "' does not exist; plugins compute on the device 'card'");
  MILLRACE_ASSIGN(made.op.runner, field.name("runner"));
  MILLRACE_ASSIGN(made.op.settings, read_text(field, "settings"));
  MILLRACE_ASSIGN(const Field nodes, field.member("nodes"));
  if (!nodes.value().is_array() || nodes.value().get_array().empty())
    return nodes.error("not a list of at least one node");
  for (const auto& one : nodes.value().get_array()) {
    if (!one.is_int64() || one.get_int64() < 0) return nodes.error("not a list of numbers of nodes");
    made.nodes.push_back(static_cast<std::size_t>(one.get_int64()));
  }
  std::sort(made.nodes.begin(), made.nodes.end());
  return made;
}

/// Checks that each node exists and that no other subgraph has it.
void check_nodes(const std::vector<PluginSubgraph>& all, const std::vector<std::string>& nodes,
                 const std::vector<bool>& taken, Findings& findings) {
  std::map<std::size_t, std::string> owner;  // the subgraph that has each node
  for (const PluginSubgraph& one : all)
    for (const std::size_t i : one.nodes) {
      const std::string here = "subgraph '" + one.name + "': ";
      if (i >= nodes.size()) {
        findings.add(here + "node number " + std::to_string(i) + " does not exist; the model has " +
                     std::to_string(nodes.size()) + " nodes");
        continue;
      }
      if (taken[i]) findings.add(here + "an earlier plugin has node '" + nodes[i] + "'");
      const auto [other, fresh] = owner.emplace(i, one.name);
      if (!fresh) findings.add(here + "node '" + nodes[i] + "' is in subgraph '" + other->second + "', too");
    }
}

}  // namespace

Result<std::vector<PluginSubgraph>> Plugin::partition(const std::string& graph,
                                                      const std::vector<std::string>& nodes,
                                                      const std::vector<bool>& taken) const {
  std::vector<PluginSubgraph> found;
  if (library_.empty()) return found;
  const std::string task = "the nodes that it computes";
  MILLRACE_ASSIGN(const std::string text,
                  call(task, "{\"schema\":1,\"ask\":\"partition\",\"graph\":" + graph + "}\n"));
  const Status read = read_answer(text, {"schema", "plugin", "subgraphs"}, [&](const Field& root) -> Status {
    MILLRACE_ASSIGN(const std::string plugin, root.name("plugin"));
    MILLRACE_ASSIGN(const Field all, root.member("subgraphs"));
    if (!all.value().is_array() || all.value().get_array().size() > kMostSubgraphs)
      return all.error("not a list of at most " + std::to_string(kMostSubgraphs));
    for (const auto& one : all.value().get_array()) {
      MILLRACE_ASSIGN(PluginSubgraph subgraph,
                      read_subgraph(Field(one, all.path() + "[" + std::to_string(found.size()) + "]")));
      subgraph.op.plugin = plugin;
      subgraph.op.library = library_;
      found.push_back(std::move(subgraph));
    }
    Findings findings;
    check_nodes(found, nodes, taken, findings);
    return findings.status();
  });
  if (!read.ok()) return wrong(task, read.error().message());
  return found;
}

}  // namespace millrace::compiler::generators
