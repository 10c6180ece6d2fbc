// millrace-plugin LIBRARY SHA256: asks a plugin's library one question. The question is JSON on standard input, and the
// answer is JSON on standard output; compiler/generators/README.md describes both. Millrace runs this program as a child
// process, so that a library that crashes or hangs does no harm to Millrace. Exit codes: 0, or 1 with the reason on
// standard error.
#include <unistd.h>

#include <boost/json.hpp>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plugins/library.hpp"

namespace millrace::runtime::plugins {
namespace {

namespace json = boost::json;

/// Holds everything to which the structs for the plugin point.
class Memory {
 public:
  const char* text(const json::value& value) {
    return keep(std::make_shared<std::string>(value.as_string()))->c_str();
  }
  template <class T>
  const T* numbers(const json::array& values) {
    std::vector<T> list;
    for (const json::value& v : values) list.push_back(v.to_number<T>());
    return structs(std::move(list));
  }
  template <class T>
  T* structs(std::vector<T> values) {
    return keep(std::make_shared<std::vector<T>>(std::move(values)))->data();
  }

 private:
  template <class T>
  T* keep(std::shared_ptr<T> held) {
    held_.push_back(held);
    return held.get();
  }
  std::vector<std::shared_ptr<void>> held_;
};

std::uint32_t kind_of(const json::value& name) {
  const auto& text = name.as_string();
  if (text == "signed") return MILLRACE_SIGNED;
  if (text == "unsigned") return MILLRACE_UNSIGNED;
  if (text == "bipolar") return MILLRACE_BIPOLAR;
  return MILLRACE_FLOAT;
}

/// Returns the array `key` of an object, or an empty one.
const json::array& array_in(const json::object& object, const char* key) {
  static const json::array none;
  const json::value* const found = object.if_contains(key);
  return found == nullptr || !found->is_array() ? none : found->get_array();
}

millrace_value value_of(Memory& memory, const json::object& v) {
  millrace_value out{};
  out.name = memory.text(v.at("name"));
  out.kind = kind_of(v.at("kind"));
  out.bits = v.at("bits").to_number<std::uint32_t>();
  out.shape = memory.numbers<std::int64_t>(array_in(v, "shape"));
  out.axes = array_in(v, "shape").size();
  out.is_constant = v.at("constant").as_bool() ? 1 : 0;
  if (v.contains("integers")) out.integers = memory.numbers<std::int64_t>(array_in(v, "integers"));
  if (v.contains("reals")) out.reals = memory.numbers<float>(array_in(v, "reals"));
  out.element_count = array_in(v, "integers").size() + array_in(v, "reals").size();
  return out;
}

millrace_node node_of(Memory& memory, const json::object& n) {
  std::vector<millrace_attribute> attributes;
  for (const json::value& one : array_in(n, "attributes")) {
    const json::object& a = one.as_object();
    millrace_attribute out{};
    out.name = memory.text(a.at("name"));
    if (a.contains("integers")) out.integers = memory.numbers<std::int64_t>(array_in(a, "integers"));
    out.integer_count = array_in(a, "integers").size();
    if (a.contains("reals")) out.reals = memory.numbers<float>(array_in(a, "reals"));
    out.real_count = array_in(a, "reals").size();
    if (a.contains("text")) out.text = memory.text(a.at("text"));
    attributes.push_back(out);
  }
  millrace_node out{};
  out.name = memory.text(n.at("name"));
  out.domain = memory.text(n.at("domain"));
  out.type = memory.text(n.at("type"));
  out.inputs = memory.numbers<std::int64_t>(array_in(n, "inputs"));
  out.input_count = array_in(n, "inputs").size();
  out.outputs = memory.numbers<std::int64_t>(array_in(n, "outputs"));
  out.output_count = array_in(n, "outputs").size();
  out.attribute_count = attributes.size();
  out.attributes = memory.structs(std::move(attributes));
  out.is_taken = n.at("taken").as_bool() ? 1 : 0;
  return out;
}

millrace_graph graph_of(Memory& memory, const json::object& g) {
  std::vector<millrace_value> values;
  for (const json::value& v : array_in(g, "values")) values.push_back(value_of(memory, v.as_object()));
  std::vector<millrace_node> nodes;
  for (const json::value& n : array_in(g, "nodes")) nodes.push_back(node_of(memory, n.as_object()));
  millrace_graph out{};
  out.name = memory.text(g.at("name"));
  out.value_count = values.size();
  out.values = memory.structs(std::move(values));
  out.node_count = nodes.size();
  out.nodes = memory.structs(std::move(nodes));
  out.inputs = memory.numbers<std::int64_t>(array_in(g, "inputs"));
  out.input_count = array_in(g, "inputs").size();
  out.outputs = memory.numbers<std::int64_t>(array_in(g, "outputs"));
  out.output_count = array_in(g, "outputs").size();
  return out;
}

millrace_block block_of(Memory& memory, const json::object& b) {
  const auto tensors = [&memory](const json::array& list) {
    std::vector<millrace_tensor> out;
    for (const json::value& one : list) {
      const json::object& t = one.as_object();
      millrace_tensor tensor{};
      tensor.kind = kind_of(t.at("kind"));
      tensor.bits = t.at("bits").to_number<std::uint32_t>();
      tensor.shape = memory.numbers<std::uint32_t>(array_in(t, "shape"));
      tensor.axes = array_in(t, "shape").size();
      tensor.elements = 1;
      for (std::size_t i = 0; i < tensor.axes; ++i) tensor.elements *= tensor.shape[i];
      out.push_back(tensor);
    }
    return memory.structs(std::move(out));
  };
  millrace_block out{};
  out.name = memory.text(b.at("name"));
  out.runner = memory.text(b.at("runner"));
  out.settings = memory.text(b.at("settings"));
  out.input_count = array_in(b, "inputs").size();
  out.inputs = tensors(array_in(b, "inputs"));
  out.output_count = array_in(b, "outputs").size();
  out.outputs = tensors(array_in(b, "outputs"));
  return out;
}

/// What a plugin has answered so far.
struct Collected {
  const millrace_block* block = nullptr;  // in compile()
  json::array subgraphs, candidates;
  json::object files;
  std::string failure;
};

std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

template <class T>
json::array list(const T* values, std::size_t count) {
  json::array out;
  for (std::size_t i = 0; values != nullptr && i < count; ++i)
    out.emplace_back(static_cast<std::int64_t>(values[i]));
  return out;
}

void select(void* context, const millrace_subgraph* s) {
  auto& collected = *static_cast<Collected*>(context);
  collected.subgraphs.push_back(json::object{{"name", text_or_empty(s->name)},
                                             {"device", text_or_empty(s->device)},
                                             {"runner", text_or_empty(s->runner)},
                                             {"settings", text_or_empty(s->settings)},
                                             {"nodes", list(s->nodes, s->node_count)}});
}

void offer(void* context, const millrace_candidate* c) {
  auto& collected = *static_cast<Collected*>(context);
  const std::size_t inputs = collected.block == nullptr ? 0 : collected.block->input_count;
  const std::size_t outputs = collected.block == nullptr ? 0 : collected.block->output_count;
  collected.candidates.push_back(
      json::object{{"id", text_or_empty(c->id)},
                   {"interval_cycles", static_cast<std::int64_t>(c->interval_cycles)},
                   {"latency_cycles", static_cast<std::int64_t>(c->latency_cycles)},
                   {"lead", c->lead},
                   {"input_lanes", list(c->input_lanes, inputs)},
                   {"output_lanes", list(c->output_lanes, outputs)},
                   {"memory_bytes", static_cast<std::int64_t>(c->memory_bytes)},
                   {"resources", json::object{{"lut", c->lut},
                                              {"lutram", c->lutram},
                                              {"ff", c->ff},
                                              {"dsp", c->dsp},
                                              {"ramb18", c->ramb18},
                                              {"ramb36", c->ramb36},
                                              {"uram", c->uram}}}});
}

void add_file(void* context, const char* name, const char* content) {
  static_cast<Collected*>(context)->files[text_or_empty(name)] = text_or_empty(content);
}

void fail(void* context, const char* message) {
  static_cast<Collected*>(context)->failure = text_or_empty(message);
}

/// Calls one function of the plugin. Throws std::runtime_error if the function fails.
template <class Call>
void call(const std::string& function, Collected& collected, Call body) {
  const millrace_answer answer{&collected, select, offer, add_file, fail};
  int code = 0;
  try {
    code = body(&answer);
  } catch (const std::exception& thrown) {
    throw std::runtime_error(function + " threw an exception: " + thrown.what());
  } catch (...) {
    throw std::runtime_error(function + " threw an exception");
  }
  if (code != 0)
    throw std::runtime_error(function + " returned " + std::to_string(code) +
                             (collected.failure.empty() ? "" : ": " + collected.failure));
}

json::object answer_of(const Library& library, const json::object& question) {
  const millrace_plugin& api = library.api();
  Memory memory;
  Collected collected;
  const auto& ask = question.at("ask").as_string();
  if (ask == "partition") {
    const millrace_graph graph = graph_of(memory, question.at("graph").as_object());
    call("partition()", collected, [&](const auto* answer) { return api.partition(&graph, answer); });
    return {{"schema", 1}, {"plugin", library.name()}, {"subgraphs", collected.subgraphs}};
  }
  if (ask == "candidates") {
    json::object blocks;
    for (const json::value& one : array_in(question, "blocks")) {
      const json::object& b = one.as_object();
      if (b.at("operation").as_string() != "plugin_operator" ||
          b.at("library").as_string() != library.sha256())
        continue;
      const millrace_block block = block_of(memory, b);
      collected.block = &block;
      collected.candidates.clear();
      call("compile() of block '" + std::string(block.name) + "'", collected,
           [&](const auto* answer) { return api.compile(&block, answer); });
      blocks[block.name] = collected.candidates;
    }
    return {{"schema", 1}, {"builds", true}, {"blocks", blocks}};
  }
  const millrace_block block = block_of(memory, question.at("block").as_object());
  const char* const candidate = memory.text(question.at("candidate"));
  const char* const module = memory.text(question.at("module"));
  call("build() of block '" + std::string(block.name) + "'", collected,
       [&](const auto* answer) { return api.build(&block, candidate, module, answer); });
  return {{"schema", 1}, {"files", collected.files}};
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::cerr
        << "millrace-plugin LIBRARY SHA256: Millrace runs this program to call the functions of a plugin; "
           "do not run it by hand\n";
    return 1;
  }
  // The plugin may print on standard output. Only the answer goes there, so let the plugin print on standard error.
  const int output = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const auto library = Library::open(argv[1], argv[2]);
  if (!library.ok()) {
    std::cerr << library.error().message() << '\n';
    return 1;
  }
  std::string answer;
  try {
    answer = json::serialize(answer_of(**library, json::parse(text).as_object()));
  } catch (const std::exception& thrown) {
    std::cerr << thrown.what() << '\n';
    return 1;
  }
  for (std::size_t done = 0; done < answer.size();) {
    const ssize_t written = ::write(output, answer.data() + done, answer.size() - done);
    if (written <= 0) return 1;
    done += static_cast<std::size_t>(written);
  }
  std::cout.flush();
  std::cerr.flush();
  ::_exit(0);  // the library's destructors might crash after the answer
}

}  // namespace
}  // namespace millrace::runtime::plugins

int main(int argc, char** argv) {
  return millrace::runtime::plugins::run(argc, argv);
}
