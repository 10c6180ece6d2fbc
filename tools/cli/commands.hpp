// The sub-commands of `millrace` and their options. The .cpp file with a sub-command's name implements the sub-command.
// parse.cpp, the only file that includes CLI11, fills these structs from the command line. If a command fails, main.cpp
// prints "millrace <command>: error: <message>" on stderr and exits with the error's code.
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

/// The options with which a float model is quantised.
struct CalibrationWhat {
  std::vector<std::string> data;       // samples that calibrate, as clients::read_model_samples() takes them
  std::vector<std::string> test_data;  // samples that score; empty: those that --calibrate or --labels leaves
  std::filesystem::path labels;        // .npy of class indices
  std::optional<std::uint32_t> calibrate;  // how many samples of `data` calibrate; the others score
  std::uint32_t bits = 8;                  // of the weights
  std::string method = "percentile";
  double percent = 99.999;
  bool equalise = false;
  bool no_bias_correction = false;
  std::vector<std::string> keep_float, keep_8bit;  // names of ONNX nodes
  std::string activations;                         // "int8:7": the declared format of weights and activations

  bool given() const { return !data.empty() || !activations.empty(); }
};

/// The options that `plan` and `compile` share.
struct PlanWhat {
  std::filesystem::path model, cluster;
  std::string name;                         // if empty, the model file's name without its extension
  std::optional<std::uint32_t> partitions;  // if empty, the planner chooses
  std::optional<std::uint32_t> replicas;    // if empty, the planner chooses
  std::optional<double> target_fps;
  std::string max_latency;                   // such as "500us"
  std::string objective;                     // if empty, the one in millrace.yaml, else "cards"
  std::vector<std::string> max_utilisation;  // such as "0.8" or "dsp=0.9"
  std::filesystem::path plan;                // a plan file to follow
  std::vector<std::string> splits;           // such as "conv_5=2"
  bool no_host = false;
  std::vector<std::string> host_blocks;
  std::string host_time;             // such as "30us"
  std::vector<std::string> plugins;  // plugins that propose implementations of blocks: "a.py,b.py"
  std::vector<std::string> dump_after;
  CalibrationWhat calibration;  // if given(), the model is quantised first
  std::string weights;  // a value that parse.cpp names; if empty, that in millrace.yaml, else baked-first
};

/// Says for each node of a model who can compute it. Returns kDoesNotFit (exit 1) if a node runs nowhere.
struct CoverageCommand {
  Common common;
  std::filesystem::path model;
  std::filesystem::path cluster;     // optional
  std::vector<std::string> plugins;  // optional: "a.py,b.py"
  bool all = false;                  // a line for each node
};
Status run(const CoverageCommand& command, std::ostream& out);

struct PlanCommand {
  Common common;
  PlanWhat what;
  std::string assume;             // an element type for models without quantisation, such as "int8"
  std::filesystem::path save;     // where to write the plan file
  std::filesystem::path html;     // where to write the report, which always includes the alternatives
  bool alternatives = false;      // also plan for other numbers of cards
  bool communication = false;     // also print what the cards send to each other
  std::vector<std::string> load;  // rates to simulate, such as "20000" or "60%"
  std::uint32_t slots = 8;        // with `load`: the most frames in each pipeline
};
Status run(const PlanCommand& command, std::ostream& out);

struct CompileCommand {
  Common common;
  PlanWhat what;
  std::filesystem::path output;
  std::uint32_t variants = 0;  // number of alternative deployments; 0 means one deployment without an index
};
Status run(const CompileCommand& command, std::ostream& out);

/// Quantises a float model with samples and writes it as a QDQ model.
struct QuantizeCommand {
  Common common;
  std::filesystem::path model, output;
  std::filesystem::path report;  // where to write the page
  CalibrationWhat what;
};
Status run(const QuantizeCommand& command, std::ostream& out);

struct InspectCommand {
  Common common;
  std::filesystem::path target;  // a deployment directory or an .xclbin file
};
Status run(const InspectCommand& command, std::ostream& out);

/// Runs frames through emulated (or real) cards and through kernels/reference and compares every byte.
struct VerifyCommand {
  Common common;
  std::filesystem::path deployment;
  std::filesystem::path cluster;  // if empty, an emulated cluster that fits the deployment
  std::string fidelity = "functional";
  // A .npy file in the input's type and layout, whose first axis counts frames. If empty, `verify` draws
  // random frames from `seed`.
  // A model with several inputs takes one .npz with an array for each, or NAME=FILE for each.
  std::vector<std::string> inputs;
  std::filesystem::path expect;  // a .npy file of the first output's expected values; optional
  std::uint32_t tolerance = 0;   // largest difference from `expect` that passes, in steps of the output
  std::uint32_t frames = 0;      // 0 means all frames of `inputs`, or 16 random frames
  std::uint64_t seed = 1;
  bool allow_plugins = false;  // run the code of plugins that the deployment contains
  double stall = 0;            // rtl fidelity only: the probability that a port stalls in a clock cycle
  // The directory to which every tensor of the first differing frame, or else of the first frame, is written
  // as .npy files.
  std::filesystem::path dump_tensors;
};
Status run(const VerifyCommand& command, std::ostream& out);

/// Compares the FPGA resources that Yosys counts with the predicted ones. Returns kDoesNotFit if a partition
/// needs more than its device's region has.
struct SynthCommand {
  Common common;
  std::filesystem::path target;   // a deployment directory or one rtl/<partition>
  std::filesystem::path catalog;  // if empty, the catalogue embedded in the binary
  std::string family;             // "xcu" or "xcup"; if empty, the design's own family
  unsigned jobs = 0;              // concurrent runs of Yosys; 0 means one per processor
};
Status run(const SynthCommand& command, std::ostream& out);

