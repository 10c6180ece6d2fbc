// The shell around a partition's network. Private to compiler/emit/rtl.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/emit/rtl/rtl.hpp"

namespace millrace::compiler::emit {

/// The library modules that a top may use.
std::set<std::string> top_modules();

struct TopModule {
  std::string text;
  TopInterface interface;
};

/// kInternal if the image's ports are not the design's.
Result<TopModule> top_module(const generators::Design& design,
                             const std::vector<runtime::plan::ImagePort>& ports, const RtlOptions& options);

}  // namespace millrace::compiler::emit
