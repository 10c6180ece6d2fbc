#include "runtime/rtl/design.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace::runtime::rtl {

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr char kDesignFile[] = "design.json";
constexpr std::uint64_t kMaxDesignBytes = 64U << 20U;
constexpr std::uint64_t kMaxSourceBytes = 1U << 30U;
constexpr std::size_t kMaxFiles = 100'000;
constexpr std::uint32_t kMaxBeatBits = 1U << 20U;
constexpr std::size_t kMaxWeightPorts = 1024;

Error bad(const std::string& what) {
  return Error(ErrorCode::kCorrupt, std::string(kDesignFile) + ": " + what);
}

/// Whether a text can be a name in SystemVerilog and C++: a letter or _, then letters, digits and _.
bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= 256 && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_inside(const std::string& path) {
  const fs::path parsed(path);
  return !path.empty() && path.size() < 1024 && parsed.is_relative() && parsed.lexically_normal() == parsed &&
         *parsed.begin() != ".." && std::all_of(parsed.begin(), parsed.end(), [](const fs::path& part) {
           return is_name(part.string(), 255);
         });
}

/// An object of the JSON document and its path in the document, for error messages.
class Object {
 public:
  static Result<Object> of(const json::value& value, std::string place) {
    if (!value.is_object()) return bad((place.empty() ? "the document" : place) + " is no object");
    return Object(value.as_object(), std::move(place));
  }
  Result<std::string> text(const char* key) const {
    const json::value* value = object_->if_contains(key);
    if (value == nullptr || !value->is_string()) return bad(at(key) + " is missing or no text");
    return std::string(value->as_string());
  }
  Result<std::string> identifier(const char* key) const {
    MILLRACE_ASSIGN(std::string value, text(key));
    if (!is_identifier(value)) return bad(at(key) + " is no identifier: '" + printable(value) + "'");
    return value;
  }
  Result<std::uint64_t> number(const char* key, std::uint64_t least, std::uint64_t most) const {
    const json::value* value = object_->if_contains(key);
    boost::system::error_code code;
    const std::uint64_t out = value == nullptr ? 0 : value->to_number<std::uint64_t>(code);
    if (value == nullptr || code || out < least || out > most)
      return bad(at(key) + " is missing or not a number from " + std::to_string(least) + " to " +
                 std::to_string(most));
    return out;
  }
  bool has(const char* key) const { return object_->contains(key); }
  Result<double> real(const char* key) const {
    const json::value* value = object_->if_contains(key);
    if (value == nullptr || !value->is_number()) return bad(at(key) + " is missing or no number");
    return value->to_number<double>();
  }
  Result<const json::array*> array(const char* key) const {
    const json::value* value = object_->if_contains(key);
    if (value == nullptr || !value->is_array() || value->as_array().size() > kMaxFiles)
      return bad(at(key) + " is missing or no list");
    return &value->as_array();
  }
  Result<Object> object(const char* key) const {
    const json::value* value = object_->if_contains(key);
    if (value == nullptr) return bad(at(key) + " is missing");
    return of(*value, at(key));
  }
  std::string at(const std::string& key) const { return place_.empty() ? key : place_ + "." + key; }

 private:
  Object(const json::object& object, std::string place) : object_(&object), place_(std::move(place)) {}
  const json::object* object_;
  std::string place_;
};

Result<Port> parse_port(const Object& object, const std::string& expected) {
  Port port;
  MILLRACE_ASSIGN(port.name, object.identifier("port"));
  if (port.name != expected)
    return bad(object.at("port") + " is '" + port.name + "', not '" + expected + "'");
  MILLRACE_ASSIGN(port.tensor, object.text("tensor"));
  MILLRACE_ASSIGN(const std::string kind, object.text("kind"));
  using Kind = kernels::ElementType::Kind;
  if (kind != "signed" && kind != "unsigned" && kind != "bipolar")
    return bad(object.at("kind") + " is none of signed, unsigned, bipolar");
  port.kind = kind == "signed" ? Kind::kSigned : kind == "unsigned" ? Kind::kUnsigned : Kind::kBipolar;
  MILLRACE_ASSIGN(const std::uint64_t lanes, object.number("lanes", 1, kMaxBeatBits));
  MILLRACE_ASSIGN(const std::uint64_t bits, object.number("bits", 1, 32));
  MILLRACE_ASSIGN(port.beats, object.number("beats", 1, std::uint64_t{1} << 31U));
  port.lanes = static_cast<std::uint32_t>(lanes);
  port.bits = static_cast<std::uint32_t>(bits);
  if (port.beat_bits() > kMaxBeatBits || port.elements() > std::uint64_t{1} << 31U)
    return bad(object.at("lanes") +
               ": lanes times bits, or lanes times beats, exceeds the largest size of a beat or frame");
  return port;
}