/// Replaces one FPGA image of the deployment by an xclbin that was built from vitis/<image>/.
struct PackCommand {
  Common common;
  std::filesystem::path deployment, xclbin;
  std::string image;
  std::filesystem::path output;  // if empty, the deployment itself is replaced atomically
  bool accept_slower = false;    // pack an image although its clock makes the deployment slower than planned
};
Status run(const PackCommand& command, std::ostream& out);

/// The credentials of a client command, and the certificates that the client trusts.
struct ServerAccess {
  std::filesystem::path ca_file;     // PEM file for https; if empty, the system's certificates
  bool insecure = false;             // for https, accept any certificate
  std::filesystem::path token_file;  // if empty, $MILLRACE_TOKEN if it is set
};

struct DevicesCommand {
  Common common;
  std::filesystem::path cluster;
  bool check = false;
  std::filesystem::path deployment;         // with `check`: load it, and check the cables that it uses
  bool allow_plugins = false;               // run the code of plugins that the deployment contains
  std::chrono::milliseconds timeout{5000};  // with `deployment`: for the channels to come up
  // The faults that a running server shall give to a UDP cable between its emulated cards, as "CABLE:KEY=VALUE,…". The
  // text "CABLE" alone removes the cable's faults.
  std::string impair;
  std::string url = "http://127.0.0.1:8000";  // of that server
  ServerAccess access;
};
Status run(const DevicesCommand& command, std::ostream& out);

struct ServeCommand {
  Common common;
  std::filesystem::path config;  // path of server.yaml; if empty, $MILLRACE_CONFIG if it is set
  bool check_config = false;     // check and print the settings, then exit
  // Values that the command line sets, by the setting's key in server/config/settings.hpp.
  std::map<std::string, std::vector<std::string>> flags;
};
/// Serves until SIGTERM or SIGINT. SIGHUP reloads the settings. Once the server is ready, prints
/// `listening http HOST:PORT` (and `listening udp HOST:PORT`) on `out`.
Status run(const ServeCommand& command, std::ostream& out);

/// Prints how a launcher starts the server: a command line, a batch script or manifests.
struct LaunchCommand {
  Common common;
  std::filesystem::path deployment;
  std::filesystem::path cluster;  // if empty, one process with the emulated cards that the deployment needs
  std::string format;             // "mpirun", "slurm" or "kubernetes"
  std::string http = "0.0.0.0:8000";
  std::string time;            // slurm: the job's time limit; if empty, the partition's own
  std::string container;       // kubernetes: the image
  std::string card_resource;   // kubernetes: the device plugin's name of a card; if empty, none is requested
  std::uint32_t replicas = 1;  // kubernetes, cluster of one host: how many servers
};
Status run(const LaunchCommand& command, std::ostream& out);

struct InferCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // an http, https or unix URL
  ServerAccess access;
  std::string model;  // if empty, the server's only model
  // Pictures, folders, .npy, .npz or raw files. A model with several inputs takes one .npz, or NAME=FILE for each.
  std::vector<std::string> inputs;
  std::uint32_t top = 5;
  std::filesystem::path output;  // .npy file to write the first output to; its first axis counts frames
  std::chrono::milliseconds timeout{10000};
};
Status run(const InferCommand& command, std::ostream& out);

/// Makes a running server replace the version of a model that it serves, or unload the model.
struct ReloadCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // an http, https or unix URL
  ServerAccess access;
  std::string model;
  std::string version;  // if empty, the pinned version, or the newest if none is pinned
  std::string policy;   // the swap policy; if empty, the server's default
  bool force = false;   // load the version even if its inputs or outputs differ from the current version's
  bool pin = false;     // pin the model to `version` once that version serves
  bool unpin = false;   // remove the pin and load nothing
  bool unload = false;
  std::chrono::milliseconds timeout{3'600'000};  // long, because a load can include a compilation
};
/// Returns kDoesNotFit if the version does not load or does not exist. The server then continues to serve the
/// old version.
Status run(const ReloadCommand& command, std::ostream& out);

/// Measures a server either in an open loop, which sends requests at a fixed rate, or in a series of closed
/// loops, one for each number of connections.
struct BenchCommand {
  Common common;
  std::string url = "http://127.0.0.1:8000";  // an http, https, unix or udp URL
  ServerAccess access;
  std::filesystem::path udp_keys;           // the same file format as for `serve`
  std::optional<std::uint32_t> udp_key_id;  // the key that signs requests; if none, the file's only key
  std::string model;
  std::optional<double> rate;                // requests per second of an open loop; if none, closed loop
  std::vector<std::uint32_t> concurrency;    // connections of each closed loop; if empty, one loop with 1
  std::optional<std::uint32_t> connections;  // maximum number of connections of an open loop; if none, 64
  double duration_seconds = 10, warmup_seconds = 1;
  std::vector<std::filesystem::path> inputs;  // .npy or raw files; if empty, random frames drawn from `seed`
  std::uint64_t seed = 1;
  bool raw = false;                          // send the HTTP body as the tensor alone, without a JSON header
  std::filesystem::path compare;             // the --json output of an earlier run
  std::filesystem::path histogram;           // where to write the percentiles; a sweep writes a file per run
  std::chrono::milliseconds timeout{10000};  // for each request
};
/// Prints the results, then returns kDoesNotFit (exit 1) if a request failed.
Status run(const BenchCommand& command, std::ostream& out);

}  // namespace millrace::cli
