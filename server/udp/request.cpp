#include "server/udp/request.hpp"

#include <algorithm>

namespace millrace::server::udp {

RequestPool::RequestPool(std::size_t max_requests, std::uint64_t max_bytes)
    : max_requests_(max_requests), max_bytes_(max_bytes) {
  made_.reserve(max_requests);
}

Request* RequestPool::take(std::size_t input_bytes, std::size_t output_bytes) {
  if (free_.empty()) {
    if (made_.size() == max_requests_) return nullptr;
    free_.push_back(*made_.emplace_back(std::make_unique<Request>()));
  }
  Request& r = free_.back();
  const std::size_t after = std::max(r.input.size(), input_bytes) + std::max(r.output.size(), output_bytes);
  if (bytes_ - r.buffer_bytes() + after > max_bytes_) {
    // Release idle buffers before any request is evicted.
    for (Request& idle : free_) {
      bytes_ -= idle.buffer_bytes();
      idle.input = std::vector<std::byte>();
      idle.output = std::vector<std::byte>();
    }
    if (bytes_ + input_bytes + output_bytes > max_bytes_) return nullptr;
  }
  bytes_ -= r.buffer_bytes();
  if (r.input.size() < input_bytes) r.input = std::vector<std::byte>(input_bytes);
  if (r.output.size() < output_bytes) r.output = std::vector<std::byte>(output_bytes);
  bytes_ += r.buffer_bytes();
  r.unlink();
  return &r;
}

void RequestPool::put(Request& request) {
  request.state = Request::State::kFree;
  request.model.reset();
  request.keys.reset();
  request.session = nullptr;
  if (request.is_linked()) request.unlink();
  free_.push_back(request);
}

}  // namespace millrace::server::udp
