// A TensorProto as a Constant, checked. Private to compiler/import.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::import {

struct TensorData {
  graph::Type type;
  graph::Shape shape;
  graph::Constant constant;
};

/// ONNX's data type number as a Type; kUnsupported names the type.
Result<graph::Type> element_type(std::int32_t onnx_type);

/// Errors do not name the tensor: the caller does.
Result<TensorData> read_tensor(const onnx::TensorProto& tensor, const std::filesystem::path& directory);

}  // namespace millrace::compiler::import