Result<std::vector<Port>> parse_ports(const Object& document, const char* key, const std::string& prefix) {
  MILLRACE_ASSIGN(const json::array* const list, document.array(key));
  if (list->empty() || list->size() > 64) return bad(std::string(key) + ": 1 to 64 ports are possible");
  std::vector<Port> ports;
  for (const json::value& value : *list) {
    const std::string place = std::string(key) + "[" + std::to_string(ports.size()) + "]";
    MILLRACE_ASSIGN(const Object object, Object::of(value, place));
    MILLRACE_ASSIGN(Port port, parse_port(object, prefix + std::to_string(ports.size())));
    ports.push_back(std::move(port));
  }
  return ports;
}

Result<std::vector<Stream>> parse_streams(const Object& document) {
  constexpr std::uint64_t kMaxDepth = std::uint64_t{1} << 31U;
  MILLRACE_ASSIGN(const json::array* const list, document.array("streams"));
  std::vector<Stream> streams;
  for (const json::value& value : *list) {
    MILLRACE_ASSIGN(const Object object,
                    Object::of(value, "streams[" + std::to_string(streams.size()) + "]"));
    Stream stream;
    MILLRACE_ASSIGN(stream.name, object.identifier("name"));
    MILLRACE_ASSIGN(stream.fifo, object.identifier("fifo"));
    MILLRACE_ASSIGN(stream.depth, object.number("depth", 1, kMaxDepth));
    MILLRACE_ASSIGN(stream.high_water, object.number("high_water", 0, kMaxDepth));
    streams.push_back(std::move(stream));
  }
  return streams;
}

/// Returns the blocks whose matrix-vector units (among `instances`) multiply in DSP slices.
Result<std::vector<Layer>> parse_layers(const Object& document) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48U;
  std::vector<Layer> layers;
  if (!document.has("blocks") && !document.has("instances")) return layers;
  MILLRACE_ASSIGN(const json::array* const instances, document.array("instances"));
  std::map<std::string, std::vector<std::string>> units;  // block -> names of its units
  for (std::size_t i = 0; i < instances->size(); ++i) {
    const std::string place = "instances[" + std::to_string(i) + "]";
    MILLRACE_ASSIGN(const Object object, Object::of((*instances)[i], place));
    MILLRACE_ASSIGN(const std::string block, object.text("block"));
    MILLRACE_ASSIGN(const std::string module, object.text("module"));
    if (module != "mr_mvu" && module != "mr_mvu_streamed" && module != "mr_vvu") continue;
    MILLRACE_ASSIGN(const Object parameters, object.object("parameters"));
    MILLRACE_ASSIGN(const std::uint64_t multiplier, parameters.number("MUL", 0, 2));
    MILLRACE_ASSIGN(const std::string name, object.identifier("name"));
    if (multiplier != 0) units[block].push_back(name);
  }
  MILLRACE_ASSIGN(const json::array* const blocks, document.array("blocks"));
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    MILLRACE_ASSIGN(const Object object, Object::of((*blocks)[i], "blocks[" + std::to_string(i) + "]"));
    Layer layer;
    MILLRACE_ASSIGN(layer.name, object.text("name"));
    MILLRACE_ASSIGN(layer.multiply_accumulates, object.number("multiply_accumulates", 0, kMost));
    MILLRACE_ASSIGN(layer.busy_cycles, object.number("busy_cycles", 0, kMost));
    MILLRACE_ASSIGN(const Object resources, object.object("resources"));
    MILLRACE_ASSIGN(layer.dsp, resources.number("dsp", 0, kMost));
    layer.units = units[layer.name];
    if (!layer.units.empty() && layer.dsp > 0) layers.push_back(std::move(layer));
  }
  return layers;
}

/// Returns the digest that design.json contains: the sha256 of the lines "<sha256>  <path>" of all files.
std::string digest_of(const std::map<std::string, std::string>& files) {
  std::string lines;
  for (const auto& [path, content] : files) lines += sha256_hex(content) + "  " + path + "\n";
  return sha256_hex(lines);
}

}  // namespace

