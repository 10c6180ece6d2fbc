// The cards' power during a run, in watts, read from the server at regular intervals.
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

/// The power of all cards of a model, of any version, from the text of /v2/millrace/status. Empty if one of
/// the cards reports no power, or if the text is not a status.
std::optional<double> watts_of(std::string_view status, std::string_view model);

/// Reads the power from the server, in its own thread and on its own connection.
class PowerMeter {
 public:
  /// Empty if the server reports no power for the model's cards, or is not a Millrace server.
  static std::unique_ptr<PowerMeter> open(const Address& address, const std::string& model);
  virtual ~PowerMeter() = default;

  /// The mean since the last call or, at the first call, since the start. Empty if no reading succeeded.
  virtual std::optional<double> mean_watts() = 0;
};

}  // namespace millrace::load
