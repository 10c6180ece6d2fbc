// Why a problem has no solution, and what would have one. Private to this folder.
#pragma once

#include "compiler/explore/placing.hpp"

namespace millrace::compiler::explore {

/// For a predictable problem whose targets cannot be met: the resource that binds, by how much, on which
/// layer; the nearest targets this cluster can meet, and the nearest cluster that meets these.
Error diagnose(const Board& board);

}  // namespace millrace::compiler::explore
