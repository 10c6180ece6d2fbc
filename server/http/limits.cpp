#include "server/http/limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <string>

#include "runtime/plan/quantised.hpp"
#include "server/http/infer/tensor.hpp"

namespace millrace::server::http {
namespace {

constexpr std::uint64_t kOwnDescriptors = 64;  // for the log, signals, epoll, timers, listeners and XRT
constexpr std::uint64_t kDescriptorsPerCard = 16;

constexpr std::uint64_t kJsonBytesPerElement = 32;
constexpr std::uint64_t kBodySlack = 64U << 10U;
constexpr std::uint64_t kLeastBody = 1U << 20U;

}  // namespace

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;  // the default of Linux
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return limit.rlim_cur;
}

Result<std::size_t> connections_within(std::size_t wanted, std::uint64_t descriptors, std::size_t cards) {
  const std::uint64_t kept = kOwnDescriptors + kRefusedAtOnce + kDescriptorsPerCard * cards;
  if (descriptors <= kept)
    return Error(ErrorCode::kEnvironment, "the limit of open files is " + std::to_string(descriptors) +
                                              ", of which the server and " + std::to_string(cards) +
                                              " card(s) need " + std::to_string(kept) +
                                              "; raise it (ulimit -n, LimitNOFILE=)");
  return static_cast<std::size_t>(std::min<std::uint64_t>(wanted, descriptors - kept));
}

std::uint64_t body_bytes_for(const runtime::plan::ModelInfo& model) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 2;
  std::uint64_t bytes = kBodySlack;
  for (const auto& input : model.inputs) {
    const std::uint64_t elements = elements_of(input);
    if (elements > (kMost - bytes) / kJsonBytesPerElement) return kMost;
    bytes += elements * kJsonBytesPerElement;
  }
  return std::max(bytes, kLeastBody);
}

std::uint64_t least_body_bytes_for(const runtime::plan::Deployment& deployment) {
  const auto integers = runtime::plan::quantised_inputs(deployment);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < deployment.model.inputs.size(); ++i) {
    const auto& input = deployment.model.inputs[i];
    std::uint64_t least = bytes_of(input);
    if (i < integers.size() && integers[i]) least = std::min(least, bytes_of(input, integers[i]->datatype));
    bytes += least;
  }
  return bytes;
}

}  // namespace millrace::server::http
