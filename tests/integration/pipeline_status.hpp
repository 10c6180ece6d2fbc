// Waits for a status of a pipeline over emulated cards.
#pragma once

#include "runtime/pipeline/pipeline.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {

/// Asks for the pipeline's status until `holds` accepts a status, and returns that status; after a timeout, returns the
/// last status. One call of status() does not suffice, because the call waits for the cards only for a bounded time and
/// returns older values on a loaded machine.
template <class Condition>
runtime::pipeline::PipelineStatus status_when(runtime::pipeline::Pipeline& pipeline, Condition holds) {
  runtime::pipeline::PipelineStatus status;
  static_cast<void>(wait_until([&] {
    status = pipeline.status();
    return holds(status);
  }));
  return status;
}

/// Waits for a status in which `card` is true for every card and `link` is true for every link between cards.
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
