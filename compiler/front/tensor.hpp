// Reads and checks a TensorProto. Private to compiler/front.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <string>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Returns an error with the code kInvalidInput.
Error invalid(std::string message);

/// Returns the Type of an ONNX data type number. If no Type corresponds to it, returns kUnsupported with the ONNX
/// type's name.
Result<graph::Type> element_type(std::int32_t onnx_type);

/// Reads type, shape and elements of `tensor` into `value`. Errors do not name the tensor, so the caller must add the
/// name.
Status read_tensor(const onnx::TensorProto& tensor, const std::filesystem::path& directory,
                   graph::Value& value);

}  // namespace millrace::compiler
