// The status of a pipeline over emulated cards, waited for.
#pragma once

#include "runtime/pipeline/pipeline.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {

/// The first status of which it holds; where it never does, the last. status() waits for the cards only so
/// long: on a loaded machine it may show what an earlier look saw.
template <class Condition>
runtime::pipeline::PipelineStatus status_when(runtime::pipeline::Pipeline& pipeline, Condition holds) {
  runtime::pipeline::PipelineStatus status;
  static_cast<void>(wait_until([&] {
    status = pipeline.status();
    return holds(status);
  }));
  return status;
}

/// The same of its cards' and its links' own figures.
template <class OfCard, class OfLink>
runtime::pipeline::PipelineStatus status_when(runtime::pipeline::Pipeline& pipeline, OfCard card,
                                              OfLink link) {
  return status_when(pipeline, [&](const runtime::pipeline::PipelineStatus& status) {
    for (const auto& one : status.cards)
      if (!card(one)) return false;
    for (const auto& one : status.links)
      if (!link(one)) return false;
    return true;
  });
}

}  // namespace millrace::tests
