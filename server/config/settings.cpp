#include "server/config/settings.hpp"

#include <algorithm>
#include <array>

namespace millrace::server::config {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40U;
constexpr std::uint64_t kDayMs = 86'400'000;

constexpr std::array<std::string_view, 5> kLevels = {"debug", "info", "warning", "error", "off"};
constexpr std::array<std::string_view, 2> kFormats = {"text", "json"};
constexpr std::array<std::string_view, 2> kCompatibilities = {"none", "triton"};
constexpr std::array<std::string_view, 2> kFidelities = {"functional", "rtl"};
constexpr std::array<std::string_view, 3> kModes = {"none", "explicit", "poll"};
constexpr std::array<std::string_view, 4> kPolicies = {"auto", "overlap", "rolling", "drain"};

const Setting kSettings[] = {
    {"deployments", "--deployment", Paths{&Settings::deployments}, "Deployment directory; may be repeated"},
    {"cluster", "--cluster", PathOrName{{&Settings::cluster}},
     "Cluster file (default: emulated cards made to fit)"},
    {"fidelity", "--fidelity", Choice{&Settings::fidelity, kFidelities},
     "Of emulated cards: functional, or rtl (their SystemVerilog, simulated)"},
    {"replicas", "--replicas", Count{&Settings::replicas, 0, 64},
     "Pipelines of each model, on cards of their own (0: as the deployment was compiled)"},
    {"warmup_frames", "--warmup-frames", Count{&Settings::warmup_frames, 0, 10'000},
     "Frames a version computes before traffic comes"},
    {"slots", "--slots", Count{&Settings::slots, 1, 1024}, "Frames in flight on the cards, of each model"},
    {"queue_capacity", "--queue-capacity", Count{&Settings::queue_capacity, 0, 1U << 20U},
     "Frames that may wait for a slot, of each model"},
    {"default_timeout_ms",
     "--default-timeout-ms",
     Milliseconds{&Settings::default_timeout, 1, kDayMs},
     "Longest an inference may take that names no timeout",
     {},
     true},
    {"drain_notice_ms",
     "--drain-notice-ms",
     Milliseconds{&Settings::drain_notice, 0, kDayMs},
     "How long requests are still served after SIGTERM while ready says 503",
     {},
     true},
    {"drain_ms",
     "--drain-ms",
     Milliseconds{&Settings::drain, 0, kDayMs},
     "How long accepted requests may take after that",
     {},
     true},

    {"repository.root", "--repository", Path{&Settings::repository_root},
     "Directory of models: MODEL/VERSION/ with a deployment, or model.onnx to be compiled", "cluster"},
    {"repository.mode", "--repository-mode", Choice{&Settings::repository_mode, kModes},
     "none (all at the start), explicit (by load and unload) or poll (what changes is loaded)",
     "repository.root"},
    {"repository.poll_ms", "--repository-poll-ms", Milliseconds{&Settings::repository_poll, 10, kDayMs},
     "Between two looks at the repository in mode poll", "repository.root"},
    {"repository.load", "--load", Texts{&Settings::repository_load},
     "Model to load at the start in mode explicit; '*' for all; may be repeated", "repository.root"},
    {"repository.policy", "--swap-policy", Choice{&Settings::repository_policy, kPolicies},
     "How a version takes another's place: auto, overlap, rolling or drain"},
    {"repository.compile_cache", "--compile-cache", Path{&Settings::repository_cache},
     "Where compiled models are kept (default: the user's cache folder)", "repository.root"},
    {"repository.compilations", "--compilations", Count{&Settings::repository_compilations, 1, 16},
     "Models compiled at once", "repository.root"},
    {"repository.strict", "--repository-strict", Switch{&Settings::repository_strict},
     "End with an error where the start cannot serve every model in the version it should",
     "repository.root"},

    {"http.listen", "--http", Texts{&Settings::http_listen},
     "HTTP listener: HOST:PORT (port 0: the system chooses), unix:PATH, systemd:NAME, each also with tls: "
     "before it; may be repeated"},
    {"http.admin_listen", "--http-admin", Texts{&Settings::http_admin_listen},
     "The same for a listener that alone answers admin routes (default: all do)"},
    {"http.certificate", "--tls-certificate", Path{&Settings::http_certificate},
     "Certificate chain in PEM, for tls: listeners", "http.key", true},
    {"http.key", "--tls-key", Path{&Settings::http_key}, "Its private key in PEM", "http.certificate", true},
    {"http.tokens",
     "--tokens",
     Path{&Settings::http_tokens},
     "File of 'NAME SCOPE SECRET' lines: every request but health needs one of these bearer tokens",
     {},
     true},
    {"http.cors_origins", "--cors-origin", Texts{&Settings::http_cors_origins},
     "Origin whose pages may read answers, or *; may be repeated (default: none)"},
    {"http.compress_from_bytes", "--compress-from-bytes",
     Count{&Settings::http_compress_from_bytes, 0, kMostBytes},
     "Answers of so many bytes are compressed for clients that accept it; 0: none"},
    {"http.threads", "--http-threads", Count{&Settings::http_threads, 0, 64},
     "I/O threads; 0: one for two processors, at most 4"},
    {"http.max_connections", "--max-connections", Count{&Settings::http_max_connections, 1, 1U << 20U},
     "HTTP connections at once"},
    {"http.max_header_bytes", "--max-header-bytes", Count{&Settings::http_max_header_bytes, 256, 1U << 20U},
     "Longest request header taken"},
    {"http.max_body_bytes", "--max-body-bytes", Count{&Settings::http_max_body_bytes, 1, kMostBytes},
     "Longest request body taken (default: what the largest of the models needs, at least 1 MiB; with a "
     "repository 64 MiB)"},
    {"http.max_held_bytes", "--max-held-bytes", Count{&Settings::http_max_held_bytes, 1, kMostBytes},
     "Bodies and answers that all HTTP connections may hold together"},
    {"http.idle_timeout_ms", "--idle-timeout-ms", Milliseconds{&Settings::http_idle_timeout, 1, kDayMs},
     "How long a connection may stay without a request"},
    {"http.header_timeout_ms", "--header-timeout-ms", Milliseconds{&Settings::http_header_timeout, 1, kDayMs},
     "From a request's first byte to its header's end"},
    {"http.body_timeout_ms", "--body-timeout-ms", Milliseconds{&Settings::http_body_timeout, 1, kDayMs},
     "From a request's header to its end"},
    {"http.write_timeout_ms", "--write-timeout-ms", Milliseconds{&Settings::http_write_timeout, 1, kDayMs},
     "How long a client may take to read an answer"},

    {"udp.listen", "--udp", Text{&Settings::udp_listen}, "HOST:PORT of the UDP listener (default: none)"},
    {"udp.keys", "--udp-keys", Path{&Settings::udp_keys},
     "File of '<id> <hexadecimal secret>' lines: every datagram must be tagged with one of them",
     "udp.listen", true},
    {"udp.unauthenticated", "--udp-unauthenticated", Switch{&Settings::udp_unauthenticated},
     "Let the UDP listener be reached by other machines without keys", "udp.listen"},
    {"udp.fragment_bytes", "--udp-fragment-bytes", Count{&Settings::udp_fragment_bytes, 256, 65'000},
     "Longest payload of a UDP response's datagram", "udp.listen"},

    {"metrics_compat", "--metrics-compat", Choice{&Settings::metrics_compat, kCompatibilities},
     "none, or triton: its nv_inference_* beside our metrics"},

    {"log.level",
     "--log-level",
     Choice{&Settings::log_level, kLevels},
     "debug, info, warning, error or off",
     {},
     true},
    {"log.format", "--log-format", Choice{&Settings::log_format, kFormats}, "text or json"},
};

std::string list_text(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const auto& value : values) out += (out.size() > 1 ? ", " : "") + value;
  return out + "]";
}

}  // namespace

std::span<const Setting> settings() {
  return kSettings;
}

const Setting* find_setting(std::string_view key) {
  const auto found = std::find_if(std::begin(kSettings), std::end(kSettings),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == std::end(kSettings) ? nullptr : found;
}

std::string environment_name(std::string_view key) {
  std::string out = "MILLRACE_";
  for (const char c : key) {
    if (c == '.' || c == '-')
      out += '_';
    else
      out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return out;
}

std::string value_text(const Setting& setting, const Settings& of) {
  struct Print {
    const Settings& of;
    std::string operator()(const Text& kind) const { return of.*kind.at; }
    std::string operator()(const Path& kind) const { return of.*kind.at; }
    std::string operator()(const Choice& kind) const { return of.*kind.at; }
    std::string operator()(const Paths& kind) const { return list_text(of.*kind.at); }
    std::string operator()(const Texts& kind) const { return list_text(of.*kind.at); }
    std::string operator()(const Switch& kind) const { return of.*kind.at ? "true" : "false"; }
    std::string operator()(const Count& kind) const { return std::to_string(of.*kind.at); }
    std::string operator()(const Milliseconds& kind) const { return std::to_string((of.*kind.at).count()); }
  };
  return std::visit(Print{of}, setting.kind);
}

std::vector<const Setting*> differing(const Settings& a, const Settings& b) {
  std::vector<const Setting*> out;
  for (const Setting& setting : kSettings)
    if (value_text(setting, a) != value_text(setting, b)) out.push_back(&setting);
  return out;
}

void assign(const Setting& setting, const Settings& from, Settings& to) {
  std::visit([&](const auto& kind) { to.*kind.at = from.*kind.at; }, setting.kind);
}

}  // namespace millrace::server::config
