// Waits for a status of a pipeline over emulated cards.
#pragma once

#include "runtime/pipeline/pipeline.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {

/// The first status for which `holds` is true, or the last one if none is within the time. status() waits for
/// the cards only for a bounded time, so on a loaded machine it may return older values.
template <class Condition>
runtime::pipeline::PipelineStatus status_when(runtime::pipeline::Pipeline& pipeline, Condition holds) {
  runtime::pipeline::PipelineStatus status;
  static_cast<void>(wait_until([&] {
    status = pipeline.status();
    return holds(status);
  }));
  return status;
}

/// The first status in which `card` is true for every card and `link` for every link.
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
