// The models being served, by name and version.
//
// Readers use an immutable snapshot, and publishing a model replaces the snapshot. Each thread that answers requests
// keeps a View. Until a model is published, looking up a model through the View costs one atomic load and one map
// lookup and writes to no shared cache line.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/model.hpp"

namespace millrace::server::models {

/// An immutable list of the models served at one moment, with one version of each.
class Snapshot {
 public:
  /// Returns the model `name` if its serving version is `version` or if `version` is empty. Returns null otherwise.
  std::shared_ptr<Model> find(std::string_view name, std::string_view version) const;

  /// Returns the models ordered by name.
  std::vector<std::shared_ptr<Model>> all() const;
  bool empty() const { return models_.empty(); }

 private:
  friend class Registry;
  std::map<std::string, std::shared_ptr<Model>, std::less<>> models_;
};

/// One thread at a time may change the registry; any thread may read it.
class Registry {
 public:
  /// A snapshot cached by one thread. An idle thread must refresh() it now and then, because a View keeps models
  /// alive.
  class View {
   private:
    friend class Registry;
    std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
    std::uint64_t generation_ = 0;
  };

  /// Serves the model, replacing in one step the version that serves under its name. Returns kInvalidInput without a
  /// name.
  Status publish(std::shared_ptr<Model> model);

  /// Stops serving the model if it is the version that serves. The model stays alive while requests hold it.
  void withdraw(const Model& model);

  /// Updates the view and returns its snapshot, which is valid until the view's next refresh.
  const Snapshot& refresh(View& view) const;

  /// Returns the current snapshot. For threads that have no View.
  std::shared_ptr<const Snapshot> snapshot() const;

  /// Stops the pipelines of all models within `bound` in total. Afterwards no frame is in flight.
  void stop(std::chrono::milliseconds bound);

  /// Reports metrics of the cards, links and queues of every model when metrics are scraped. Reads card registers.
  void sample(metrics::Samples& samples) const;

 private:
  void show(std::shared_ptr<const Snapshot> snapshot);

  mutable std::mutex mutex_;  // protects snapshot_
  std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace millrace::server::models
