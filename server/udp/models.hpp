// The models that the UDP engine serves, by handle and by name.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::udp {

/// One loaded model version under one handle, with sizes and signature computed once. Requests hold it
/// through a shared_ptr until they are answered; the pipeline must live as long.
class ServedModel {
 public:
  /// `handle` is not 0. `model`, if there is one, has `pipeline`, and its requests are counted; `newest`: the
  /// handle means the newest version. kUnsupported, naming the tensor, if a tensor has no fixed size, or all
  /// inputs (outputs) together have 4 GiB or more.
  static Result<std::shared_ptr<ServedModel>> make(std::uint32_t handle,
                                                   runtime::pipeline::Pipeline& pipeline,
                                                   std::shared_ptr<models::Model> model = nullptr,
                                                   bool newest = false);

  // Constant after make():
  const std::uint32_t handle;
  runtime::pipeline::Pipeline& pipeline;
  std::vector<std::uint32_t> inputs, outputs;  // bytes of each tensor
  std::uint32_t input_bytes = 0, output_bytes = 0;
  std::vector<std::byte> signature;  // as COOKIE carries it

  /// As Pipeline::submit(). If the handle means the newest version, a version that replaces this one may
  /// compute the waiting frame; `passage`, which must live until on_complete, then names it.
  Status submit(runtime::pipeline::Frame& frame, models::Passage& passage) const {
    if (model_ == nullptr) return pipeline.submit(frame);
    passage = {model_, newest_};
    return model_->submit(frame, passage);
  }

  // For statistics; any thread. Every submitted request calls begun(), then succeeded() or failed() with its
  // passage, or not_taken() if submit() failed. Any other request calls only refused().
  void begun() const {
    if (model_) model_->begun();
  }
  void refused(ErrorCode reason) const {
    if (model_) model_->refused(kUdp, reason);
  }
  static void succeeded(const models::Passage& passage, const runtime::pipeline::FrameTimes& times,
                        std::chrono::nanoseconds request) {
    if (passage.model)
      passage.model->succeeded(kUdp, {request, times.queue, times.input, times.compute, times.output});
  }
  static void failed(const models::Passage& passage, ErrorCode reason, std::chrono::nanoseconds request) {
    if (passage.model) passage.model->failed(kUdp, reason, request);
  }
  static void not_taken(const models::Passage& passage, ErrorCode reason) {
    if (passage.model) passage.model->not_taken(kUdp, reason);
  }

 private:
  static constexpr auto kUdp = metrics::Transport::kUdp;
  ServedModel(std::uint32_t its_handle, runtime::pipeline::Pipeline& its_pipeline,
              std::shared_ptr<models::Model> model, bool newest)
      : handle(its_handle), pipeline(its_pipeline), model_(std::move(model)), newest_(newest) {}

  const std::shared_ptr<models::Model> model_;
  const bool newest_;
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

/// A handle is an index into a table and a generation. Each model version has a table row, and so has the
/// newest version of each model. Publishing a version again increments its row's generation, and so does a
/// new newest version. A row keeps its name after its version is gone. Once there are kKeptHandles rows, a
/// new name takes the row whose version was withdrawn first. Generations start at a random number, so handles
/// from before a restart are invalid.
class RegistryDirectory final : public ModelDirectory {
 public:
  static constexpr std::size_t kKeptHandles = 1'024;

  /// Whether a version of a model (any version if empty) is being loaded.
  using Loading = std::function<bool(std::string_view model, std::string_view version)>;

  /// `registry` and everything `loading` refers to must outlive the directory.
  explicit RegistryDirectory(const models::Registry& registry, Loading loading = {});

  Outcome by_handle(std::uint32_t handle, std::shared_ptr<ServedModel>& out) override;
  std::shared_ptr<ServedModel> by_name(std::string_view name, std::string_view version) override;
  bool loading(std::string_view name, std::string_view version) override {
    return loading_ && loading_(name, version);
  }
  void refresh() override;

 private:
  struct Handle {
    std::string name, version;  // empty version: the newest
    std::uint16_t generation = 0;
    std::shared_ptr<ServedModel> served;   // null: not served now, or not servable over UDP
    const models::Model* model = nullptr;  // the model behind `served`
    std::uint64_t left = 0;                // when the version was withdrawn, as a sequence number
  };

  void rebuild(const models::Snapshot& snapshot);
  Handle* handle_for(std::string_view name, std::string_view version);
  void show(std::string_view version, const std::shared_ptr<models::Model>& model);

  const models::Registry& registry_;
  const Loading loading_;
  models::Registry::View view_;
  const models::Snapshot* built_from_ = nullptr;  // kept alive by the view, so its address is unique
  const std::uint16_t first_generation_;
  std::vector<Handle> handles_;
  std::uint64_t withdrawals_ = 0;
  bool full_logged_ = false;
};

}  // namespace millrace::server::udp
