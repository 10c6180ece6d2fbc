#include "server/http/routes/cable_routes.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <string>
#include <utility>

namespace millrace::server::http {
namespace {

namespace json = boost::json;
using runtime::plan::CableFaults;

constexpr std::size_t kMostOrderBytes = 4096;

Error bad_order(const std::string& why) {
  return Error(ErrorCode::kInvalidInput, why);
}

struct CableOrder {
  std::string cable;
  CableFaults faults;
};

/// Stores one member of the body in `out`.
Status take_order_member(std::string_view key, const json::value& value, CableOrder& out) {
  const std::string name = "'" + std::string(key.substr(0, 100)) + "'";
  if (key == "cable") {
    if (!value.is_string()) return bad_order(name + " is not a string");
    out.cable = std::string(value.as_string());
    return {};
  }
  if (key == "outage") {
    if (!value.is_bool()) return bad_order(name + " is neither true nor false");
    out.faults.outage = value.as_bool();
    return {};
  }
  for (const auto& [known, to] : runtime::plan::kFaults) {
    if (key != known) continue;
    if (!value.is_number()) return bad_order(name + " is not a number");
    out.faults.*to = value.to_number<double>();
    if (const std::string why = runtime::plan::wrong_fault(known, out.faults.*to); !why.empty())
      return bad_order(name + " " + why);
    return {};
  }
  return bad_order(
      "unknown key " + name +
      "; known keys: cable, loss, duplicate, reorder, bit_errors, latency_ns, gigabits_per_second, outage");
}

Result<CableOrder> parse_cable_order(std::span<const std::byte> body) {
  if (body.size() > kMostOrderBytes)
    return bad_order("the body is over " + std::to_string(kMostOrderBytes) + " bytes");
  json::error_code code;
  const json::value value = json::parse({reinterpret_cast<const char*>(body.data()), body.size()}, code);
  if (code || !value.is_object()) return bad_order("the body is not a JSON object");
  CableOrder out;
  for (const auto& [key, member] : value.as_object())
    MILLRACE_TRY(take_order_member({key.data(), key.size()}, member, out));
  if (out.cable.empty()) return bad_order("the key 'cable' is missing; it names a cable of the cluster file");
  return out;
}

}  // namespace

Outcome impair_cable(const Call& call) {
  if (!call.api.options().impair)
    return error_response(501, "this server has real cards, whose cables cannot be impaired");
  auto order = parse_cable_order(call.request.body);
  if (!order.ok()) return error_response(order.error());
  return ControlJob{[&api = call.api, order = std::move(*order)] {
    const Status done = api.options().impair(order.cable, order.faults);
    return done.ok() ? json_response("{}") : error_response(done.error());
  }};
}

}  // namespace millrace::server::http
