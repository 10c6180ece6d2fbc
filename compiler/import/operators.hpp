// Which ONNX operators the compiler takes, and what their attributes must be. Private to compiler/import.
#pragma once

#include <string>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::import {

/// Empty where the operator is one that later passes know; else why it is not, and what to do.
std::string why_unsupported(const graph::OnnxOperator& op);

/// The names of all operators that are taken, separated by commas.
std::string taken_operators();

/// Empty where every attribute is known and has its type ("attribute 'axis' must be an integer").
std::string check_attributes(const graph::OnnxOperator& op);

/// True for operators whose presence makes a model a quantised one.
bool is_quantiser(const graph::OnnxOperator& op);

}  // namespace millrace::compiler::import
