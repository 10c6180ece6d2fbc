// The way of frames from one version of a model to the next: what waits for the next version, or comes too
// late for the old one, passes the gate.
#pragma once

#include <memory>
#include <string>

#include "runtime/pipeline/dispatcher.hpp"

namespace millrace::server::models {

class Model;

/// What the owner of a frame allows, and learns; Frame::passage points to it.
struct Passage {
  /// The model the frame was submitted to. If another one takes the frame, it is written here before
  /// on_complete.
  std::shared_ptr<Model> model;
  bool any_version = false;  // a version with another name may answer
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
