// `millrace devices --impair`: injects faults into a UDP cable between the emulated cards of a running server.
#include "tools/cli/impair.hpp"

#include <boost/json.hpp>

#include <charconv>
#include <chrono>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "tools/cli/access.hpp"
#include "tools/clients/http_client.hpp"

namespace millrace::cli {
namespace {

namespace json = boost::json;

constexpr std::chrono::milliseconds kImpairTimeout{10'000};

Error bad_faults(const std::string& why) {
  return Error(ErrorCode::kInvalidInput, "--impair: " + why);
}

/// Returns the body of the request: the cable, and the faults as numbers. The server checks the keys.
Result<json::object> impair_body(std::string_view text) {
  const auto colon = text.find(':');
  json::object body{{"cable", text.substr(0, colon)}};
  std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const auto equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    if (key == "outage" && (value.empty() || value == "true" || value == "false")) {
      body["outage"] = value != "false";
      continue;
    }
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
      return bad_faults("'" + std::string(word) + "' is not KEY=NUMBER, such as loss=0.01");
    body[key] = number;
  }
  return body;
}

/// Makes an error from the status and the message of a server's answer that is not 200.
Error refusal(unsigned status, std::string message) {
  switch (status) {
    case 401:
      return Error(ErrorCode::kEnvironment, message + "; give a token with --token-file or MILLRACE_TOKEN");
    case 403:
      return Error(
          ErrorCode::kEnvironment,
          message + "; use a token with the scope 'admin', or run the command on the server's machine");
    case 404:
      return Error(ErrorCode::kNotFound,
                   message +
                       "; `millrace devices --cluster NAME` lists the cables of a cluster, "
                       "and --url must be the address of a millrace server");
    case 429:
      return Error(ErrorCode::kResourceExhausted, message + "; try again later");
    case 501:
      return Error(ErrorCode::kUnsupported, message);
    case 503:
      return Error(ErrorCode::kUnavailable, message + "; try again when the server is ready");
    default:
      return Error(status >= 500 ? ErrorCode::kEnvironment : ErrorCode::kInvalidInput, message);
  }
}

}  // namespace

Status impair(const DevicesCommand& command, std::ostream& out) {
  MILLRACE_ASSIGN(const json::object body, impair_body(command.impair));
  MILLRACE_ASSIGN(const auto url, clients::parse_url(command.url));
  MILLRACE_ASSIGN(const clients::Access access, access_of(command.access));
  MILLRACE_ASSIGN(const auto client, clients::HttpClient::connect(url, kImpairTimeout, access));
  const std::string text = json::serialize(body);
  MILLRACE_ASSIGN(const auto answer, client->post("/v2/millrace/cables", std::as_bytes(std::span(text))));
  if (answer.status == 200) {
    if (!command.common.quiet) out << "cable '" << std::string(body.at("cable").as_string()) << "' changed\n";
    return {};
  }
  json::error_code code;
  const json::value parsed = json::parse(answer.body, code);
  const json::object* const object = code ? nullptr : parsed.if_object();
  const json::value* const why = object == nullptr ? nullptr : object->if_contains("error");
  return refusal(answer.status, why != nullptr && why->is_string()
                                    ? std::string(why->as_string())
                                    : "status " + std::to_string(answer.status));
}

}  // namespace millrace::cli
