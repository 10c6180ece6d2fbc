// A vector whose copies share their elements until one copy is edited. Programs hold megabytes of weights in
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace millrace::kernels {

/// Reads like a std::vector; edit() returns the vector itself. Thread safety is that of std::vector: each
/// object may be used by one thread at a time, even if it shares elements with others.
template <class T>
class SharedVector {
 public:
  using value_type = T;

  SharedVector() = default;
  SharedVector(std::vector<T> values)  // NOLINT(google-explicit-constructor): is meant to be one
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

  /// The elements, for editing, until this object is copied again. Copies them first if other objects share
  /// them.
  std::vector<T>& edit() {
    // If only this object holds the elements, no other object can start to share them meanwhile.
    if (!values_ || values_.use_count() > 1) values_ = std::make_shared<std::vector<T>>(get());
    std::atomic_thread_fence(std::memory_order_acquire);  // after what others did before they let it go
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

  std::shared_ptr<std::vector<T>> values_;  // null: none
};

}  // namespace millrace::kernels
