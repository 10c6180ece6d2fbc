#include "server/http/infer/infer_json.hpp"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <type_traits>

namespace millrace::server::http {
namespace {

namespace json = boost::json;

/// The kind of the object or array that is being parsed.
enum class Context {
  kDocument,
  kRoot,
  kParameters,
  kInputs,
  kInput,
  kInputParameters,
  kOutputs,
  kOutput,
  kOutputParameters,
  kShape,
  kData,
  kSkipped
};

using Text = std::optional<std::pmr::string> TensorDocument::*;
using Count = std::optional<std::uint64_t> Parameters::*;
using Switch = std::optional<bool> Parameters::*;

struct Key {
  Context context;
  std::string_view name;
  // Says where the parser stores a key's value. A Context means that the value is an object or array, whose members the
  // parser handles in this context. monostate means that the value is the request's id.
  std::variant<std::monostate, Context, Text, Count, Switch> value;
};

bool is_array(Context context) {
  return context == Context::kInputs || context == Context::kOutputs || context == Context::kShape ||
         context == Context::kData;
}

/// All known keys. The parser skips unknown keys with their values.
constexpr Key kKeys[] = {
    {Context::kRoot, "id", {}},
    {Context::kRoot, "parameters", Context::kParameters},
    {Context::kRoot, "inputs", Context::kInputs},
    {Context::kRoot, "outputs", Context::kOutputs},
    {Context::kParameters, "timeout", &Parameters::timeout},
    {Context::kParameters, "priority", &Parameters::priority},
    {Context::kParameters, "binary_data_output", &Parameters::binary_data_output},
    {Context::kInput, "name", &TensorDocument::name},
    {Context::kInput, "datatype", &TensorDocument::datatype},
    {Context::kInput, "shape", Context::kShape},
    {Context::kInput, "parameters", Context::kInputParameters},
    {Context::kInput, "data", Context::kData},
    {Context::kInputParameters, "binary_data_size", &Parameters::binary_data_size},
    {Context::kOutput, "name", &TensorDocument::name},
    {Context::kOutput, "parameters", Context::kOutputParameters},
    {Context::kOutputParameters, "binary_data", &Parameters::binary_data},
    {Context::kOutputParameters, "classification", &Parameters::classification},
};
static_assert(std::size(kKeys) <= 32, "Nesting::keys_seen has a bit for each");

using Scalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string_view>;

constexpr std::size_t kMaxShownName = 64;
constexpr std::size_t kUsualDepth = 8;
constexpr std::size_t kMostValues = 10'000;  // limit of JSON values outside tensor data

std::string_view kind_of(const Scalar& value) {
  static constexpr std::string_view kKinds[] = {"null",     "a boolean", "a number",
                                                "a number", "a number",  "a string"};
  return kKinds[value.index()];
}

/// Turns parser events into an InferDocument. Every event function returns false after an error.
class DocumentReader {
 public:
  // The limits that basic_parser requires of its handler. This class enforces tighter limits.
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = 1U << 16U;
  static constexpr std::size_t max_string_size = 1U << 20U;

  DocumentReader(std::uint64_t most_elements, Memory* memory)
      : document(memory),
        most_elements_(most_elements),
        memory_(memory),
        nesting_(memory),
        key_(memory),
        text_(memory) {
    nesting_.reserve(kUsualDepth);
    nesting_.push_back({Context::kDocument, 0});
  }

  InferDocument document;
  std::optional<Error> error;  // an error that this class found; syntax errors are reported by the parser

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }

  bool on_object_begin(json::error_code& code) { return begin(true, code); }
  bool on_array_begin(json::error_code& code) { return begin(false, code); }
  bool on_object_end(std::size_t, json::error_code&) { return leave(); }

