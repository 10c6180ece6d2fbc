// A vector whose copies share their elements until one copy is edited. Programs store megabytes of weights in such
// vectors.
#pragma once

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace millrace::kernels {

/// Can be read like a std::vector; edit() returns the vector itself. Thread safety is that of std::vector: one thread
/// at a time may use an object, even if the object shares elements with others.
template <class T>
class SharedVector {
 public:
  using value_type = T;

  SharedVector() = default;
  SharedVector(std::vector<T> values)  // NOLINT(google-explicit-constructor): implicit on purpose
      : values_(std::make_shared<std::vector<T>>(std::move(values))) {}
  SharedVector(std::initializer_list<T> values) : SharedVector(std::vector<T>(values)) {}

  const std::vector<T>& get() const { return values_ ? *values_ : nothing(); }
  operator const std::vector<T>&() const { return get(); }  // NOLINT(google-explicit-constructor)
  std::size_t size() const { return get().size(); }
  bool empty() const { return get().empty(); }
  const T* data() const { return get().data(); }
  const T& operator[](std::size_t i) const { return (*values_)[i]; }  // i below size()
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }

  /// Returns the elements for editing. If other objects share the elements, edit() copies them first. Do not use the
  /// returned reference after this object is copied again.
  std::vector<T>& edit() {
    // If only this object holds the elements, no other object can begin to share them during the edit.
    if (!values_ || values_.use_count() > 1) values_ = std::make_shared<std::vector<T>>(get());
    std::atomic_thread_fence(std::memory_order_acquire);  // order the edit after all reads by former owners
    return *values_;
  }

  friend bool operator==(const SharedVector& a, const SharedVector& b) {
    return a.values_ == b.values_ || a.get() == b.get();
  }

 private:
  static const std::vector<T>& nothing() {
    static const std::vector<T> kNothing;
    return kNothing;
  }

  std::shared_ptr<std::vector<T>> values_;  // null for an empty vector
};

}  // namespace millrace::kernels
