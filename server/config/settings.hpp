// Declares every setting of a server: its key in server.yaml, its flag, bounds and default. README.md explains them.
//
// To add a setting, add a member of Settings and a row of kSettings, both in this file. File, environment, flags,
// --help, --check-config and reload use the row. A test checks that README.md and configs/server.yaml list every row.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace::server::config {

struct Settings {
  std::vector<std::string> deployments;
  std::string cluster;    // empty: an emulated cluster that fits the first deployment
  std::string host_name;  // empty: the machine's name
  std::string fidelity = "functional";
  std::string manners = "kind";
  bool allow_plugins = false;  // load the libraries of plugins that deployments contain
  std::uint64_t pace = 0;      // 0: emulated cards run as fast as they can

  std::string repository_root;  // empty: no repository
  std::string repository_mode = "none";
  std::chrono::milliseconds repository_poll{15'000};
  std::vector<std::string> repository_load;  // models that mode explicit loads at the start
  std::string repository_policy = "auto";
  std::string repository_cache;  // empty: the user's cache folder
  std::uint64_t repository_compilations = 1;
  bool repository_strict = false;  // the server ends if it cannot serve every model at the start
  std::uint64_t replicas = 0;      // 0: as many as each deployment was compiled for
  std::uint64_t warmup_frames = 2;

  std::vector<std::string> http_listen = {"127.0.0.1:8000"};  // forms: server/http/connection/address.hpp
  std::vector<std::string> http_admin_listen;                 // empty: every listener answers admin routes
  std::string http_certificate, http_key;                     // PEM files, for "tls:" listeners
  std::string http_tokens;                                    // empty: nobody needs a token
  std::vector<std::string> http_cors_origins;
  std::uint64_t http_compress_from_bytes = 1'024;  // 0: never
  std::uint64_t http_threads = 0;                  // 0: one thread for every two processors, at most 4
  std::uint64_t http_max_connections = 16'384;
  std::uint64_t http_max_header_bytes = 16'384;
  std::uint64_t http_max_body_bytes = 0;  // 0: what the largest model needs
  std::uint64_t http_max_held_bytes = 1U << 30U;
  std::chrono::milliseconds http_idle_timeout{600'000};
  std::chrono::milliseconds http_header_timeout{10'000};
  std::chrono::milliseconds http_body_timeout{60'000};
  std::chrono::milliseconds http_write_timeout{60'000};

  std::string udp_listen;  // HOST:PORT; empty: no UDP
  std::string udp_keys;
  bool udp_unauthenticated = false;
  std::uint64_t udp_fragment_bytes = 1200;

  std::uint64_t slots = 8;
  std::uint64_t queue_capacity = 64;
  std::chrono::milliseconds default_timeout{60'000};
  std::chrono::milliseconds drain_notice{0}, drain{5'000};

  std::string metrics_compat = "none";

  std::string log_level = "info";
  std::string log_format = "text";
};

// Each kind of setting names the member of Settings that holds the value, and the bounds of the value.
struct Text {
  std::string Settings::*at;
  std::span<const std::string_view> words = {};  // the allowed values; empty: any text
};
struct Path {  // a relative path in the file starts at the folder of the file
  std::string Settings::*at;
  bool cluster = false;  // the name of an installed cluster becomes the path of its file
};
struct List {
  std::vector<std::string> Settings::*at;
  bool paths = false;  // whether the values are paths; they are resolved as described at Path
};
struct Switch {
  bool Settings::*at;
};
struct Count {
  std::uint64_t Settings::*at;
  std::uint64_t least, most;
};
struct Milliseconds {
  std::chrono::milliseconds Settings::*at;
  std::uint64_t least, most;
};
using Kind = std::variant<Text, Path, List, Switch, Count, Milliseconds>;

struct Setting {
  std::string_view key;   // section and name in the file: "http.max_body_bytes"
  std::string_view flag;  // "--max-body-bytes"
  Kind kind;
  std::string_view help;
  bool live = false;            // a reload changes the setting in a running server
  std::string_view needs = {};  // the key of a setting that this one depends on
};

inline constexpr bool kAtStart = false, kLive = true;

inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40U;
inline constexpr std::uint64_t kDayMs = 86'400'000;

inline constexpr std::array<std::string_view, 5> kLevels = {"debug", "info", "warning", "error", "off"};
inline constexpr std::array<std::string_view, 2> kFormats = {"text", "json"};
inline constexpr std::array<std::string_view, 2> kCompatibilities = {"none", "triton"};
inline constexpr std::array<std::string_view, 2> kFidelities = {"functional", "rtl"};
inline constexpr std::array<std::string_view, 2> kManners = {"kind", "hardware"};
inline constexpr std::array<std::string_view, 3> kModes = {"none", "explicit", "poll"};
inline constexpr std::array<std::string_view, 4> kPolicies = {"auto", "overlap", "rolling", "drain"};

inline constexpr Setting kSettings[] = {
    {"deployments", "--deployment", List{&Settings::deployments, true},
     "Deployment directory; may be repeated"},
    {"cluster", "--cluster", Path{&Settings::cluster, true},
     "Cluster file (default: the emulated cards that the deployments need)"},
    {"host_name", "--host-name", Text{&Settings::host_name},
     "Name of this process's host in a cluster of several hosts (default: the machine's name)", kAtStart,
     "cluster"},
    {"fidelity", "--fidelity", Text{&Settings::fidelity, kFidelities},
     "How cards are emulated: functional, or rtl (simulates their SystemVerilog)"},
    {"manners", "--manners", Text{&Settings::manners, kManners},
     "How emulated cards behave when they are lost, reset or loaded: "
     "kind (forgiving), or hardware (like real cards)"},
    {"allow_plugins", "--allow-plugins", Switch{&Settings::allow_plugins},
     "Run the code of plugins that deployments contain, on emulated cards and with the server's rights"},
    {"pace", "--pace", Count{&Settings::pace, 1, 1'000'000},
     "Emulated cards and cables take FACTOR times the predicted time of the hardware, "
     "so that frames queue as on hardware; "
     "without a number, FACTOR is 1 (default: as fast as the computer can)"},
    {"replicas", "--replicas", Count{&Settings::replicas, 0, 64},
     "Pipelines per model, each on its own cards (0: as the deployment was compiled)"},
    {"warmup_frames", "--warmup-frames", Count{&Settings::warmup_frames, 0, 10'000},
     "Frames that a new version computes as warm-up before it receives requests"},
    {"slots", "--slots", Count{&Settings::slots, 1, 1024},
     "Largest number of frames of each model that may be on the cards at once"},
    {"queue_capacity", "--queue-capacity", Count{&Settings::queue_capacity, 0, 1U << 20U},
     "Largest number of frames of each model that may wait until the cards can take them"},
    {"default_timeout_ms", "--default-timeout-ms", Milliseconds{&Settings::default_timeout, 1, kDayMs},
     "Timeout of an inference that names none", kLive},
    {"drain_notice_ms", "--drain-notice-ms", Milliseconds{&Settings::drain_notice, 0, kDayMs},
     "How long requests are served after SIGTERM while /v2/health/ready answers 503", kLive},
    {"drain_ms", "--drain-ms", Milliseconds{&Settings::drain, 0, kDayMs},
     "Longest time after the drain notice until all accepted requests are answered", kLive},

    {"repository.root", "--repository", Path{&Settings::repository_root},
     "Directory of models: MODEL/VERSION/ with a deployment, or model.onnx to be compiled", kAtStart,
     "cluster"},
    {"repository.mode", "--repository-mode", Text{&Settings::repository_mode, kModes},
     "When models are loaded: none (all at the start), explicit (on request) or poll (when a folder changes)",
     kAtStart, "repository.root"},
    {"repository.poll_ms", "--repository-poll-ms", Milliseconds{&Settings::repository_poll, 10, kDayMs},
     "Time between two polls of the repository in mode poll", kAtStart, "repository.root"},
    {"repository.load", "--load", List{&Settings::repository_load},
     "Model to load at the start in mode explicit; '*' for all; may be repeated", kAtStart,
     "repository.root"},
    {"repository.policy", "--swap-policy", Text{&Settings::repository_policy, kPolicies},
     "How a version replaces another: auto, overlap, rolling or drain"},
    {"repository.compile_cache", "--compile-cache", Path{&Settings::repository_cache},
     "Where compiled models are kept (default: the user's cache folder)", kAtStart, "repository.root"},
    {"repository.compilations", "--compilations", Count{&Settings::repository_compilations, 1, 16},
     "Models compiled at once", kAtStart, "repository.root"},
    {"repository.strict", "--repository-strict", Switch{&Settings::repository_strict},
     "Exit with an error if any model cannot be served in the right version at the start", kAtStart,
     "repository.root"},

    {"http.listen", "--http", List{&Settings::http_listen},
     "HTTP listener: HOST:PORT (port 0: the system chooses), unix:PATH or systemd:NAME; "
     "with tls: in front, the listener requires TLS; may be repeated"},
    {"http.admin_listen", "--http-admin", List{&Settings::http_admin_listen},
     "Like --http, but only this listener answers admin routes (default: every listener answers them)"},
    {"http.certificate", "--tls-certificate", Path{&Settings::http_certificate},
     "Certificate chain in PEM, for tls: listeners", kLive, "http.key"},
    {"http.key", "--tls-key", Path{&Settings::http_key}, "Its private key in PEM", kLive, "http.certificate"},
    {"http.tokens", "--tokens", Path{&Settings::http_tokens},
     "File of 'NAME SCOPE SECRET' lines: every request but health needs one of these bearer tokens", kLive},
    {"http.cors_origins", "--cors-origin", List{&Settings::http_cors_origins},
     "Web origin whose pages may read answers, or *; may be repeated (default: none)"},
    {"http.compress_from_bytes", "--compress-from-bytes",
     Count{&Settings::http_compress_from_bytes, 0, kMostBytes},
     "Answers of at least this many bytes are compressed for clients that accept compression (0: never)"},
    {"http.threads", "--http-threads", Count{&Settings::http_threads, 0, 64},
     "Number of I/O threads (0: one for every two processors, at most 4)"},
    {"http.max_connections", "--max-connections", Count{&Settings::http_max_connections, 1, 1U << 20U},
     "HTTP connections at once"},
    {"http.max_header_bytes", "--max-header-bytes", Count{&Settings::http_max_header_bytes, 256, 1U << 20U},
     "Longest request header accepted"},
    {"http.max_body_bytes", "--max-body-bytes", Count{&Settings::http_max_body_bytes, 1, kMostBytes},
     "Longest request body accepted (default: enough for the largest model, at least 1 MiB; "
     "with a repository, 64 MiB)"},
    {"http.max_held_bytes", "--max-held-bytes", Count{&Settings::http_max_held_bytes, 1, kMostBytes},
     "Largest number of bytes that request bodies and answers of all HTTP connections may hold together"},
    {"http.idle_timeout_ms", "--idle-timeout-ms", Milliseconds{&Settings::http_idle_timeout, 1, kDayMs},
     "How long a connection may stay open without a request"},
    {"http.header_timeout_ms", "--header-timeout-ms", Milliseconds{&Settings::http_header_timeout, 1, kDayMs},
     "Longest time from a request's first byte to the end of its header"},
    {"http.body_timeout_ms", "--body-timeout-ms", Milliseconds{&Settings::http_body_timeout, 1, kDayMs},
     "From a request's header to its end"},
    {"http.write_timeout_ms", "--write-timeout-ms", Milliseconds{&Settings::http_write_timeout, 1, kDayMs},
     "How long a client may take to read an answer"},

    {"udp.listen", "--udp", Text{&Settings::udp_listen}, "HOST:PORT of the UDP listener (default: none)"},
    {"udp.keys", "--udp-keys", Path{&Settings::udp_keys},
     "File of '<id> <hexadecimal secret>' lines: every datagram must have a tag made with one of these keys",
     kLive, "udp.listen"},
    {"udp.unauthenticated", "--udp-unauthenticated", Switch{&Settings::udp_unauthenticated},
     "Allow other machines to use the UDP listener without keys", kAtStart, "udp.listen"},
    {"udp.fragment_bytes", "--udp-fragment-bytes", Count{&Settings::udp_fragment_bytes, 256, 65'000},
     "Longest payload in bytes of each datagram of a UDP response", kAtStart, "udp.listen"},

    {"metrics_compat", "--metrics-compat", Text{&Settings::metrics_compat, kCompatibilities},
     "Additional metrics: none, or triton (metrics with Triton's names nv_inference_*)"},

    {"log.level", "--log-level", Text{&Settings::log_level, kLevels}, "debug, info, warning, error or off",
     kLive},
    {"log.format", "--log-format", Text{&Settings::log_format, kFormats}, "text or json"},
};

/// Returns every setting, in the order of kSettings.
inline std::span<const Setting> settings() {
  return kSettings;
}

/// Returns the setting with this key, or null if no setting has it.
const Setting* find_setting(std::string_view key);

/// Returns the name of a setting's environment variable: MILLRACE_HTTP_MAX_BODY_BYTES for "http.max_body_bytes".
std::string environment_name(std::string_view key);

/// The value of a setting. It is monostate if no path is set, or if the server chooses the number itself.
using Value = std::variant<std::monostate, bool, std::uint64_t, std::string, std::vector<std::string>>;

/// Returns a setting's value. Paths are absolute, so that a file that holds the value may be moved.
Value value_of(const Setting& setting, const Settings& of);

/// Returns a setting's value as a line of YAML, as server.yaml has it. Durations are in milliseconds.
std::string value_text(const Setting& setting, const Settings& of);

inline bool differs(const Setting& setting, const Settings& a, const Settings& b) {
  return std::visit([&](const auto& kind) { return a.*kind.at != b.*kind.at; }, setting.kind);
}

/// Returns the settings whose values differ between `a` and `b`.
std::vector<const Setting*> differing(const Settings& a, const Settings& b);

/// Copies the setting's value from `from` to `to`.
inline void assign(const Setting& setting, const Settings& from, Settings& to) {
  std::visit([&](const auto& kind) { to.*kind.at = from.*kind.at; }, setting.kind);
}

}  // namespace millrace::server::config
