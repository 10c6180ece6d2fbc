// The JSON part of an infer request as it was written. Its structure is checked; nothing is compared with a model
// yet.
//
// It is read in one pass without a document tree: tensor data go straight into a list of numbers, and what is
// unknown is skipped. So memory is bounded by the limits, whatever the text holds.
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

/// A JSON number as it was written (integers stay exact), or a JSON boolean.
using Number = std::variant<std::int64_t, std::uint64_t, double, bool>;

struct NumberList {
  std::vector<Number> numbers;       // row-major
  std::vector<std::size_t> nesting;  // length of the arrays at each level: {n} for a flat list
};

// Except for tensor data, the document lives in the memory given to parse_infer_json(): a few hundred bytes, which
// the hot path has on its stack.
using Memory = std::pmr::memory_resource;

struct Parameter {
  std::pmr::string name;
  // monostate: null, an object or an array
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

/// Unknown keys are skipped, because clients may send more than we know. kInvalidInput, naming the field, if a known
/// key or parameter occurs twice or has a value of the wrong kind. `memory` must outlive the document.
Result<InferDocument> parse_infer_json(std::string_view json, const InferLimits& limits, Memory* memory);

}  // namespace millrace::server::http
