#include "tools/load/power.hpp"

#include <boost/json.hpp>
#include <condition_variable>
#include <mutex>

#include "tools/clients/http_client.hpp"

namespace millrace::load {
namespace {

namespace json = boost::json;
using clients::HttpClient;

constexpr const char* kTarget = "/v2/millrace/status";
constexpr std::chrono::milliseconds kTimeout{5'000};
constexpr std::chrono::milliseconds kBetween{500};

class StatusPowerMeter final : public PowerMeter {
 public:
  StatusPowerMeter(std::unique_ptr<HttpClient> client, std::string model, double first)
      : client_(std::move(client)), model_(std::move(model)), sum_(first), looks_(1) {
    thread_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
  }

  std::optional<double> mean_watts() override {
    const std::lock_guard lock(mutex_);
    if (looks_ == 0) return std::nullopt;
    const double mean = sum_ / looks_;
    sum_ = 0;
    looks_ = 0;
    return mean;
  }

 private:
  void look(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, stop, kBetween, [] { return false; }) && !stop.stop_requested()) {
      lock.unlock();
      const auto answer = client_->get(kTarget);
      const auto watts = answer.ok() && answer->status == 200 ? watts_of(answer->body, model_) : std::nullopt;
      lock.lock();
      if (!watts) continue;
      sum_ += *watts;
      ++looks_;
    }
  }

  const std::unique_ptr<HttpClient> client_;  // used only by thread_
  const std::string model_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  // mutex_ protects the members below.
  double sum_ = 0;
  int looks_ = 0;

  std::jthread thread_;
};

}  // namespace

std::optional<double> watts_of(std::string_view status, std::string_view model) {
  json::error_code code;
  const json::value document = json::parse(json::string_view(status.data(), status.size()), code);
  if (code) return std::nullopt;
  try {
    double sum = 0;
    bool any = false;
    for (const json::value& one : document.at("models").as_array()) {
      if (one.at("name").as_string() != json::string_view(model.data(), model.size())) continue;
      for (const json::value& card : one.at("cards").as_array()) {
        if (!card.at("power_watts").is_number()) return std::nullopt;
        sum += card.at("power_watts").to_number<double>();
        any = true;
      }
    }
    return any ? std::optional(sum) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::unique_ptr<PowerMeter> PowerMeter::open(const Address& address, const std::string& model) {
  auto client = HttpClient::connect(address.url, kTimeout, address.access);
  if (!client.ok()) return nullptr;
  const auto answer = (*client)->get(kTarget);
  const auto watts = answer.ok() && answer->status == 200 ? watts_of(answer->body, model) : std::nullopt;
  if (!watts) return nullptr;
  return std::make_unique<StatusPowerMeter>(std::move(*client), model, *watts);
}

}  // namespace millrace::load
