// Everything that can be set about a server, each setting once: its place in server.yaml, its flag, its
// environment variable, its bounds, its default. README.md is the page for operators.
//
// To add a setting: a member of Settings, a row in settings.cpp, a line in README.md and in
// configs/server.yaml (a test holds the four together).
#pragma once

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
  std::string cluster;  // empty: an emulated cluster made to fit the first deployment
  std::string fidelity = "functional";

  std::string repository_root;  // empty: none
  std::string repository_mode = "none";
  std::chrono::milliseconds repository_poll{15'000};
  std::vector<std::string> repository_load;  // mode explicit, at the start
  std::string repository_policy = "auto";
  std::string repository_cache;  // empty: the user's
  std::uint64_t repository_compilations = 1;
  bool repository_strict = false;  // a start that cannot serve everything ends
  std::uint64_t replicas = 0;      // 0: as many as each deployment was compiled for
  std::uint64_t warmup_frames = 2;

  std::vector<std::string> http_listen = {"127.0.0.1:8000"};  // server/http/address.hpp
  std::vector<std::string> http_admin_listen;  // empty: admin routes are answered by every listener
  std::string http_certificate, http_key;      // PEM; for "tls:" listeners
  std::string http_tokens;                     // empty: nobody needs a token
  std::vector<std::string> http_cors_origins;
  std::uint64_t http_compress_from_bytes = 1'024;  // 0: never
  std::uint64_t http_threads = 0;                  // 0: one for two processors, at most 4
  std::uint64_t http_max_connections = 16'384;
  std::uint64_t http_max_header_bytes = 16'384;
  std::uint64_t http_max_body_bytes = 0;  // 0: what the largest of the models needs
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

// How a setting is written and where it goes.
struct Text {
  std::string Settings::*at;
};
struct Path {  // relative in the file: to the file's folder
  std::string Settings::*at;
};
struct PathOrName : Path {};  // or the name of an installed cluster, which becomes the path of its file
struct Paths {
  std::vector<std::string> Settings::*at;
};
struct Texts {
  std::vector<std::string> Settings::*at;
};
struct Choice {
  std::string Settings::*at;
  std::span<const std::string_view> words;
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
using Kind = std::variant<Text, Path, PathOrName, Paths, Texts, Choice, Switch, Count, Milliseconds>;

struct Setting {
  std::string_view key;   // "http.max_body_bytes": section and name in the file
  std::string_view flag;  // "--max-body-bytes"
  Kind kind;
  std::string_view help;
  std::string_view needs = {};  // a key without which this one has no meaning
  bool live = false;            // a reload changes it in a running server
};

/// Every setting, in the order of the page.
std::span<const Setting> settings();

/// Null where there is none.
const Setting* find_setting(std::string_view key);

/// "http.max_body_bytes" -> "MILLRACE_HTTP_MAX_BODY_BYTES".
std::string environment_name(std::string_view key);

/// A value as the file would have it: lists as [a, b], durations in milliseconds.
std::string value_text(const Setting& setting, const Settings& of);

/// The settings whose values differ.
std::vector<const Setting*> differing(const Settings& a, const Settings& b);

/// Copies one setting's value.
void assign(const Setting& setting, const Settings& from, Settings& to);

}  // namespace millrace::server::config
