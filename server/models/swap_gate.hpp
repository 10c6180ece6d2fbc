// Hands frames from one version of a model to the next: frames that the old version held during the swap, and
// frames that come after it.
#pragma once

#include <memory>
#include <string>

#include "runtime/pipeline/dispatcher.hpp"

namespace millrace::server::models {

class Model;

/// Whether another version may answer a frame, and which one did; Frame::passage points to it.
struct Passage {
  /// The model that the frame was submitted to. If another one takes the frame, the gate writes that one here
  /// before on_complete.
  std::shared_ptr<Model> model;
  bool any_version = false;  // a version of another number may answer
};

/// Stands between a version and the next one. A frame without a passage passes only to the same deployment.
class SwapGate final : public runtime::pipeline::Successor {
 public:
  SwapGate(const Model& before, std::shared_ptr<Model> next);

  Status submit(runtime::pipeline::Frame& frame) override;
  void cancel(runtime::pipeline::Frame& frame) override;

 private:
  const bool same_deployment_;
  const std::shared_ptr<Model> next_;
};

}  // namespace millrace::server::models
