// The models being served, by name and version.
//
// Readers work on an immutable snapshot; publishing swaps the snapshot. A thread that answers requests keeps
// a View: while nothing was published, finding a model costs one atomic load and a hash lookup, and no shared
// cache line is written.
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

/// What is served at one moment. Immutable.
class Snapshot {
 public:
  using Versions = std::map<std::string, std::shared_ptr<Model>, std::less<>>;

  /// The version asked for, or the newest published where `version` is empty; null where there is none.
  std::shared_ptr<Model> find(std::string_view name, std::string_view version) const;

  /// Null where no such model is served.
  const Versions* versions(std::string_view name) const;

  /// Ordered by name and version.
  std::vector<std::shared_ptr<Model>> all() const;
  bool empty() const { return models_.empty(); }

 private:
  friend class Registry;
  struct Entry {
    Versions versions;
    std::shared_ptr<Model> newest;
  };
  std::map<std::string, Entry, std::less<>> models_;
};

/// Changed by one thread at a time; read by any.
class Registry {
 public:
  /// One thread's cached snapshot. refresh() it now and then where no request comes, so that it does not keep
  /// old models alive.
  class View {
   private:
    friend class Registry;
    std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
    std::uint64_t generation_ = 0;
  };

  Registry();

  /// Adds a model version, or takes the place of the one with the same name and version; it becomes the one
  /// that requests without a version get. kInvalidInput where the name is empty.
  Status publish(std::shared_ptr<Model> model);

  /// publish(), and withdraws `previous` (null: nothing) where that is another version: in one step, so that
  /// requests without a version find one of the two.
  Status replace(const Model* previous, std::shared_ptr<Model> model);

  /// kNotFound where it is not served. The model lives on while requests hold it.
  Status withdraw(std::string_view name, std::string_view version);

  /// The view's snapshot, brought up to date. Valid until the view's next refresh.
  const Snapshot& refresh(View& view) const;

  /// For threads that keep no view.
  std::shared_ptr<const Snapshot> snapshot() const;

  /// Every model's pipeline stops within `bound` (all together); afterwards no frame is in flight.
  void stop(std::chrono::milliseconds bound);

  /// What the cards, links and queues of every model report at a scrape. Reads card registers.
  void sample(metrics::Samples& samples) const;

 private:
  void show(std::shared_ptr<const Snapshot> snapshot);

  mutable std::mutex mutex_;  // snapshot_
  std::shared_ptr<const Snapshot> snapshot_;
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace millrace::server::models
