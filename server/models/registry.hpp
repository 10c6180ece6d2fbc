// The models being served, by name and version.
//
// Readers work on an immutable snapshot; publishing replaces the snapshot. A thread that answers requests
// keeps a View: until something is published, finding a model costs one atomic load and two map lookups, and
// writes to no shared cache line.
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

/// The models served at one moment. Immutable.
class Snapshot {
 public:
  using Versions = std::map<std::string, std::shared_ptr<Model>, std::less<>>;

  /// The version, or the last published one if `version` is empty; null if there is none.
  std::shared_ptr<Model> find(std::string_view name, std::string_view version) const;

  /// Null if no such model is served.
  const Versions* versions(std::string_view name) const;

  /// Ordered by name and version.
  std::vector<std::shared_ptr<Model>> all() const;
  bool empty() const { return models_.empty(); }

 private:
  friend class Registry;
  struct ServedVersions {
    Versions versions;
    std::shared_ptr<Model> newest;
  };
  std::map<std::string, ServedVersions, std::less<>> models_;
};

/// Changed by one thread at a time; read by any.
class Registry {
 public:
  /// One thread's cached snapshot. An idle thread must refresh() it now and then, or it keeps old models
  /// alive.
  class View {
   private:
    friend class Registry;
    std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
    std::uint64_t generation_ = 0;
  };

  Registry();

  /// Adds a model version or replaces the one with the same name and version. Requests without a version get
  /// it from now on. kInvalidInput if the name is empty.
  Status publish(std::shared_ptr<Model> model);

  /// Publishes `model` and withdraws `previous` (may be null) in one step, so that requests without a version
  /// always find one of the two.
  Status replace(const Model* previous, std::shared_ptr<Model> model);

  /// kNotFound if the version is not served. The model lives on while requests hold it.
  Status withdraw(std::string_view name, std::string_view version);

  /// The view's snapshot, brought up to date. Valid until the view's next refresh.
  const Snapshot& refresh(View& view) const;

  /// For threads without a view.
  std::shared_ptr<const Snapshot> snapshot() const;

  /// Stops every model's pipeline, all of them within `bound`. Afterwards no frame is in flight.
  void stop(std::chrono::milliseconds bound);

  /// Reports the cards, links and queues of every model at a scrape. Reads card registers.
  void sample(metrics::Samples& samples) const;

 private:
  void show(std::shared_ptr<const Snapshot> snapshot);

  mutable std::mutex mutex_;  // snapshot_
  std::shared_ptr<const Snapshot> snapshot_;
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace millrace::server::models
