// Model handles for the models of server/models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/models/registry.hpp"
#include "server/udp/models.hpp"

namespace millrace::server::udp {

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
  class RegistryModel;
  struct Handle {
    std::string name, version;  // empty version: the newest
    std::uint16_t generation = 0;
    std::shared_ptr<RegistryModel> served;  // null: not served now, or not servable over UDP
    const models::Model* model = nullptr;   // the model behind `served`
    std::uint64_t left = 0;                 // when the version was withdrawn, as a sequence number
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
