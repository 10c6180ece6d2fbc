// The models that the UDP engine serves. Clients refer to a model by its name or by a number, its handle.
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

/// A loaded model version and a handle (a number) for it, with sizes and signature computed in advance. Requests hold
/// it through a shared_ptr until they are answered; the pipeline must live that long too.
class ServedModel {
 public:
  /// `handle`, the model's number in the protocol, must not be 0. If `model` is not null, the model owns `pipeline`,
  /// and the model's requests are counted. `newest` says that the handle means the newest version. Returns
  /// kUnsupported, naming the tensor, if a tensor has no fixed size, and if the inputs (or the outputs) together have 4
  /// GiB or more.
  static Result<std::shared_ptr<ServedModel>> make(std::uint32_t handle,
                                                   runtime::pipeline::Pipeline& pipeline,
                                                   std::shared_ptr<models::Model> model = nullptr,
                                                   bool newest = false);

  // The members below are constant after make().
  const std::uint32_t handle;
  runtime::pipeline::Pipeline& pipeline;
  std::vector<std::uint32_t> inputs, outputs;  // bytes of each tensor
  std::uint32_t input_bytes = 0, output_bytes = 0;
  std::vector<std::byte> signature;  // encoded as in a COOKIE datagram

  /// Submits a frame like Pipeline::submit(). If the handle means the newest version, a later version may take over the
  /// frame while the frame waits; `passage` then names that version. `passage` must live until on_complete is called.
  Status submit(runtime::pipeline::Frame& frame, models::Passage& passage) const {
    if (model_ == nullptr) return pipeline.submit(frame);
    passage = {model_, newest_};
    return model_->submit(frame, passage);
  }

  // Counters; any thread may call them. Every submitted request calls begun(), and later, with its Passage (which names
  // the version that answered), succeeded(), failed() or (if submit() failed) not_taken(). A request that was never
  // submitted calls only refused().
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

/// Finds the models that are served now. Only the listener's thread calls it.
class ModelDirectory {
 public:
  enum class Outcome { kFound, kUnknown, kStale };  // kStale: the version was replaced
  virtual ~ModelDirectory() = default;

  virtual Outcome by_handle(std::uint32_t handle, std::shared_ptr<ServedModel>& out) = 0;

  /// Finds a model version, or the newest version if `version` is empty. Returns null if there is none.
  virtual std::shared_ptr<ServedModel> by_name(std::string_view name, std::string_view version) = 0;

  /// Whether a version that by_name() does not find is being loaded.
  virtual bool loading(std::string_view, std::string_view) { return false; }

  /// Releases replaced models. Called periodically, even without requests.
  virtual void refresh() {}
};

/// Assigns handles to the models of a registry. A handle consists of an index into a table and a generation. The table
/// has a row for each model version and one for the newest version of each model. A row's generation is incremented
/// when the version is published again, or when another version becomes the newest. A row keeps its name after its
/// version is gone. Once there are kKeptHandles rows, a new name takes over the row of the version that was withdrawn
/// first. Generations start at a random number, so handles from before a restart are invalid.
class RegistryDirectory final : public ModelDirectory {
 public:
  static constexpr std::size_t kKeptHandles = 1'024;

  /// Whether a version of the model is being loaded; an empty version means any version.
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
    std::string name, version;  // an empty version means the newest
    std::uint16_t generation = 0;
    std::shared_ptr<ServedModel> served;   // null: not served now, or UDP cannot serve it
    const models::Model* model = nullptr;  // the model behind `served`
    std::uint64_t left = 0;                // sequence number of the version's withdrawal
  };

  void rebuild(const models::Snapshot& snapshot);
  Handle* handle_for(std::string_view name, std::string_view version);
  void show(std::string_view version, const std::shared_ptr<models::Model>& model);

  const models::Registry& registry_;
  const Loading loading_;
  models::Registry::View view_;
  const models::Snapshot* built_from_ = nullptr;  // view_ keeps it alive, so the address is unique
  const std::uint16_t first_generation_;
  std::vector<Handle> handles_;
  std::uint64_t withdrawals_ = 0;
  bool full_logged_ = false;
};

}  // namespace millrace::server::udp
