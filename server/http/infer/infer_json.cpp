#include "server/http/infer/infer_json.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cstdlib>
#include <limits>

namespace millrace::server::http {
namespace {

namespace json = boost::json;

/// Where in the request the parser stands.
enum class Place {
  kDocument,
  kRoot,
  kInputs,
  kInput,
  kOutputs,
  kOutput,
  kParameters,
  kShape,
  kData,
  kSkipped
};

struct Null {};
using Scalar = std::variant<Null, bool, std::int64_t, std::uint64_t, double, std::string_view>;

constexpr std::size_t kMaxShownName = 64;
constexpr std::size_t kUsualDepth = 8;

/// Turns parser events into an InferDocument. Every event function returns false after an error.
class Builder {
 public:
  // What basic_parser wants of its handler; our own limits are tighter.
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = 1U << 16U;
  static constexpr std::size_t max_string_size = 1U << 20U;

  Builder(const InferLimits& limits, Memory* memory)
      : document(memory), limits_(limits), memory_(memory), levels_(memory), key_(memory), text_(memory) {
    levels_.reserve(kUsualDepth);
    levels_.push_back({Place::kDocument, {}});
  }

  InferDocument document;
  std::string error;  // empty: none of ours

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }

  bool on_object_begin(json::error_code& code) {
    if (!count(code)) return false;
    switch (place()) {
      case Place::kDocument:
        return enter(Place::kRoot);
      case Place::kInputs:
        document.inputs->emplace_back(memory_);
        return enter(Place::kInput);
      case Place::kOutputs:
        document.outputs->emplace_back(memory_);
        return enter(Place::kOutput);
      case Place::kRoot:
      case Place::kInput:
      case Place::kOutput:
        if (key_ == "parameters") return enter(Place::kParameters);
        return known_key() ? fail(code, wrong_kind("an object")) : enter(Place::kSkipped);
      case Place::kParameters:
        parameters().push_back({std::pmr::string(key_, memory_), {}});
        return enter(Place::kSkipped);
      case Place::kShape:
      case Place::kData:
        return fail(code, here() + " holds an object; it takes numbers");
      case Place::kSkipped:
        return enter(Place::kSkipped);
    }
    return true;
  }

  bool on_array_begin(json::error_code& code) {
    if (!count(code)) return false;
    switch (place()) {
      case Place::kDocument:
        return fail(code, "the request is an array; it must be an object");
      case Place::kRoot:
        if (key_ == "inputs") {
          document.inputs.emplace(memory_);
          return enter(Place::kInputs);
        }
        if (key_ == "outputs") {
          document.outputs.emplace(memory_);
          return enter(Place::kOutputs);
        }
        return known_key() ? fail(code, wrong_kind("an array")) : enter(Place::kSkipped);
      case Place::kInput:
        if (key_ == "shape") {
          input().shape.emplace(memory_);
          return enter(Place::kShape);
        }
        if (key_ == "data") {
          input().data.emplace();
          leaf_depth_.reset();
          data_depth_ = 0;
          return begin_data(code);
        }
        return known_key() ? fail(code, wrong_kind("an array")) : enter(Place::kSkipped);
      case Place::kOutput:
        return known_key() ? fail(code, wrong_kind("an array")) : enter(Place::kSkipped);
      case Place::kInputs:
      case Place::kOutputs:
        return fail(code, here() + " holds an array; it takes objects");
      case Place::kParameters:
        parameters().push_back({std::pmr::string(key_, memory_), {}});
        return enter(Place::kSkipped);
      case Place::kShape:
        return fail(code, here() + " holds an array; it takes whole numbers");
      case Place::kData:
        return begin_data(code);
      case Place::kSkipped:
        return enter(Place::kSkipped);
    }
    return true;
  }

  bool on_object_end(std::size_t, json::error_code&) { return leave(); }

  bool on_array_end(std::size_t size, json::error_code& code) {
    if (place() == Place::kData) {
      auto& nesting = input().data->nesting;
      const std::size_t level = data_depth_ - 1;
      if (nesting[level] == kOpen) nesting[level] = size;
      if (nesting[level] != size)
        return fail(code, here() + " is ragged: arrays of " + std::to_string(nesting[level]) + " and of " +
                              std::to_string(size) + " at the same level");
      --data_depth_;
    }
    return leave();
  }

  bool on_key_part(json::string_view part, std::size_t, json::error_code&) { return append(part); }
  bool on_key(json::string_view part, std::size_t, json::error_code& code) {
    append(part);
    key_.swap(text_);
    text_.clear();
    const unsigned bit = key_bit();
    if ((levels_.back().keys_seen & bit) != 0)
      return fail(code, "'" + std::string(key_) + "' occurs twice in " + here());
    levels_.back().keys_seen |= bit;
    return true;
  }

