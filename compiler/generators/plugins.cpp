#include "compiler/generators/plugins.hpp"

#include <cassert>
#include <set>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plugins/library.hpp"

namespace millrace::compiler::generators {

Result<std::shared_ptr<Plugins>> Plugins::open(const std::vector<std::filesystem::path>& programs,
                                               std::chrono::milliseconds time_limit) {
  std::vector<std::shared_ptr<Plugin>> opened;
  std::set<std::string> names;
  for (const auto& program : programs) {
    MILLRACE_ASSIGN(auto plugin, Plugin::open(program, time_limit));
    if (!names.insert(plugin->name()).second)
      return Error(ErrorCode::kInvalidInput,
                   "--plugins " + program.string() + ": an earlier plugin is called '" + plugin->name() +
                       "', too; list each plugin only once, or rename one of the two files");
    opened.push_back(std::move(plugin));
  }
  return std::shared_ptr<Plugins>(new Plugins(std::move(opened)));
}

Result<std::vector<PluginSubgraph>> Plugins::partition(
    const std::function<std::string(const std::vector<bool>& taken)>& describe,
    const std::vector<std::string>& nodes) const {
  std::vector<PluginSubgraph> all;
  std::vector<bool> taken(nodes.size());
  for (const auto& plugin : plugins_) {
    if (plugin->library().empty()) continue;
    MILLRACE_ASSIGN(std::vector<PluginSubgraph> found, plugin->partition(describe(taken), nodes, taken));
    for (PluginSubgraph& one : found) {
      for (const std::size_t i : one.nodes) taken[i] = true;
      all.push_back(std::move(one));
    }
  }
  return all;
}

Result<std::map<std::string, std::vector<std::byte>>> Plugins::libraries_of(
    const kernels::Program& program) const {
  std::map<std::string, std::vector<std::byte>> found;
  for (const kernels::Block& block : program.blocks) {
    const auto* op = std::get_if<kernels::PluginOperator>(&block.operation);
    if (op == nullptr || found.contains(op->library)) continue;
    for (const auto& plugin : plugins_) {
      if (plugin->library() != op->library) continue;
      MILLRACE_ASSIGN(found[op->library], read_file(plugin->file(), runtime::plugins::kMostLibraryBytes));
      if (sha256_hex(found[op->library]) != op->library)
        return Error(ErrorCode::kCorrupt, "plugin '" + plugin->file().string() +
                                              "' was replaced while the model was compiled; compile again");
      break;
    }
  }
  return found;
}

Status Plugins::prepare(const kernels::Program& program) {
  for (const auto& plugin : plugins_) MILLRACE_TRY(plugin->prepare(program));
  return {};
}

std::vector<Plugins::Offer> Plugins::offers(const kernels::Program& program,
                                            const kernels::Block& block) const {
  std::vector<Offer> all;
  std::set<std::string> taken;
  for (const auto& plugin : plugins_)
    for (Candidate& candidate : plugin->offered(program, block)) {
      std::string& name = candidate.folding.variant;
      const std::string id = name;
      if (taken.contains(name)) name = plugin->name() + "." + id;
      while (!taken.insert(name).second) name += "_";
      all.push_back({plugin.get(), id, std::move(candidate)});
    }
  return all;
}

std::vector<Candidate> Plugins::offered(const kernels::Program& program, const kernels::Block& block) const {
  std::vector<Candidate> candidates;
  for (Offer& offer : offers(program, block)) candidates.push_back(std::move(offer.candidate));
  return candidates;
}

Result<Netlist> Plugins::construct(const kernels::Program& program, const kernels::Block& block,
                                   const Candidate& candidate, NetlistBuilder& netlist) const {
  for (const Offer& offer : offers(program, block)) {
    if (offer.candidate.folding != candidate.folding) continue;
    Candidate own = candidate;
    own.folding.variant = offer.id;
    return offer.plugin->construct(program, block, own, netlist);
  }
  assert(false);
  return Error(ErrorCode::kInternal, "block '" + block.name + "': no plugin offers the candidate '" +
                                         candidate.folding.variant + "'");
}

std::string Plugins::names() const {
  std::string text;
  for (const auto& plugin : plugins_) text += (text.empty() ? "'" : ", '") + plugin->name() + "'";
  return text;
}

}  // namespace millrace::compiler::generators
