// Measures the power of the cards during a run, in watts, by asking the server at regular intervals.
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

/// Extracts the total power of all cards of a model, over all its versions, from the text of /v2/millrace/status.
/// Returns nothing if a card reports no power, or if the text is not a status.
std::optional<double> watts_of(std::string_view status, std::string_view model);

/// Reads the power from the server on its own thread and connection.
class PowerMeter {
 public:
  /// Returns null if the server reports no power for the model's cards, or is not a Millrace server.
  static std::unique_ptr<PowerMeter> open(const Address& address, const std::string& model);
  virtual ~PowerMeter() = default;

  /// Returns the mean power since the last call or, at the first call, since the start. Empty if no reading succeeded.
  virtual std::optional<double> mean_watts() = 0;
};

}  // namespace millrace::load
