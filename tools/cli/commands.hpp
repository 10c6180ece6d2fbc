// The sub-commands of `millrace` and their options. Each sub-command is implemented in the file of its name.
// parse.cpp, the only file that includes CLI11, fills these structs from the command line. If a command
// fails, main.cpp prints "millrace <command>: error: <message>" on stderr and exits with the error's code.
//
// Results go to `out` (stdout); progress and logs go to stderr. With `json`, a command writes its result as
// versioned JSON to `out`.
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

/// The options that `plan` and `compile` share.
struct PlanWhat {
  std::filesystem::path model, cluster;
  std::string name;                         // empty: the model file's name without its extension
  std::optional<std::uint32_t> partitions;  // empty: the planner chooses
  std::optional<std::uint32_t> replicas;    // empty: the planner chooses
  std::optional<double> target_fps;
  std::string max_latency;                   // such as "500us"
  std::string objective;                     // empty: the one in millrace.yaml, else "cards"
  std::vector<std::string> max_utilisation;  // such as "0.8" or "dsp=0.9"
  std::filesystem::path plan;                // a plan file to follow
  std::vector<std::string> splits;           // such as "conv_5=2"
  bool no_host = false;
  std::vector<std::string> host_blocks;
  std::string host_time;                   // such as "30us"
  std::filesystem::path generator_plugin;  // a program that proposes implementations of blocks
  std::vector<std::string> dump_after;
  std::string weights;  // one of the values in parse.cpp; empty: the one in millrace.yaml, else baked-first
};

struct PlanCommand {
  Common common;
  PlanWhat what;
  std::string assume;          // an element type for models without quantisation, such as "int8"
  std::filesystem::path save;  // where to write the plan file
  std::filesystem::path html;  // where to write the report, which always includes the alternatives
  bool alternatives = false;   // also plan for other numbers of cards
};
Status run(const PlanCommand& command, std::ostream& out);

struct CompileCommand {
  Common common;
  PlanWhat what;
  std::filesystem::path output;
  std::uint32_t variants = 0;  // number of alternative deployments; 0: write a single one, and no index
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
  std::filesystem::path cluster;  // empty: an emulated cluster that fits the deployment
  std::string fidelity = "functional";
  // A .npy file in the input's type and layout, whose first axis counts frames. Empty: random frames, drawn
  // from `seed`.
  std::filesystem::path inputs;
  std::filesystem::path expect;  // a .npy file of the first output's expected values; optional
  std::uint32_t tolerance = 0;   // largest difference from `expect` that passes, in steps of the output
  std::uint32_t frames = 0;      // 0: all frames of `inputs`, or 16 random frames
  std::uint64_t seed = 1;
  double stall = 0;  // rtl fidelity only: the probability that a port stalls in a clock cycle
  // Directory that receives every tensor of the first differing frame as .npy files. If no frame differs, it
  // receives those of the first frame.
  std::filesystem::path dump_tensors;
};
Status run(const VerifyCommand& command, std::ostream& out);

/// Compares the FPGA resources that Yosys counts with the predicted ones. Returns kDoesNotFit if a partition
/// needs more than its device's region has.
struct SynthCommand {
  Common common;
  std::filesystem::path target;   // a deployment directory or one rtl/<partition>
  std::filesystem::path catalog;  // empty: the catalogue embedded in the binary
  std::string family;             // "xcu" or "xcup"; empty: the design's own family
  unsigned jobs = 0;              // concurrent runs of Yosys; 0: one per processor
};
Status run(const SynthCommand& command, std::ostream& out);

/// Replaces one FPGA image of the deployment by an xclbin that was built from vitis/<image>/.
struct PackCommand {
  Common common;
  std::filesystem::path deployment, xclbin;
  std::string image;
  std::filesystem::path output;  // empty: the deployment itself is replaced atomically
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
  bool check_config = false;     // check and print the settings, then exit
  // Values that the command line sets, by the setting's key in server/config/settings.hpp.
  std::map<std::string, std::vector<std::string>> flags;
};
/// Serves until SIGTERM or SIGINT. SIGHUP reloads the settings. Once the server is ready, prints
/// `listening http HOST:PORT` (and `listening udp HOST:PORT`) on `out`.
Status run(const ServeCommand& command, std::ostream& out);

/// A client's credentials, and the certificates that it trusts.
struct ServerAccess {
  std::filesystem::path ca_file;     // PEM, for https; empty: the system's certificates
  bool insecure = false;             // https: accept any certificate
  std::filesystem::path token_file;  // empty: $MILLRACE_TOKEN if it is set
};

struct InferCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // http, https, unix
  ServerAccess access;
  std::string model;                          // empty: the server's only model
  std::vector<std::filesystem::path> inputs;  // picture, .npy or raw file
  std::uint32_t top = 5;
  std::filesystem::path output;  // .npy file to write the first output to; its first axis counts frames
  std::chrono::milliseconds timeout{10000};
};
Status run(const InferCommand& command, std::ostream& out);

/// Makes a running server replace the version of a model that it serves, or unload the model.
struct ReloadCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // http, https, unix
  ServerAccess access;
  std::string model;
  std::string version;  // empty: the pinned version, or the newest if none is pinned
  std::string policy;   // the swap policy; empty: the server's default
  bool force = false;   // load the version even if its inputs or outputs differ from the current version's
  bool pin = false;     // pin the model to `version` once that version serves
  bool unpin = false;   // remove the pin and load nothing
  bool unload = false;
  std::chrono::milliseconds timeout{3'600'000};  // long, because a load can include a compilation
};
/// Returns kDoesNotFit if the version does not load or does not exist. The server then continues to serve the
/// old version.
Status run(const ReloadCommand& command, std::ostream& out);

/// Measures a server: in one open loop at a fixed rate, or in a series of closed loops, one for each number
/// of connections.
struct BenchCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // http, https, unix, udp
  ServerAccess access;
  std::filesystem::path udp_keys;           // the same file format as for `serve`
  std::optional<std::uint32_t> udp_key_id;  // the key that signs requests; none: the file's only key
  std::string model;
  std::optional<double> rate;                // requests per second of an open loop; none: closed loop
  std::vector<std::uint32_t> concurrency;    // connections of each closed loop; empty: one loop with 1
  std::optional<std::uint32_t> connections;  // maximum number of connections of an open loop; none: 64
  double duration_seconds = 10, warmup_seconds = 1;
  std::vector<std::filesystem::path> inputs;  // .npy or raw files; empty: random frames drawn from `seed`
  std::uint64_t seed = 1;
  bool raw = false;                          // HTTP: send the tensor alone, without a JSON header
  std::filesystem::path compare;             // the --json output of an earlier run
  std::filesystem::path histogram;           // where to write the percentiles; a sweep writes a file per run
  std::chrono::milliseconds timeout{10000};  // for each request
};
/// Prints the results, then returns kDoesNotFit (exit 1) if a request failed.
Status run(const BenchCommand& command, std::ostream& out);

}  // namespace millrace::cli
