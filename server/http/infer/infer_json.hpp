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
#include <vector>

#include "runtime/base/result.hpp"
#include "server/http/infer/tensor.hpp"

namespace millrace::server::http {

struct NumberList {
  std::vector<Number> numbers;       // row-major
  std::vector<std::size_t> nesting;  // length of the arrays at each level: {n} for a flat list
};

/// The known parameters of a request, of an input and of an output. README.md says which belong to which.
struct Parameters {
  std::optional<std::uint64_t> timeout, priority, binary_data_size, classification;
  std::optional<bool> binary_data_output, binary_data;
};

// Except for tensor data, the document lives in the memory given to parse_infer_json(): a few hundred bytes, which
// the hot path has on its stack.
using Memory = std::pmr::memory_resource;

/// An input, or an output, which has no more than a name and parameters.
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

/// Unknown keys are skipped, because clients may send more than we know. kInvalidInput, naming the field, if a known
/// key or parameter occurs twice or has a value of the wrong kind; kUnsupported for parameters of sequences and of
/// shared memory. The tensors may hold `most_elements` numbers together; beside them there may be 10,000 JSON values.
/// `memory` must outlive the document.
Result<InferDocument> parse_infer_json(std::string_view json, std::uint64_t most_elements, Memory* memory);

}  // namespace millrace::server::http
