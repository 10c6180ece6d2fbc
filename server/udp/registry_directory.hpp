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

/// A handle is a place in a table, and the generation of what stands there. There is a place for each model
/// version, with another generation each time the version is published again, and one for the newest version
/// of each model, with another generation each time that is another. A place keeps its name after the version
/// is gone, until there are kKeptPlaces and a new name takes the place that was left first, with its next
/// generation. Generations start at a random number, so that a handle from before a restart names nothing.
class RegistryDirectory final : public ModelDirectory {
 public:
  static constexpr std::size_t kKeptPlaces = 1'024;

  /// Whether a version of a model (empty: any) is being loaded.
  using Loading = std::function<bool(std::string_view model, std::string_view version)>;

  /// `registry`, and what `loading` (empty: nothing ever is) refers to, must outlive the directory.
  explicit RegistryDirectory(const models::Registry& registry, Loading loading = {});

  Outcome by_handle(std::uint32_t handle, std::shared_ptr<ServedModel>& out) override;
  std::shared_ptr<ServedModel> by_name(std::string_view name, std::string_view version) override;
  bool loading(std::string_view name, std::string_view version) override {
    return loading_ && loading_(name, version);
  }
  void refresh() override;

 private:
  class RegistryModel;
  struct Entry {
    std::string name, version;  // no version: the newest
    std::uint16_t generation = 0;
    std::shared_ptr<RegistryModel> served;  // null where the version is not served now, or cannot be over UDP
    const models::Model* model = nullptr;   // what `served` stands for
    std::uint64_t left = 0;                 // the older, the smaller; of one without a model
  };

  void rebuild(const models::Snapshot& snapshot);
  Entry* entry_for(std::string_view name, std::string_view version);
  void show(std::string_view version, const std::shared_ptr<models::Model>& model);

  const models::Registry& registry_;
  const Loading loading_;
  models::Registry::View view_;
  const models::Snapshot* built_from_ = nullptr;  // the view keeps it alive, so that no other has its address
  const std::uint16_t first_generation_;
  std::vector<Entry> entries_;
  std::uint64_t departures_ = 0;
  bool full_told_ = false;
};

}  // namespace millrace::server::udp