  bool on_array_end(std::size_t size, json::error_code& code) {
    if (context() == Context::kData) {
      std::size_t& length = tensor().data->nesting[data_depth_ - 1];
      if (length == kOpen) length = size;
      if (length != size)
        return fail(code, here() + " is ragged: arrays of " + std::to_string(length) + " and of " +
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
    const auto known = [&, inside = context()](const Key& key) {
      return key.context == inside && key.name == key_;
    };
    if (context() == Context::kParameters && key_.starts_with("sequence_"))
      return not_offered(code, "sequences are not supported; models keep no state between requests");
    if ((context() == Context::kInputParameters || context() == Context::kOutputParameters) &&
        key_.starts_with("shared_memory_"))
      return not_offered(code, "shared memory is not supported; send the tensor in the request");
    known_ = std::find_if(std::begin(kKeys), std::end(kKeys), known);
    if (known_ == std::end(kKeys)) {
      known_ = nullptr;
      return true;
    }
    const std::uint32_t bit = 1U << (known_ - kKeys);
    if ((nesting_.back().keys_seen & bit) != 0)
      return fail(code, "'" + std::string(key_) + "' occurs twice in " + here());
    nesting_.back().keys_seen |= bit;
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
    // Boost.JSON 1.81 rounds doubles with an error of up to one ulp, so convert the text again.
    append(part);
    double value = 0;
    if (std::from_chars(text_.data(), text_.data() + text_.size(), value).ec != std::errc())
      value = std::strtod(text_.c_str(), nullptr);  // the number is out of range: 0 or infinity
    text_.clear();
    return scalar(value, code);
  }
  bool on_bool(bool value, json::error_code& code) { return scalar(value, code); }
  bool on_null(json::error_code& code) { return scalar({}, code); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  static constexpr std::size_t kOpen = std::numeric_limits<std::size_t>::max();  // length not known yet

  struct Nesting {
    Context context;
    std::uint32_t keys_seen;  // bit i is set if kKeys[i] occurred
  };

  Context context() const { return nesting_.back().context; }
  bool enter(Context context) {
    nesting_.push_back({context, 0});
    return true;
  }
  bool leave() {
    nesting_.pop_back();
    return true;
  }
  bool append(json::string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool fail(json::error_code& code, const std::string& message, ErrorCode kind = ErrorCode::kInvalidInput) {
    error.emplace(kind, message);
    code = boost::system::errc::make_error_code(boost::system::errc::invalid_argument);
    return false;
  }
  bool not_offered(json::error_code& code, const std::string& why) {
    const std::string key(key_, 0, kMaxShownName);
    return fail(code, here() + "." + key + ": " + why, ErrorCode::kUnsupported);
  }
  bool wrong_kind(json::error_code& code, std::string_view found) {
    const std::string name(key_);
    if (std::holds_alternative<Count>(known_->value))
      return fail(code, here() + "." + name + " must be a whole number of at least 0");
    if (std::holds_alternative<Switch>(known_->value))
      return fail(code, here() + "." + name + " must be true or false");
    const auto* next = std::get_if<Context>(&known_->value);
    const std::string wanted = next == nullptr ? "a string" : is_array(*next) ? "an array" : "an object";
    return fail(code, "'" + name + "' in " + here() + " is " + std::string(found) + "; it must be " + wanted);
  }
  bool count(json::error_code& code) {
    if (context() != Context::kData && ++values_ > kMostValues)
      return fail(code, "more than " + std::to_string(kMostValues) + " JSON values outside tensor data");
    return true;
  }

  bool begin(bool object, json::error_code& code) {
    if (!count(code)) return false;
    const std::string_view what = object ? "an object" : "an array";
    switch (context()) {
      case Context::kDocument:
        return object ? enter(Context::kRoot) : fail(code, "the request is an array; it must be an object");
      case Context::kInputs:
      case Context::kOutputs:
        if (!object) return fail(code, here() + " contains an array; only objects are allowed");
        tensors().emplace_back();
        return enter(context() == Context::kInputs ? Context::kInput : Context::kOutput);
      case Context::kShape:
        return fail(code, here() + " holds " + std::string(what) + "; only whole numbers are allowed");
      case Context::kData:
        return object ? fail(code, here() + " contains an object; only numbers are allowed")
                      : begin_data(code);
      case Context::kSkipped:
        return enter(Context::kSkipped);
      default: {
        if (known_ == nullptr) return enter(Context::kSkipped);
        const auto* next = std::get_if<Context>(&known_->value);
        if (next == nullptr || is_array(*next) == object) return wrong_kind(code, what);
        return begin_known(*next, code);
      }
    }
  }

  bool in_output() const {
    return context() == Context::kOutputs || context() == Context::kOutput ||
           context() == Context::kOutputParameters;
  }
  std::pmr::vector<TensorDocument>& tensors() { return in_output() ? *document.outputs : *document.inputs; }
  TensorDocument& tensor() { return tensors().back(); }

  /// Returns the path of the current object or array for error messages: "inputs[0].data".
  std::string here() const {
    // The names are in the order of Context.
    static constexpr std::string_view kNames[] = {
        "", "", "parameters", "inputs", "", ".parameters", "outputs", "", ".parameters", ".shape", ".data"};
    std::string out;
    for (const Nesting& level : nesting_) {
      if (level.context == Context::kSkipped) break;
      const auto index = [](const auto& list) { return "[" + std::to_string(list->size() - 1) + "]"; };
      if (level.context == Context::kInput) out += index(document.inputs);
      if (level.context == Context::kOutput) out += index(document.outputs);
      if (out.ends_with(".data")) break;  // all nested arrays of tensor data have the same name
      out += kNames[static_cast<std::size_t>(level.context)];
    }
    return out.empty() ? "the request" : out;
  }

  bool begin_known(Context next, json::error_code& code) {
    if (next == Context::kInputs) document.inputs.emplace(memory_);
    if (next == Context::kOutputs) document.outputs.emplace(memory_);
    if (next == Context::kShape) tensor().shape.emplace(memory_);
    if (next != Context::kData) return enter(next);
    tensor().data.emplace();
    leaf_depth_.reset();
    data_depth_ = 0;
    return begin_data(code);
  }

  bool begin_data(json::error_code& code) {
    auto& nesting = tensor().data->nesting;
    if (leaf_depth_ && data_depth_ >= *leaf_depth_)
      return fail(code, here() + " is ragged: it mixes numbers and arrays");
    if (++data_depth_ > nesting.size()) nesting.push_back(kOpen);
    return enter(Context::kData);
  }

  bool data_scalar(const Scalar& value, json::error_code& code) {
    auto& data = *tensor().data;
    if (!leaf_depth_) leaf_depth_ = data.nesting.size();
    if (data_depth_ != *leaf_depth_) return fail(code, here() + " is ragged: it mixes numbers and arrays");
    if (++numbers_ > most_elements_)
      return fail(code, here() + ": the tensors hold more than " + std::to_string(most_elements_) +
                            " elements, which is the total number of elements of the model's inputs");
    const auto take = [&](auto element) {
      if constexpr (std::is_constructible_v<Number, decltype(element)>) data.numbers.emplace_back(element);
      return std::is_constructible_v<Number, decltype(element)>;
    };
    return std::visit(take, value) ||
           fail(code, here() + "[" + std::to_string(data.numbers.size()) + "] is " +
                          std::string(kind_of(value)) + "; only numbers are allowed");
  }

  bool scalar(const Scalar& value, json::error_code& code) {
    if (context() == Context::kData) return data_scalar(value, code);
    if (!count(code)) return false;
    switch (context()) {
      case Context::kDocument:
        return fail(code, "the request is " + std::string(kind_of(value)) + "; it must be an object");
      case Context::kInputs:
      case Context::kOutputs:
        return fail(code, here() + " holds " + std::string(kind_of(value)) + "; only objects are allowed");
      case Context::kShape: {
        const auto* dim = std::get_if<std::int64_t>(&value);
        if (dim == nullptr || *dim < 0)
          return fail(code, here() + " must contain whole numbers of at least 0");
        tensor().shape->push_back(*dim);
        return true;
      }
      case Context::kSkipped:
        return true;
      default:
        return known_ == nullptr || take(value) || wrong_kind(code, kind_of(value));
    }
  }

  /// Stores the value of a known key. Returns false if the value has the wrong kind.
  bool take(const Scalar& value) {
    const auto parameters = [&]() -> Parameters& {
      return context() == Context::kParameters ? document.parameters : tensor().parameters;
    };
    if (const auto* to = std::get_if<Count>(&known_->value)) return take_count(value, parameters().**to);
    if (const auto* to = std::get_if<Switch>(&known_->value)) {
      const auto* given = std::get_if<bool>(&value);
      if (given != nullptr) parameters().** to = *given;
      return given != nullptr;
    }
    const auto* text = std::get_if<std::string_view>(&value);
    if (text == nullptr || std::holds_alternative<Context>(known_->value)) return false;
    const auto* to = std::get_if<Text>(&known_->value);
    (to == nullptr ? document.id : (tensor().**to).emplace(memory_)) = *text;
    return true;
  }

  /// Stores a whole number >= 0. Clients also send such numbers as strings ("timeout": "500"). Returns false for any
  /// other value.
  static bool take_count(const Scalar& value, std::optional<std::uint64_t>& to) {
    std::uint64_t number = 0;
    if (const auto* whole = std::get_if<std::int64_t>(&value); whole != nullptr && *whole >= 0) {
      number = static_cast<std::uint64_t>(*whole);
    } else if (const auto* large = std::get_if<std::uint64_t>(&value)) {
      number = *large;
    } else if (const auto* text = std::get_if<std::string_view>(&value)) {
      const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), number);
      if (code != std::errc() || end != text->data() + text->size()) return false;
    } else {
      return false;
    }
    to = number;
    return true;
  }

  const std::uint64_t most_elements_;
  Memory* const memory_;
  std::pmr::vector<Nesting> nesting_;
  std::pmr::string key_;        // the last key of the innermost object
  const Key* known_ = nullptr;  // the row of kKeys for key_; null: the key is unknown
  std::pmr::string text_;       // the parts received so far of a string, key or number
  std::size_t values_ = 0, numbers_ = 0;
  std::size_t data_depth_ = 0;             // how many arrays of the current tensor's data are open
  std::optional<std::size_t> leaf_depth_;  // the value of data_depth_ at which the tensor's numbers occur
};

}  // namespace

Result<InferDocument> parse_infer_json(std::string_view text, std::uint64_t most_elements, Memory* memory) {
  json::basic_parser<DocumentReader> parser(json::parse_options{}, most_elements, memory);
  json::error_code code;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), code);
  if (parser.handler().error) return *parser.handler().error;
  if (!code && used < text.size()) code = json::error::extra_data;
  if (code)
    return Error(ErrorCode::kInvalidInput, "the request is not well-formed JSON: " + code.message() +
                                               " at byte " + std::to_string(used));
  return std::move(parser.handler().document);
}

}  // namespace millrace::server::http
