#include "server/udp/request.hpp"

#include <algorithm>
#include <cassert>

namespace millrace::server::udp {

RequestPool::RequestPool(std::size_t max_requests, std::uint64_t max_bytes)
    : max_requests_(max_requests), max_bytes_(max_bytes) {
  made_.reserve(max_requests);
  free_.reserve(max_requests);
}

Request* RequestPool::try_take(std::size_t input_bytes, std::size_t output_bytes) {
  if (free_.empty()) {
    if (made_.size() == max_requests_) return nullptr;
    made_.push_back(std::make_unique<Request>());
    free_.push_back(made_.back().get());
  }
  Request* r = free_.back();
  const std::size_t before = r->capacity();
  const std::size_t after =
      std::max(r->input.capacity(), input_bytes) + std::max(r->output.capacity(), output_bytes);
  if (bytes_ - before + after > max_bytes_) {
    // Release idle buffers before any request is evicted.
    for (Request* idle : free_) {
      bytes_ -= idle->capacity();
      idle->input.release();
      idle->output.release();
    }
    if (bytes_ + input_bytes + output_bytes > max_bytes_) return nullptr;
  }
  bytes_ -= r->capacity();
  r->input.reserve(input_bytes);
  r->output.reserve(output_bytes);
  bytes_ += r->capacity();
  free_.pop_back();
  return r;
}

void RequestPool::put(Request* request) {
  assert(request->older == nullptr && request->newer == nullptr && request != oldest_);
  request->state = Request::State::kFree;
  request->model.reset();
  request->keys.reset();
  request->session = nullptr;
  free_.push_back(request);
}

void RequestPool::keep(Request* request) {
  request->older = newest_;
  if (newest_ != nullptr) newest_->newer = request;
  newest_ = request;
  if (oldest_ == nullptr) oldest_ = request;
}

void RequestPool::forget(Request* request) {
  (request->older != nullptr ? request->older->newer : oldest_) = request->newer;
  (request->newer != nullptr ? request->newer->older : newest_) = request->older;
  request->older = request->newer = nullptr;
}

}  // namespace millrace::server::udp
