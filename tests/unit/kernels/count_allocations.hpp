// How often the process calls operator new. In a file of its own: compilers see through an operator they can
// inline.
#pragma once

#include <cstddef>
#include <functional>

namespace millrace::tests {

std::size_t allocations_during(const std::function<void()>& work);

}  // namespace millrace::tests
