// The JSON part of an infer request as it was written: structure checked, nothing compared with a model yet.
//
// Read in one pass without a document tree: tensor data go straight into a list of numbers, everything
// unknown is skipped, and memory stays in proportion to what the limits allow, whatever the text holds.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::server::http {

/// A JSON number as written (integers stay exact), or a JSON boolean.
using Number = std::variant<std::int64_t, std::uint64_t, double, bool>;

struct NumberList {
  std::vector<Number> numbers;       // row-major
  std::vector<std::size_t> nesting;  // length of the arrays at each level: {n} for a flat list
};

// The document lives in the memory given to parse_infer_json(), tensor data aside: a request's own is a few
// hundred bytes, for which a caller on the hot path has room on its stack.
using Memory = std::pmr::memory_resource;

struct Parameter {
  std::pmr::string name;
  // monostate: anything else
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::pmr::string> value;
};
using Parameters = std::pmr::vector<Parameter>;

struct InputDocument {
  explicit InputDocument(Memory* memory) : parameters(memory) {}
  std::optional<std::pmr::string> name, datatype;
  std::optional<std::pmr::vector<std::int64_t>> shape;
  Parameters parameters;
  std::optional<NumberList> data;
};

struct OutputDocument {
  explicit OutputDocument(Memory* memory) : parameters(memory) {}
  std::optional<std::pmr::string> name;
  Parameters parameters;
};

struct InferDocument {
  explicit InferDocument(Memory* memory) : id(memory), parameters(memory) {}
  std::pmr::string id;
  Parameters parameters;
  std::optional<std::pmr::vector<InputDocument>> inputs;
  std::optional<std::pmr::vector<OutputDocument>> outputs;
};

struct InferLimits {
  std::size_t data_elements = 0;  // numbers in the data of all tensors
  std::size_t values = 10'000;    // JSON values outside tensor data
};

/// Unknown keys are skipped (clients may send more than we know); a known key or parameter twice, or a key
/// with a value of the wrong kind, is refused. kInvalidInput, naming the field. `memory` must outlive the
/// document.
Result<InferDocument> parse_infer_json(std::string_view json, const InferLimits& limits, Memory* memory);

}  // namespace millrace::server::http