  bool on_string_part(json::string_view part, std::size_t, json::error_code&) { return append(part); }
  bool on_string(json::string_view part, std::size_t, json::error_code& code) {
    if (text_.empty()) return scalar(std::string_view(part.data(), part.size()), code);
    append(part);
    const bool good = scalar(std::string_view(text_), code);
    text_.clear();
    return good;
  }

  bool on_number_part(json::string_view part, json::error_code&) { return append(part); }
  bool on_int64(std::int64_t value, json::string_view, json::error_code& code) {
    text_.clear();
    return scalar(value, code);
  }
  bool on_uint64(std::uint64_t value, json::string_view, json::error_code& code) {
    text_.clear();
    return scalar(value, code);
  }
  bool on_double(double, json::string_view part, json::error_code& code) {
    // Boost.JSON 1.81 computes doubles to within an ulp only; the text decides.
    append(part);
    double value = 0;
    if (std::from_chars(text_.data(), text_.data() + text_.size(), value).ec != std::errc())
      value = std::strtod(text_.c_str(), nullptr);  // out of range: zero or infinity
    text_.clear();
    return scalar(value, code);
  }
  bool on_bool(bool value, json::error_code& code) { return scalar(value, code); }
  bool on_null(json::error_code& code) { return scalar(Null{}, code); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  static constexpr std::size_t kOpen = std::numeric_limits<std::size_t>::max();  // length not known yet

  struct Level {
    Place place;
    unsigned keys_seen;
  };

  Place place() const { return levels_.back().place; }
  bool enter(Place place) {
    levels_.push_back({place, 0});
    return true;
  }
  bool leave() {
    levels_.pop_back();
    return true;
  }
  bool append(json::string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool fail(json::error_code& code, std::string message) {
    error = std::move(message);
    code = boost::system::errc::make_error_code(boost::system::errc::invalid_argument);
    return false;
  }
  bool count(json::error_code& code) {
    if (place() != Place::kData && ++values_ > limits_.values)
      return fail(code, "more than " + std::to_string(limits_.values) + " JSON values outside tensor data");
    return true;
  }

  InputDocument& input() { return document.inputs->back(); }
  OutputDocument& output() { return document.outputs->back(); }

  /// The parameters of the object around the innermost kParameters level.
  Parameters& parameters() {
    const Place around = levels_[levels_.size() - 2].place;
    if (around == Place::kInput) return input().parameters;
    if (around == Place::kOutput) return output().parameters;
    return document.parameters;
  }

  /// A bit for each key we know in the current object; 0 for the others.
  unsigned key_bit() const {
    const auto one_of = [&](std::initializer_list<std::string_view> keys) {
      unsigned bit = 1;
      for (const auto key : keys) {
        if (key == key_) return bit;
        bit <<= 1U;
      }
      return 0U;
    };
    switch (place()) {
      case Place::kRoot:
        return one_of({"id", "parameters", "inputs", "outputs"});
      case Place::kInput:
        return one_of({"name", "shape", "datatype", "parameters", "data"});
      case Place::kOutput:
        return one_of({"name", "parameters"});
      case Place::kParameters:
        return one_of({"timeout", "priority", "binary_data_output", "binary_data_size", "binary_data",
                       "classification"});
      default:
        return 0;
    }
  }
  bool known_key() const { return key_bit() != 0; }

  /// The current object or list, for messages.
  std::string here() const {
    std::string out;
    for (const Level& level : levels_) {
      switch (level.place) {
        case Place::kInputs:
          out = "inputs";
          break;
        case Place::kInput:
          out = "inputs[" + std::to_string(document.inputs->size() - 1) + "]";
          break;
        case Place::kOutputs:
          out = "outputs";
          break;
        case Place::kOutput:
          out = "outputs[" + std::to_string(document.outputs->size() - 1) + "]";
          break;
        case Place::kParameters:
          out += out.empty() ? "parameters" : ".parameters";
          break;
        case Place::kShape:
          out += ".shape";
          break;
        case Place::kData:
          if (!out.ends_with(".data")) out += ".data";
          break;
        default:
          break;
      }
    }
    return out.empty() ? "the request" : out;
  }

  std::string wrong_kind(std::string_view what) const {
    std::string_view wanted = "a string";
    if (key_ == "parameters") wanted = "an object";
    if (key_ == "inputs" || key_ == "outputs" || key_ == "shape" || key_ == "data") wanted = "an array";
    return "'" + std::string(key_, 0, kMaxShownName) + "' in " + here() + " is " + std::string(what) +
           "; it must be " + std::string(wanted);
  }

  static std::string_view kind_of(const Scalar& value) {
    switch (value.index()) {
      case 0:
        return "null";
      case 1:
        return "a boolean";
      case 5:
        return "a string";
      default:
        return "a number";
    }
  }

  bool begin_data(json::error_code& code) {
    auto& nesting = input().data->nesting;
    if (leaf_depth_ && data_depth_ >= *leaf_depth_)
      return fail(code, here() + " is ragged: numbers beside arrays");
    if (++data_depth_ > nesting.size()) nesting.push_back(kOpen);
    return enter(Place::kData);
  }

  bool data_scalar(const Scalar& value, json::error_code& code) {
    auto& data = *input().data;
    if (!leaf_depth_) leaf_depth_ = data.nesting.size();
    if (data_depth_ != *leaf_depth_) return fail(code, here() + " is ragged: numbers beside arrays");
    if (++numbers_ > limits_.data_elements)
      return fail(code, here() + ": the tensors hold more than " + std::to_string(limits_.data_elements) +
                            " elements, all that the model takes");
    if (const auto* number = std::get_if<std::int64_t>(&value))
      data.numbers.emplace_back(*number);
    else if (const auto* large = std::get_if<std::uint64_t>(&value))
      data.numbers.emplace_back(*large);
    else if (const auto* real = std::get_if<double>(&value))
      data.numbers.emplace_back(*real);
    else if (const auto* truth = std::get_if<bool>(&value))
      data.numbers.emplace_back(*truth);
    else
      return fail(code, here() + "[" + std::to_string(data.numbers.size()) + "] is " +
                            std::string(kind_of(value)) + "; it takes numbers");
    return true;
  }

  bool scalar(const Scalar& value, json::error_code& code) {
    if (place() == Place::kData) return data_scalar(value, code);
    if (!count(code)) return false;
    switch (place()) {
      case Place::kDocument:
        return fail(code, "the request is " + std::string(kind_of(value)) + "; it must be an object");
      case Place::kInputs:
      case Place::kOutputs:
        return fail(code, here() + " holds " + std::string(kind_of(value)) + "; it takes objects");
      case Place::kRoot:
        return key_ == "id" ? take_text(document.id, value, code) : skip_unknown(value, code);
      case Place::kInput:
        if (key_ == "name") return take_text(input().name.emplace(memory_), value, code);
        if (key_ == "datatype") return take_text(input().datatype.emplace(memory_), value, code);
        return skip_unknown(value, code);
      case Place::kOutput:
        return key_ == "name" ? take_text(output().name.emplace(memory_), value, code)
                              : skip_unknown(value, code);
      case Place::kShape: {
        const auto* dim = std::get_if<std::int64_t>(&value);
        if (dim == nullptr || *dim < 0) return fail(code, here() + " takes whole numbers of at least 0");
        input().shape->push_back(*dim);
        return true;
      }
      case Place::kParameters:
        add_parameter(value);
        return true;
      default:
        return true;
    }
  }

  bool take_text(std::pmr::string& to, const Scalar& value, json::error_code& code) {
    const auto* text = std::get_if<std::string_view>(&value);
    if (text == nullptr) return fail(code, wrong_kind(kind_of(value)));
    to = *text;
    return true;
  }

  bool skip_unknown(const Scalar& value, json::error_code& code) {
    return known_key() ? fail(code, wrong_kind(kind_of(value))) : true;
  }

  void add_parameter(const Scalar& value) {
    Parameter parameter{std::pmr::string(key_, memory_), {}};
    if (const auto* truth = std::get_if<bool>(&value)) parameter.value = *truth;
    if (const auto* number = std::get_if<std::int64_t>(&value)) parameter.value = *number;
    if (const auto* large = std::get_if<std::uint64_t>(&value)) parameter.value = *large;
    if (const auto* real = std::get_if<double>(&value)) parameter.value = *real;
    if (const auto* text = std::get_if<std::string_view>(&value))
      parameter.value = std::pmr::string(*text, memory_);
    parameters().push_back(std::move(parameter));
  }

  const InferLimits limits_;
  Memory* const memory_;
  std::pmr::vector<Level> levels_;
  std::pmr::string key_;   // the last key of the innermost object
  std::pmr::string text_;  // a string, key or number that arrives in parts
  std::size_t values_ = 0, numbers_ = 0;
  std::size_t data_depth_ = 0;             // arrays open inside the current data
  std::optional<std::size_t> leaf_depth_;  // depth at which the current data's numbers stand
};

}  // namespace

Result<InferDocument> parse_infer_json(std::string_view text, const InferLimits& limits, Memory* memory) {
  json::basic_parser<Builder> parser(json::parse_options{}, limits, memory);
  json::error_code code;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), code);
  if (!parser.handler().error.empty()) return Error(ErrorCode::kInvalidInput, parser.handler().error);
  if (!code && used < text.size()) code = json::error::extra_data;
  if (code)
    return Error(ErrorCode::kInvalidInput, "the request is not well-formed JSON: " + code.message() +
                                               " at byte " + std::to_string(used));
  return std::move(parser.handler().document);
}

}  // namespace millrace::server::http
