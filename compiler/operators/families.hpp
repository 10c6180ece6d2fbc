// The rows of the operator table, family by family. Private to compiler/operators.
#pragma once

#include <span>

#include "compiler/operators/operators.hpp"

namespace millrace::compiler::operators {

std::span<const Operator> activations();  // functions of one element, and Softmax
std::span<const Operator> arithmetic();   // Add to Div, Cast, BatchNormalization
std::span<const Operator> moves();        // operators that move, join or select elements
std::span<const Operator> pools();
std::span<const Operator> products();  // convolutions and matrix products
std::span<const Operator> quantisers();

}  // namespace millrace::compiler::operators
