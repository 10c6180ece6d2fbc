// What the cards take while a run goes on: watts as the server tells them, once a second or so.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/base/result.hpp"
#include "tools/load/run.hpp"

namespace millrace::load {

/// The sum over the cards of a model, out of /v2/millrace/status. Nothing where a card of it tells no power,
/// or the text is something else. `version` is not asked for: all versions' cards of the name count.
std::optional<double> watts_of(std::string_view status, std::string_view model);

/// Looks at the server from its own thread, on a connection of its own.
class PowerMeter {
 public:
  /// Nothing where the server tells no power of the model's cards, or is none of ours.
  static std::unique_ptr<PowerMeter> open(const Address& address, const std::string& model);
  virtual ~PowerMeter() = default;

  /// The mean since it was opened, or since the last time this was called. Nothing where no look succeeded.
  virtual std::optional<double> mean_watts() = 0;
};

}  // namespace millrace::load
