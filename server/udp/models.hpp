// The models that the UDP engine serves, by handle and by name.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "server/models/swap_gate.hpp"

namespace millrace::server::udp {

/// One loaded model version under one handle, with sizes and signature computed once. Requests hold it
/// through a shared_ptr until they are answered; the pipeline must live as long.
class ServedModel {
 public:
  /// kUnsupported, naming the tensor, if a tensor has no fixed size, or all inputs (outputs) together have 4
  /// GiB or more.
  static Status check(const runtime::plan::ModelInfo& info);

  /// check() must hold. `handle` is not 0.
  ServedModel(std::uint32_t handle, runtime::pipeline::Pipeline& pipeline,
              const runtime::plan::ModelInfo& info);
  virtual ~ServedModel() = default;

  // Constant after construction:
  const std::uint32_t handle;
  runtime::pipeline::Pipeline& pipeline;
  std::vector<std::uint32_t> inputs, outputs;  // bytes of each tensor
  std::uint32_t input_bytes = 0, output_bytes = 0;
  std::vector<std::byte> signature;  // as COOKIE carries it

  /// As Pipeline::submit(). If the handle means the newest version, a version that replaces this one may
  /// compute the waiting frame; `passage`, which must live until on_complete, then names it.
  virtual Status submit(runtime::pipeline::Frame& frame, models::Passage&) { return pipeline.submit(frame); }
  /// Cancels a frame that waits.
  void cancel(runtime::pipeline::Frame& frame) { pipeline.cancel(frame); }

  // For statistics; any thread. Every submitted request calls begun(), then succeeded() or failed() with its
  // passage, or not_taken() if submit() failed. Any other request calls only refused().
  virtual void begun() {}
  virtual void succeeded(const models::Passage&, const runtime::pipeline::FrameTimes&,
                         std::chrono::nanoseconds) {}
  virtual void failed(const models::Passage&, ErrorCode, std::chrono::nanoseconds) {}
  virtual void not_taken(const models::Passage&, ErrorCode) {}
  virtual void refused(ErrorCode) {}
};

/// The models served now. Called by the listener's thread only.
class ModelDirectory {
 public:
  enum class Outcome { kFound, kUnknown, kStale };  // kStale: the version was replaced
  virtual ~ModelDirectory() = default;

  virtual Outcome by_handle(std::uint32_t handle, std::shared_ptr<ServedModel>& out) = 0;

  /// The newest version if `version` is empty; null if there is none.
  virtual std::shared_ptr<ServedModel> by_name(std::string_view name, std::string_view version) = 0;

  /// Whether a version that by_name() does not find is being loaded.
  virtual bool loading(std::string_view, std::string_view) { return false; }

  /// Called periodically, even without requests, so that replaced models are released.
  virtual void refresh() {}
};

}  // namespace millrace::server::udp
