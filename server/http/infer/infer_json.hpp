// Parses the JSON part of an infer request and checks its structure. infer_request.cpp compares the result with the
// model.
//
// The parser reads the text once and builds no document tree: it appends tensor data to a list of numbers and skips
// unknown keys. So the limits bound the memory, whatever the text contains.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/http/infer/tensor.hpp"

namespace millrace::server::http {

struct NumberList {
  std::vector<Number> numbers;       // row-major
  std::vector<std::size_t> nesting;  // length of the arrays at each level; a flat list of n numbers has {n}
};

/// All parameters that a request, an input or an output can have. README.md says which of them may occur where.
struct Parameters {
  std::optional<std::uint64_t> timeout, priority, binary_data_size, classification;
  std::optional<bool> binary_data_output, binary_data;
};

// The memory of an InferDocument, except for its tensor data: a few hundred bytes, which parse_infer_request() takes
// from its stack.
using Memory = std::pmr::memory_resource;

/// An input or a requested output. An output has only a name and parameters.
struct TensorDocument {
  std::optional<std::pmr::string> name, datatype;
  std::optional<std::pmr::vector<std::int64_t>> shape;
  std::optional<NumberList> data;
  Parameters parameters;
};

struct InferDocument {
  explicit InferDocument(Memory* memory) : id(memory) {}
  std::pmr::string id;
  Parameters parameters;
  std::optional<std::pmr::vector<TensorDocument>> inputs, outputs;
};

/// Parses an infer request and skips unknown keys. Returns kInvalidInput for a known key that occurs twice or has a
/// value of the wrong kind, for more than `most_elements` numbers in all tensors together, and for more than 10,000
/// other JSON values. Returns kUnsupported for parameters of sequences and of shared memory. Errors name the field.
/// `memory` must outlive the document.
Result<InferDocument> parse_infer_json(std::string_view json, std::uint64_t most_elements, Memory* memory);

}  // namespace millrace::server::http
