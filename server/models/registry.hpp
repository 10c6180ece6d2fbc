// The models being served, by name and version.
//
// Readers work on an immutable snapshot; publishing replaces the snapshot. A thread that answers requests
// keeps a View: until something is published, finding a model costs one atomic load and one map lookup, and
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

/// The models served at one moment, one version of each. Immutable.
class Snapshot {
 public:
  /// The model if `version` is empty or the one that serves; null otherwise.
  std::shared_ptr<Model> find(std::string_view name, std::string_view version) const;

  /// Ordered by name.
  std::vector<std::shared_ptr<Model>> all() const;
  bool empty() const { return models_.empty(); }

 private:
  friend class Registry;
  std::map<std::string, std::shared_ptr<Model>, std::less<>> models_;
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

  /// Serves the model in place of the version that serves under its name, in one step. kInvalidInput if the
  /// name is empty.
  Status publish(std::shared_ptr<Model> model);

  /// Serves the model no more, if it is the one that serves. It lives on while requests hold it.
  void withdraw(const Model& model);

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
  std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace millrace::server::models
