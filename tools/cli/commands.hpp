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
  std::string name;                         // empty: the model file's stem
  std::optional<std::uint32_t> partitions;  // empty: the planner chooses
  std::optional<std::uint32_t> replicas;    // empty: the planner chooses
  std::optional<double> target_fps;
  std::string max_latency;                   // "500us"
  std::string objective;                     // empty: from millrace.yaml, else "cards"
  std::vector<std::string> max_utilisation;  // "0.8", "dsp=0.9"
  std::filesystem::path plan;                // a plan file to follow
  std::vector<std::string> splits;           // "conv_5=2"
  bool no_host = false;
  std::vector<std::string> host_blocks;
  std::string host_time;                   // "30us"
  std::filesystem::path generator_plugin;  // a program that proposes implementations of blocks
  std::vector<std::string> dump_after;
  std::string weights;  // a value that parse.cpp lists; empty: from millrace.yaml, else baked-first
};

struct PlanCommand {
  Common common;
  PlanWhat what;
  std::string assume;          // "int8"
  std::filesystem::path save;  // where to write the plan file
  std::filesystem::path html;  // where to write the report, which always includes the alternatives
  bool alternatives = false;   // also plan for other numbers of cards
};
Status run(const PlanCommand& command, std::ostream& out);

struct CompileCommand {
  Common common;
  PlanWhat what;
  std::filesystem::path output;
  std::uint32_t variants = 0;  // number of alternative deployments; 0: one deployment without an index
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
  // .npy in the model's type and layout, the first axis counts frames; empty: random frames from `seed`
  std::filesystem::path inputs;
  std::filesystem::path expect;  // .npy of the first output; optional
  std::uint32_t tolerance = 0;   // steps of the output's scale allowed against `expect`
  std::uint32_t frames = 0;      // 0: all of `inputs`, or 16 random ones
  std::uint64_t seed = 1;
  double stall = 0;  // rtl only: the probability that a port stalls in a cycle
  // Directory for every tensor, as .npy, of the first frame that differs (of the first frame if none does).
  std::filesystem::path dump_tensors;
};
Status run(const VerifyCommand& command, std::ostream& out);

/// Compares the resources that Yosys counts with the prediction. kDoesNotFit if a partition needs more than
/// its device's region has.
struct SynthCommand {
  Common common;
  std::filesystem::path target;   // a deployment directory or one rtl/<partition>
  std::filesystem::path catalog;  // empty: the embedded one
  std::string family;             // "xcu", "xcup"; empty: the design's
  unsigned jobs = 0;              // concurrent runs of Yosys; 0: one per processor
};
Status run(const SynthCommand& command, std::ostream& out);

/// Replaces one image of the deployment by an xclbin that was built from vitis/<image>/.
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
  // From a key of server/config/settings.hpp to its values on the command line.
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
  std::vector<std::filesystem::path> inputs;  // image, .npy or raw file
  std::uint32_t top = 5;
  std::filesystem::path output;  // .npy of the first output, first axis = frames
  std::chrono::milliseconds timeout{10000};
};
Status run(const InferCommand& command, std::ostream& out);

/// Makes a running server replace the version of a model that it serves, or unload the model.
struct ReloadCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // http, https, unix
  ServerAccess access;
  std::string model;
  std::string version;  // empty: the pinned one or the newest
  std::string policy;   // empty: the server's
  bool force = false;   // load the version even if its inputs or outputs differ from the current version's
  bool pin = false;     // pin the model to `version` once that version serves
  bool unpin = false;   // remove the pin and load nothing
  bool unload = false;
  std::chrono::milliseconds timeout{3'600'000};  // long, because a load can include a compilation
};
/// kDoesNotFit if the version does not load or does not exist. The server then keeps serving the version that
/// it served before.
Status run(const ReloadCommand& command, std::ostream& out);

/// Measures a server: in one open loop at a fixed rate, or in a series of closed loops, one for each number
/// of connections.
struct BenchCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // http, https, unix, udp
  ServerAccess access;
  std::filesystem::path udp_keys;           // the same file format as for `serve`
  std::optional<std::uint32_t> udp_key_id;  // the key to sign with; none: the only key of the file
  std::string model;
  std::optional<double> rate;                // requests per second of an open loop; none: closed loop
  std::vector<std::uint32_t> concurrency;    // connections of each closed loop; empty: one loop with 1
  std::optional<std::uint32_t> connections;  // most connections of an open loop; none: 64
  double duration_seconds = 10, warmup_seconds = 1;
  std::vector<std::filesystem::path> inputs;  // .npy or raw file; empty: seeded random frames
  std::uint64_t seed = 1;
  bool raw = false;                          // HTTP: send the tensor alone, without a JSON header
  std::filesystem::path compare;             // the --json output of an earlier run
  std::filesystem::path histogram;           // where to write the percentiles; a sweep writes a file per run
  std::chrono::milliseconds timeout{10000};  // of one request
};
/// Prints the results, then returns kDoesNotFit (exit 1) if a request failed.
Status run(const BenchCommand& command, std::ostream& out);

}  // namespace millrace::cli
