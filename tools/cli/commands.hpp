// The sub-commands of `millrace`: what each takes and where it is implemented (one file a sub-command, named
// after it). parse.cpp fills these from the command line (the only file that sees CLI11); main.cpp turns a
// failed Status into "millrace <command>: error: <message>" on stderr and the exit code of its error code.
//
// Results go to `out` (stdout), progress and logs to stderr. `json` asks for the documented, versioned JSON
// on `out`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::cli {

struct Common {
  bool json = false;
  bool quiet = false;
  std::string log_level = "info";
};

/// What `plan` and `compile` are asked for alike.
struct PlanWhat {
  std::filesystem::path model, cluster;
  std::string name;                         // empty: the model file's stem
  std::optional<std::uint32_t> partitions;  // empty: chosen
  std::optional<std::uint32_t> replicas;    // likewise
  std::optional<double> target_fps;
  std::string max_latency;                   // "500us"
  std::string objective;                     // empty: as millrace.yaml says, or "cards"
  std::vector<std::string> max_utilisation;  // "0.8", "dsp=0.9"
  std::filesystem::path plan;                // a plan file to follow
  std::vector<std::string> splits;           // "conv_5=2"
  bool no_host = false;
  std::vector<std::string> host_blocks;
  std::string host_time;                   // "30us"
  std::filesystem::path generator_plugin;  // a program that offers candidates
  std::vector<std::string> dump_after;
  std::string weights;  // as parse.cpp lists them; empty: as millrace.yaml says, or baked-first
};

struct PlanCommand {
  Common common;
  PlanWhat what;
  std::string assume;          // "int8"
  std::filesystem::path save;  // the plan as a file
  std::filesystem::path html;  // the report as a page; with alternatives
  bool alternatives = false;   // what other numbers of cards would give
};
Status run(const PlanCommand& command, std::ostream& out);

struct CompileCommand {
  Common common;
  PlanWhat what;
  std::filesystem::path output;
  std::uint32_t variants = 0;  // deployments side by side; 0: one, without an index
};
Status run(const CompileCommand& command, std::ostream& out);

struct InspectCommand {
  Common common;
  std::filesystem::path target;  // a deployment directory or an .xclbin file
};
Status run(const InspectCommand& command, std::ostream& out);

/// Runs frames through emulated (or real) cards and through kernels/reference and compares every byte.
struct VerifyCommand {
  Common common;
  std::filesystem::path deployment;
  std::filesystem::path cluster;  // empty: an emulated cluster made to fit the deployment
  std::string fidelity = "functional";
  // .npy, model's own type and layout, first axis = frames; empty: seeded random frames
  std::filesystem::path inputs;
  std::filesystem::path expect;  // .npy of the first output; optional
  std::uint32_t tolerance = 0;   // steps of the output's scale allowed against `expect`
  std::uint32_t frames = 0;      // 0: all of `inputs`, or 16 random ones
  std::uint64_t seed = 1;
  double stall = 0;  // rtl: probability that a port holds back, each port and cycle
  // directory: every tensor of the first differing (else the first) frame as .npy
  std::filesystem::path dump_tensors;
};
Status run(const VerifyCommand& command, std::ostream& out);

/// Resources by Yosys beside the prediction; kDoesNotFit where a partition takes more than its device's
/// region.
struct SynthCommand {
  Common common;
  std::filesystem::path target;   // a deployment directory or one rtl/<partition>
  std::filesystem::path catalog;  // empty: the embedded one
  std::string family;             // "xcu", "xcup"; empty: the design's
  unsigned jobs = 0;              // runs of Yosys at once; 0: as many as processors
};
Status run(const SynthCommand& command, std::ostream& out);

/// Puts an xclbin that was built from vitis/<image>/ into the deployment; everything else stays.
struct PackCommand {
  Common common;
  std::filesystem::path deployment, xclbin;
  std::string image;
  std::filesystem::path output;  // empty: the deployment itself is replaced, all or nothing
};
Status run(const PackCommand& command, std::ostream& out);

struct DevicesCommand {
  Common common;
  std::filesystem::path cluster;
  bool check = false;
};
Status run(const DevicesCommand& command, std::ostream& out);

struct ServeCommand {
  Common common;
  std::filesystem::path config;  // server.yaml; empty: $MILLRACE_CONFIG, else none
  bool check_config = false;     // say what the settings are, and end
  // key of server/config/settings.hpp -> what the command line gave
  std::map<std::string, std::vector<std::string>> flags;
};
/// Serves until SIGTERM or SIGINT; SIGHUP reads the settings again. Prints `listening http HOST:PORT` (and
/// `listening udp HOST:PORT`) on `out` once ready.
Status run(const ServeCommand& command, std::ostream& out);

/// How a server lets a client in, and whom the client trusts.
struct ServerAccess {
  std::filesystem::path ca_file;     // PEM, for https; empty: those the system trusts
  bool insecure = false;             // https: whoever answers is trusted
  std::filesystem::path token_file;  // empty: $MILLRACE_TOKEN, where there is one
};

struct InferCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // http, https, unix
  ServerAccess access;
  std::string model;                          // empty: the server's only model
  std::vector<std::filesystem::path> inputs;  // image, .npy or raw file
  std::uint32_t top = 5;
  std::filesystem::path output;  // .npy of the first output, first axis = frames
  std::chrono::milliseconds timeout{10000};
};
Status run(const InferCommand& command, std::ostream& out);

/// Loads a version of a model in a running server, in place of the one that serves, or unloads it.
struct ReloadCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // http, https, unix
  ServerAccess access;
  std::string model;
  std::string version;  // empty: the pinned one or the newest
  std::string policy;   // empty: the server's
  bool force = false;   // also with other inputs or outputs than those of what serves
  bool pin = false;     // to `version`, once it serves
  bool unpin = false;   // loads nothing
  bool unload = false;
  std::chrono::milliseconds timeout{3'600'000};  // a compilation may be in it
};
/// kDoesNotFit where the version does not load or the server has none of that number; what served before
/// serves on.
Status run(const ReloadCommand& command, std::ostream& out);

/// Measures a server: an open loop at a rate, or closed loops of so many connections, one run after the
/// other.
struct BenchCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // http, https, unix, udp
  ServerAccess access;
  std::filesystem::path udp_keys;           // as serve takes them
  std::optional<std::uint32_t> udp_key_id;  // which of them; none: the one there is
  std::string model;
  std::optional<double> rate;                // requests a second: open loop
  std::vector<std::uint32_t> concurrency;    // connections of each closed run; empty: 1
  std::optional<std::uint32_t> connections;  // an open loop's bound; 64
  double duration_seconds = 10, warmup_seconds = 1;
  std::vector<std::filesystem::path> inputs;  // .npy or raw file; empty: seeded random frames
  std::uint64_t seed = 1;
  bool raw = false;                          // HTTP: the tensor alone, without a JSON header
  std::filesystem::path compare;             // what an earlier run printed with --json
  std::filesystem::path histogram;           // percentile distribution; of a sweep one file a run
  std::chrono::milliseconds timeout{10000};  // of one request
};
/// kDoesNotFit (exit 1) where a request failed; the results are printed first.
Status run(const BenchCommand& command, std::ostream& out);

}  // namespace millrace::cli