Result<Design> parse_design(std::string_view text) {
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = 32;
  const json::value value = json::parse({text.data(), text.size()}, code, {}, options);
  if (code) return bad("is no JSON: " + code.message());
  MILLRACE_ASSIGN(const Object document, Object::of(value, ""));
  MILLRACE_ASSIGN(const std::uint64_t schema, document.number("schema", 0, 1U << 30U));
  if (schema != 1)
    return Error(ErrorCode::kUnsupported,
                 std::string(kDesignFile) + ": schema " + std::to_string(schema) +
                     " is unknown; this program reads schema 1; compile the model again");
  Design design;
  MILLRACE_ASSIGN(design.partition, document.identifier("partition"));
  MILLRACE_ASSIGN(design.dataflow, document.identifier("dataflow"));
  MILLRACE_ASSIGN(design.clock_mhz, document.real("clock_mhz"));
  MILLRACE_ASSIGN(design.digest, document.text("digest"));
  MILLRACE_ASSIGN(design.inputs, parse_ports(document, "inputs", "in"));
  MILLRACE_ASSIGN(design.outputs, parse_ports(document, "outputs", "out"));
  MILLRACE_ASSIGN(design.streams, parse_streams(document));
  MILLRACE_ASSIGN(design.layers, parse_layers(document));
  if (document.has("load")) {
    MILLRACE_ASSIGN(const Object load, document.object("load"));
    MILLRACE_ASSIGN(design.load_words, load.number("words", 1, std::uint64_t{1} << 28U));
    MILLRACE_ASSIGN(design.load_hops, load.number("hops", 1, 1U << 16U));
  }
  if (document.has("streamed")) {
    MILLRACE_ASSIGN(const Object streamed, document.object("streamed"));
    MILLRACE_ASSIGN(design.streamed_bytes, streamed.number("bytes", 1, std::uint64_t{1} << 32U));
    MILLRACE_ASSIGN(const json::array* const ports, streamed.array("ports"));
    for (const json::value& port : *ports) {
      const std::string expected = "weights" + std::to_string(design.weight_ports.size());
      if (!port.is_string() || port.as_string() != expected || design.weight_ports.size() == kMaxWeightPorts)
        return bad("streamed.ports: '" + printable(json::serialize(port)) + "' is not '" + expected + "'");
      design.weight_ports.push_back(expected);
    }
    if (design.weight_ports.empty() || design.load_words == 0)
      return bad("streamed: a design that streams weights needs at least one port and loaded constants");
  }
  MILLRACE_ASSIGN(const Object predicted, document.object("predicted"));
  constexpr std::uint64_t kMaxCycles = std::uint64_t{1} << 48U;
  MILLRACE_ASSIGN(design.predicted.interval, predicted.number("interval_cycles", 1, kMaxCycles));
  MILLRACE_ASSIGN(design.predicted.latency, predicted.number("latency_cycles", 1, kMaxCycles));
  MILLRACE_ASSIGN(design.predicted.first_output, predicted.number("first_output_cycles", 1, kMaxCycles));
  if (predicted.has("passage_cycles")) {
    MILLRACE_ASSIGN(design.predicted.passage, predicted.number("passage_cycles", 1, kMaxCycles));
  }
  return design;
}

Result<Source> read_source(const fs::path& deployment, const std::string& partition) {
  const fs::path folder = deployment / "rtl" / partition;
  const std::string where = "rtl/" + partition;
  std::error_code code;
  if (!fs::is_directory(folder, code))
    return Error(ErrorCode::kNotFound,
                 deployment.string() + " has no " + where +
                     ": that partition has no SystemVerilog; "
                     "compile the model again and read why no hardware was generated for the partition");
  Source source;
  auto text = read_text_file(folder / kDesignFile, kMaxDesignBytes);
  if (!text.ok()) return text.error().within(where);
  source.design_json = std::move(*text);
  auto design = parse_design(source.design_json);
  if (!design.ok()) return design.error().within(where);
  source.design = std::move(*design);
  if (source.design.partition != partition)
    return Error(ErrorCode::kCorrupt,
                 where + "/" + kDesignFile + ": is that of partition '" + source.design.partition + "'");

  for (auto it = fs::recursive_directory_iterator(folder, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    const std::string path = it->path().lexically_relative(folder).generic_string();
    std::error_code ignored;
    if (path == kDesignFile || it->symlink_status(ignored).type() == fs::file_type::directory) continue;
    if (!it->is_regular_file(ignored) || it->is_symlink(ignored) || !is_inside(path) ||
        source.files.size() == kMaxFiles)
      return Error(ErrorCode::kCorrupt, where + ": '" + printable(path) + "' is nothing that compile writes");
    auto content = read_text_file(it->path(), kMaxSourceBytes);
    if (!content.ok()) return content.error();
    source.files.emplace(path, std::move(*content));
  }
  if (code) return Error(ErrorCode::kEnvironment, folder.string() + ": cannot be listed: " + code.message());
  if (digest_of(source.files) != source.design.digest)
    return Error(ErrorCode::kCorrupt,
                 where +
                     ": SystemVerilog files were altered or added, or are missing: "
                     "the digest in design.json belongs to other files; compile the model again");
  return source;
}

}  // namespace millrace::runtime::rtl
