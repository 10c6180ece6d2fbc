// This source has more than 500 lines because it declares the options of all commands, which share many of them.
#include "tools/cli/parse.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "runtime/plan/installed.hpp"
#include "server/config/settings.hpp"

namespace millrace::cli {
namespace {

/// Accepts a whole number in digits only. CLI11 alone would wrap -1 to the largest number and clamp numbers
/// that are too large.
CLI::Validator whole(std::uint64_t least, std::uint64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  return {[=](std::string& text) {
            std::uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool good =
                error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
            return good ? std::string() : "'" + text + "' is not a whole number from " + range;
          },
          range, "whole"};
}

/// Accepts a number in a range, but not NaN, which CLI::Range accepts.
CLI::Validator number(double least, double most, const std::string& range) {
  return {[=](std::string& text) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
            return good ? std::string() : "'" + text + "' is not a number from " + range;
          },
          range, "number"};
}

constexpr std::uint64_t kMostVersion = 999'999'999'999'999'999;  // server/models accepts 18 digits
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMost64 = std::numeric_limits<std::uint64_t>::max();

/// Refuses `--option ""`, so that an unset shell variable does not silently select the default.
void refuse_empty_values(const CLI::App& sub) {
  for (const CLI::Option* option : sub.get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        throw CLI::ValidationError(option->get_name(),
                                   "the value is empty; give a value or leave the option out");
}

std::string cluster_help(const std::string& what) {
  const auto folder = runtime::plan::installed("clusters");
  return "Cluster file" + (folder.empty() ? "" : ", or the name of one in " + folder.string()) + " (" + what +
         ")";
}

/// Adds the sub-commands to the parser, each with the options that fill its struct.
class Builder {
 public:
  explicit Builder(CLI::App& app) : app_(app) {}

  template <class T>
  CLI::App* add(const char* name, const char* help, T& target) {
    CLI::App* sub = app_.add_subcommand(name, help);
    sub->add_flag("--json", target.common.json, "Results as JSON on standard output");
    sub->add_flag("--quiet,-q", target.common.quiet, "No progress, only results and errors");
    sub->add_option("--log-level", target.common.log_level, "debug, info, warning, error or off")
        ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
        ->capture_default_str();
    return sub;
  }

 private:
  CLI::App& app_;
};

struct Commands {
  CoverageCommand coverage;
  PlanCommand plan;
  QuantizeCommand quantize;
  CompileCommand compile;
  InspectCommand inspect;
  VerifyCommand verify;
  DevicesCommand devices;
  ServeCommand serve;
  InferCommand infer;
  ReloadCommand reload;
  BenchCommand bench;
  SynthCommand synth;
  PackCommand pack;
  LaunchCommand launch;
};

/// Adds the options of a quantisation.
void add_calibration(CLI::App* sub, CalibrationWhat& c) {
  CLI::Option* const data =
      sub->add_option("--data", c.data,
                      "Calibration samples of a float model: "
                      ".npy in the model's input type and layout, whose first axis counts frames; "
                      ".npz with an array for each input; "
                      "a folder of pictures (with a millrace.yaml beside the model); "
                      "or a file for each input, NAME=FILE");
  data->allow_extra_args(false);
  sub->add_option("--test-data", c.test_data,
                  "Samples that only measure the accuracy (default: those of --data that do not calibrate)")
      ->allow_extra_args(false)
      ->needs(data);
  sub->add_option("--labels", c.labels,
                  ".npy with the index of each sample's class, for the samples of --test-data. "
                  "Without --test-data, the labels are for --data: "
                  "the first half of --data calibrates, and the second half measures the accuracy")
      ->needs(data);
  sub->add_option("--calibrate", c.calibrate,
                  "Number of samples of --data that calibrate; the other samples measure the accuracy")
      ->needs(data)
      ->check(whole(1, kMost32));
  sub->add_option("--bits", c.bits, "Bits of the weights: 8, or 4 (the most sensitive layers keep 8)")
      ->needs(data)
      ->capture_default_str()
      ->check(CLI::IsMember({8, 4}));
  sub->add_option("--method", c.method,
                  "How an activation's range is chosen: "
                  "minmax (all values that occurred), percentile (without the outliers), "
                  "entropy (the least loss of information)")
      ->needs(data)
      ->capture_default_str()
      ->check(CLI::IsMember({"minmax", "percentile", "entropy"}));
  sub->add_option("--percentile", c.percent,
                  "Percentage of the elements that --method percentile keeps in the range")
      ->needs(data)
      ->capture_default_str()
      ->check(number(50, 100, "50 to 100"));
  sub->add_flag("--equalise", c.equalise,
                "Balance the weights' ranges between neighbouring layers first (cross-layer equalisation)")
      ->needs(data);
  sub->add_flag("--no-bias-correction", c.no_bias_correction,
                "Leave biases as they are, and do not correct them for the mean error of the weights")
      ->needs(data);
  sub->add_option("--keep-float", c.keep_float, "Leave this node in float32; may be repeated")
      ->allow_extra_args(false)
      ->needs(data);
  sub->add_option("--keep-8bit", c.keep_8bit,
                  "With --bits 4: this layer's weights have 8 bits; may be repeated")
      ->allow_extra_args(false)
      ->needs(data);
}

/// Adds the option --activations, with which a model can be quantised without samples.
void add_declared_format(CLI::App* sub, CalibrationWhat& c) {
  sub->add_option("--activations", c.activations,
                  "For a float model whose weights are whole numbers; needs no --data. "
                  "int8:7 means that weights and activations are 8-bit integers, "
                  "and that each integer q stands for q divided by 2^7");
}

void add_quantize(Builder& builder, QuantizeCommand& c) {
  CLI::App* sub =
      builder.add("quantize", "Quantise a float model with samples, and write it as a QDQ model", c);
  sub->add_option("MODEL", c.model, "ONNX model with float layers")->required();
  add_calibration(sub, c.what);
  add_declared_format(sub, c.what);
  sub->add_option("--output,-o", c.output, "QDQ model to write")->required();
  sub->add_option("--report", c.report, "Write the result as a page, too");
}

void add_plugins(CLI::App* sub, std::vector<std::string>& plugins) {
  sub->add_option("--plugins,--generator-plugin", plugins,
                  "A,B: shared libraries that compute nodes of the model (" +
                      runtime::plan::document("runtime/plugins/README.md") +
                      "), or programs that propose implementations of blocks, in JSON (" +
                      runtime::plan::document("compiler/generators/README.md") +
                      "). Millrace asks the plugins in this order, and they run with your rights "
                      "(--generator-plugin is the option's old name)")
      ->allow_extra_args(false);
}

void add_what(CLI::App* sub, PlanWhat& c) {
  sub->add_option(
         "MODEL", c.model,
         "ONNX model; a millrace.yaml in the same folder gives labels, layout and defaults of these options")
      ->required();
  sub->add_option("--cluster", c.cluster, cluster_help("cards and the cables between them"))->required();
  sub->add_option("--name", c.name, "Model name (default: the file's stem)");
  sub->add_option("--target-fps", c.target_fps, "Least number of frames per second");
  sub->add_option("--max-latency", c.max_latency,
                  "Longest time from the first card's input to the last card's output: 500us, 1.5ms "
                  "(ns, us, ms or s; us if no unit is given)");
  sub->add_option("--objective", c.objective,
                  "What to optimise once the targets are met: "
                  "cards (use as few as possible; the default), throughput or latency")
      ->check(CLI::IsMember({"cards", "throughput", "latency"}));
  sub->add_option("--weights", c.weights,
                  "Where weights are kept. baked: in the images; "
                  "loaded: written to the cards, so that new weights need no new images; "
                  "streamed: read from the cards' memory for every frame; "
                  "auto: baked or streamed, whichever is better for the layer; "
                  "baked-first (default): baked, but auto if baked weights do not fit or need split layers")
      ->check(CLI::IsMember({"baked-first", "auto", "baked", "loaded", "streamed"}));
  sub->add_option("--partitions", c.partitions, "Exact number of cards per replica (default: chosen)")
      ->check(whole(1, 1024));
  sub->add_option("--replicas", c.replicas,
                  "Number of pipelines, each on its own cards "
                  "(default: as many as the target or the throughput objective needs)")
      ->check(whole(1, 1024));
  sub->add_option(
      "--max-utilisation", c.max_utilisation,
      "Largest share that layers may use of the resources that the shell leaves free: 0.8 (default), "
      "or a share for one kind: dsp=0.9; may be repeated");
  sub->add_option(
      "--split", c.splits,
      "BLOCK=N: split this layer into N parts, each with some of the output channels; may be repeated. "
      "Other layers are split only if they do not fit or limit the rate");
  sub->add_option(
      "--plan", c.plan,
      "Follow this plan file (written by 'plan --save-plan', perhaps edited) instead of searching");
  sub->add_flag(
      "--no-host", c.no_host,
      "Refuse a model if the host would have to compute more than the conversion of inputs and outputs");
  sub->add_option("--host", c.host_blocks, "Run this block on the host; may be repeated");
  sub->add_option("--host-time", c.host_time,
                  "Time to assume for each block that runs on the host between cards, such as 30us "
                  "(default: the cost catalogue's time)");
  add_plugins(sub, c.plugins);
  add_calibration(sub, c.calibration);
  add_declared_format(sub, c.calibration);
  sub->add_option("--dump-after", c.dump_after,
                  "Print the graph on standard error after this pass ('all': every pass); may be repeated");
}

void add_coverage(Builder& builder, CoverageCommand& c) {
  CLI::App* sub = builder.add(
      "coverage", "Show where each node of a model runs, and what to change if a node is not supported", c);
  sub->add_option("MODEL", c.model, "ONNX model, quantised or not")->required();
  sub->add_option("--cluster", c.cluster, cluster_help("default: cards with memory for streamed weights"));
  add_plugins(sub, c.plugins);
  sub->add_flag("--all", c.all,
                "Print a line for each node, instead of one line for nodes with the same answer");
}

void add_plan(Builder& builder, PlanCommand& c) {
  CLI::App* sub =
      builder.add("plan", "Predict how many cards a model needs, how fast it runs, and what limits it", c);
  add_what(sub, c.what);
  sub->add_option("--assume", c.assume,
                  "Plan a float model as if it were quantised to a type from int2 to int8, "
                  "or with different widths of weights and activations, such as w4a8. "
                  "Assumes arbitrary scales, one per output channel of the weights; "
                  "the suffix -pow2 (int8-pow2) assumes powers of two, which need less hardware");
  sub->add_option("--save-plan", c.save, "Write the plan to a file that --plan reads");
  sub->add_option("--html,--report", c.html, "Write the report as one self-contained page");
  sub->add_flag("--alternatives", c.alternatives,
                "Also plan for other numbers of cards (--html always does)");
  sub->add_flag(
      "--comm", c.communication,
      "Also print the communication plan: the messages of a frame (with packets, credits, buffers), "
      "the load of each cable, and why the plan cannot deadlock");
  CLI::Option* const load =
      sub->add_option("--load", c.load,
                      "Also simulate the plan under load: print the rate that it sustains, "
                      "and the latency with waiting if frames arrive at random times at this mean rate: "
                      "frames a second, or a share of the sustained rate (30%,60%,90%)");
  load->delimiter(',')->allow_extra_args(false);
  sub->add_option("--slots", c.slots,
                  "With --load: largest number of frames in each pipeline, as in 'serve --slots'")
      ->needs(load)
      ->capture_default_str()
      ->check(whole(1, 1024));
}

void add_compile(Builder& builder, CompileCommand& c) {
  CLI::App* sub = builder.add("compile", "Build a deployment for a cluster from an ONNX model", c);
  add_what(sub, c.what);
  sub->add_option("--output,-o", c.output, "Deployment directory to write; an existing one is replaced")
      ->required();
  sub->add_option("--variants", c.variants,
                  "Write up to this many alternative deployments into the output directory; "
                  "they trade cards for frame rate, latency and utilisation")
      ->check(whole(1, 32));
}

void add_inspect(Builder& builder, InspectCommand& c) {
  CLI::App* sub =
      builder.add("inspect", "Verify a deployment's or an xclbin's checksums and show its content", c);
  sub->add_option("TARGET", c.target, "Deployment directory or .xclbin file")->required();
}

void add_verify(Builder& builder, VerifyCommand& c) {
  CLI::App* sub =
      builder.add("verify", "Run frames through the cards and compare every byte with the reference", c);
  sub->add_option("DEPLOYMENT", c.deployment, "Deployment directory")->required();
  sub->add_option("--cluster", c.cluster,
                  cluster_help("default: the emulated cards that the deployment needs"));
  sub->add_option(
         "--fidelity", c.fidelity,
         "How cards are emulated: functional, or rtl (simulates the generated SystemVerilog under one clock)")
      ->capture_default_str();
  sub->add_option("--stall", c.stall, "With --fidelity rtl: probability that a port stalls in a cycle")
      ->check(number(0, 0.99, "0 to 0.99"));
  sub->add_option(
         "--inputs", c.inputs,
         ".npy in the model's type and layout; the first axis counts frames (default: random frames). "
         "For a model with several inputs: one .npz with an array per input, or NAME=FILE for each input")
      ->allow_extra_args(false);
  sub->add_option(
         "--expect", c.expect,
         ".npy with the expected values of the model's first output; results are compared with them, too")
      ->needs("--inputs");
  sub->add_option(
         "--tolerance", c.tolerance,
         "Largest allowed difference from --expect, in steps. "
         "A step of an integer output is 1. "
         "A step of a float output is the scale of the output's last quantiser. "
         "A step of a softmax is the largest change that results if each score changes by one quantiser step")
      ->needs("--expect")
      ->check(whole(0, kMost32));
  sub->add_flag("--allow-plugins", c.allow_plugins,
                "Run the code of plugins that the deployment contains, with your rights");
  sub->add_option("--frames", c.frames, "Number of frames (default: all of --inputs, or 16)")
      ->check(whole(1, kMost32));
  sub->add_option("--seed", c.seed, "Seed of the random frames")
      ->capture_default_str()
      ->check(whole(0, kMost64));
  sub->add_option(
      "--dump-tensors", c.dump_tensors,
      "Write every tensor of one frame into this directory, and name the first node that differs");
}

void add_synth(Builder& builder, SynthCommand& c) {
  CLI::App* sub = builder.add(
      "synth", "Count each instance's resources with Yosys and compare them with the prediction", c);
  sub->add_option("DEPLOYMENT", c.target, "Deployment directory, or one partition's rtl folder")->required();
  sub->add_option("--jobs,-j", c.jobs, "Concurrent runs of Yosys (default: one per processor)")
      ->check(whole(1, 1024));
  sub->add_option("--catalog", c.catalog, "Cost catalogue to predict with (default: the built-in one)");
  sub->add_option("--family", c.family, "Device family (default: the design's)")
      ->check(CLI::IsMember({"xcu", "xcup"}));
}

void add_pack(Builder& builder, PackCommand& c) {
  CLI::App* sub = builder.add("pack", "Replace an image of a deployment by an xclbin that Vitis built", c);
  sub->add_option("DEPLOYMENT", c.deployment, "Deployment directory")->required();
  sub->add_option("--image", c.image, "Image to replace: image0, ...")->required();
  sub->add_option("--xclbin", c.xclbin, "xclbin that v++ --link wrote for this image")->required();
  sub->add_option("--output,-o", c.output,
                  "Directory for the result (default: change the given deployment in place)");
  sub->add_flag("--accept-slower", c.accept_slower,
                "Accept a clock at which the deployment is slower than planned, and store its new rate");
}

void add_launch(Builder& builder, LaunchCommand& c) {
  CLI::App* sub = builder.add(
      "launch", "Print how mpirun, Slurm or Kubernetes starts the server on a cluster's hosts", c);
  sub->add_option("DEPLOYMENT", c.deployment, "Deployment directory, at the same path on all hosts")
      ->required();
  sub->add_option("--print", c.format,
                  "What to print: mpirun (a command line), slurm (a batch script) or kubernetes (manifests)")
      ->required()
      ->check(CLI::IsMember({"mpirun", "slurm", "kubernetes"}));
  sub->add_option("--cluster", c.cluster,
                  cluster_help("default: one process, with the emulated cards that the deployment needs"));
  sub->add_option("--http", c.http, "HOST:PORT on which rank 0 answers clients")->capture_default_str();
  sub->add_option("--time", c.time,
                  "slurm: time limit of the job, such as 24:00:00 (default: the partition's)");
  sub->add_option("--container", c.container,
                  "kubernetes: container image with millrace, the deployment and the cluster file");
  sub->add_option(
      "--card-resource", c.card_resource,
      "kubernetes: name by which the device plugin offers a card (default: pods request no card)");
  sub->add_option("--replicas", c.replicas, "kubernetes, one host: number of servers behind the service")
      ->capture_default_str()
      ->check(whole(1, 1024));
}

void add_access(CLI::App& sub, ServerAccess& c) {
  sub.add_option("--ca-file", c.ca_file, "https: PEM file of certificates to trust (default: the system's)");
  sub.add_flag("--insecure", c.insecure, "https: accept any certificate");
  sub.add_option("--token-file", c.token_file,
                 "File that holds the bearer token (default: MILLRACE_TOKEN if it is set)");
}

void add_devices(Builder& builder, DevicesCommand& c) {
  CLI::App* sub = builder.add("devices", "List the cards that XRT finds", c);
  sub->add_option("--cluster", c.cluster, cluster_help("needed for emulated cards"));
  auto* const check =
      sub->add_flag("--check", c.check, "Open every card and compare it with the cluster file");
  auto* const deployment =
      sub->add_option("--deployment", c.deployment,
                      "With --check: program the cards with this deployment, check its cables and send "
                      "probe frames. Without --cluster, the emulated cards that the deployment needs")
          ->needs(check);
  sub->add_flag("--allow-plugins", c.allow_plugins,
                "With --deployment: run the code of plugins that the deployment contains, with your rights")
      ->needs(deployment);
  sub->add_option_function<std::uint32_t>(
         "--timeout-ms", [&c](std::uint32_t ms) { c.timeout = std::chrono::milliseconds(ms); },
         "With --deployment: longest wait until all cables are up (default: 5000)")
      ->needs(deployment)
      ->check(whole(1, kMost32));
  auto* const impair =
      sub->add_option(
             "--impair", c.impair,
             "Inject faults into a UDP cable between emulated cards of a running server: CABLE:KEY=VALUE,... "
             "with the keys loss, duplicate, reorder, bit_errors, latency_ns, "
             "gigabits_per_second and outage; "
             "CABLE alone ends the faults")
          ->excludes(check);
  sub->add_option("--url", c.url, "With --impair: http://HOST:PORT, https://HOST:PORT or unix:PATH")
      ->capture_default_str()
      ->needs(impair);
  add_access(*sub, c.access);
}

/// Adds the command-line flag of one server setting. Stores the value as text, which server/config parses later.
void add_setting(CLI::App& sub, const server::config::Setting& setting, ServeCommand& c) {
  namespace config = server::config;
  const std::string flag(setting.flag), key(setting.key);
  const std::string help =
      (key == "cluster" ? cluster_help("default: the emulated cards that the deployment needs")
                        : std::string(setting.help)) +
      " (" + config::environment_name(setting.key) + ", " + key + ")";
  if (std::holds_alternative<config::Switch>(setting.kind)) {
    sub.add_flag_function(
        flag, [&c, key](std::int64_t count) { c.flags[key] = {count > 0 ? "true" : "false"}; }, help);
    return;
  }
  if (std::holds_alternative<config::List>(setting.kind)) {
    sub.add_option_function<std::vector<std::string>>(
           flag, [&c, key](const std::vector<std::string>& values) { c.flags[key] = values; }, help)
        ->allow_extra_args(false);
    return;
  }
  auto* option = sub.add_option_function<std::string>(
      flag, [&c, key](const std::string& value) { c.flags[key] = {value}; }, help);
  const std::string usual = config::value_text(setting, {});
  if (!usual.empty() && setting.help.find("(default") == std::string_view::npos) option->default_str(usual);
  if (key == "pace") option->expected(0, 1)->default_str("1")->type_name("[FACTOR]");
}

void add_serve(Builder& builder, ServeCommand& c) {
  CLI::App* sub = builder.add("serve", "Load deployments onto cards and answer inference requests", c);
  sub->add_option("--config", c.config,
                  "server.yaml with any of the settings below; "
                  "flags and the environment take precedence; MILLRACE_CONFIG may also name the file");
  sub->add_flag("--check-config", c.check_config,
                "Check the settings, print them with their origins, and exit");
  for (const auto& setting : server::config::settings())
    if (sub->get_option_no_throw(std::string(setting.flag)) == nullptr) add_setting(*sub, setting, c);
  sub->add_flag_callback(
      "--json-log", [&c] { c.flags["log.format"] = {"json"}; }, "The same as --log-format json");
}

/// Copies the options that every command has and that are also settings of the server.
void take_common_settings(const CLI::App& sub, ServeCommand& c) {
  if (sub.count("--log-level") > 0) c.flags["log.level"] = {c.common.log_level};
}

void add_infer(Builder& builder, InferCommand& c) {
  CLI::App* sub = builder.add("infer", "Send inputs to a server and print the top classes", c);
  sub->add_option("--url", c.url, "http://HOST:PORT, https://HOST:PORT or unix:PATH")->capture_default_str();
  add_access(*sub, c.access);
  sub->add_option("--model", c.model, "Model name (default: the server's only model)");
  sub->add_option(
         "--input", c.inputs,
         "Image, folder, .npy, .npz or raw file; may be repeated. "
         "For a model with several inputs: one .npz with an array per input, or NAME=FILE for each input")
      ->required();
  sub->add_option("--top", c.top, "Classes to print")->capture_default_str()->check(whole(1, 1 << 20));
  sub->add_option("--output", c.output, "Write the first output as .npy; the first axis counts frames");
  sub->add_option_function<std::uint32_t>(
         "--timeout-ms", [&c](std::uint32_t ms) { c.timeout = std::chrono::milliseconds(ms); },
         "Longest wait for one answer (default: 10000)")
      ->check(whole(1, kMost32));
}

void add_reload(Builder& builder, ReloadCommand& c) {
  CLI::App* sub = builder.add("reload", "Make a running server replace the served version of a model", c);
  sub->add_option("--url", c.url, "http://HOST:PORT, https://HOST:PORT or unix:PATH")->capture_default_str();
  add_access(*sub, c.access);
  sub->add_option("--model", c.model, "Model name")->required();
  auto* const version = sub->add_option("--version", c.version,
                                        "Version in the repository (default: the pinned one, or the newest)")
                            ->check(whole(1, kMostVersion));
  auto* const policy = sub->add_option("--policy", c.policy,
                                       "How the version replaces the served one: "
                                       "auto, overlap, rolling or drain (default: the server's)")
                           ->check(CLI::IsMember({"auto", "overlap", "rolling", "drain"}));
  auto* const force = sub->add_flag(
      "--force", c.force, "Load the version even if its inputs or outputs differ from the current version's");
  auto* const pin =
      sub->add_flag("--pin", c.pin,
                    "Pin the model to --version once that version serves: "
                    "no other version is loaded, even after a restart, until the pin is removed or moved")
          ->needs(version);
  auto* const unpin =
      sub->add_flag("--unpin", c.unpin, "Only remove the pin; the current version keeps serving")
          ->excludes(version)
          ->excludes(policy)
          ->excludes(force)
          ->excludes(pin);
  sub->add_flag("--unload", c.unload, "Unload the model instead")
      ->excludes(force)
      ->excludes(pin)
      ->excludes(unpin);
  sub->add_option_function<std::uint32_t>(
         "--timeout-ms", [&c](std::uint32_t ms) { c.timeout = std::chrono::milliseconds(ms); },
         "Longest wait until the server has loaded the model version (default: an hour)")
      ->check(whole(1, kMost32));
}

void add_bench(Builder& builder, BenchCommand& c) {
  CLI::App* sub = builder.add(
      "bench", "Measure a server's latency at a fixed rate, or with a fixed number of connections", c);
  sub->add_option("--url", c.url, "http://HOST:PORT, https://HOST:PORT, unix:PATH or udp://HOST:PORT")
      ->capture_default_str();
  add_access(*sub, c.access);
  sub->add_option(
      "--udp-keys", c.udp_keys,
      "With a udp: URL: sign requests with a key from this file of '<id> <hexadecimal secret>' lines");
  sub->add_option("--udp-key-id", c.udp_key_id,
                  "Id of the key to sign with (default: the only key of the file)")
      ->check(whole(1, 255));
  sub->add_option("--model", c.model, "Model name")->required();
  sub->add_option("--rate", c.rate,
                  "Open loop: requests per second, sent on time however slow the answers are");
  sub->add_option(
         "--concurrency", c.concurrency,
         "Closed loop: number of connections, each of which waits for its answer before the next request; "
         "N, or N,N,… for a sweep (default: 1)")
      ->delimiter(',')
      ->check(whole(0, kMost32));
  sub->add_option(
         "--connections", c.connections,
         "With --rate: largest number of connections; if all are busy, requests are sent late (default: 64)")
      ->check(whole(0, kMost32));
  sub->add_option("--duration", c.duration_seconds, "Measured seconds of each run")->capture_default_str();
  sub->add_option("--warmup", c.warmup_seconds, "Seconds before each run that are not measured")
      ->capture_default_str();
  sub->add_option(
      "--input", c.inputs,
      ".npy or raw file of frames, which are sent in turn; may be repeated (default: random frames)");
  sub->add_option("--seed", c.seed, "Seed of the random frames")
      ->capture_default_str()
      ->check(whole(0, kMost64));
  sub->add_flag("--raw", c.raw, "HTTP: send the tensor alone, without a JSON header");
  sub->add_option("--histogram", c.histogram,
                  "Write the percentile distribution in HdrHistogram's format; "
                  "a sweep writes FILE.<connections> for each run");
  sub->add_option("--compare", c.compare,
                  "Output of an earlier run with --json: print both runs and their ratios");
  sub->add_option_function<std::uint32_t>(
         "--timeout-ms", [&c](std::uint32_t ms) { c.timeout = std::chrono::milliseconds(ms); },
         "Longest wait for one answer (default: 10000)")
      ->check(whole(1, kMost32));
}

std::optional<Command> chosen(const std::string& name, Commands& c) {
  if (name == "coverage") return Command(std::move(c.coverage));
  if (name == "plan") return Command(std::move(c.plan));
  if (name == "quantize") return Command(std::move(c.quantize));
  if (name == "compile") return Command(std::move(c.compile));
  if (name == "inspect") return Command(std::move(c.inspect));
  if (name == "verify") return Command(std::move(c.verify));
  if (name == "devices") return Command(std::move(c.devices));
  if (name == "serve") return Command(std::move(c.serve));
  if (name == "infer") return Command(std::move(c.infer));
  if (name == "reload") return Command(std::move(c.reload));
  if (name == "bench") return Command(std::move(c.bench));
  if (name == "synth") return Command(std::move(c.synth));
  if (name == "pack") return Command(std::move(c.pack));
  if (name == "launch") return Command(std::move(c.launch));
  return std::nullopt;
}

/// Returns the first word that looks like an option but is no option of the sub-command, or an empty text.
std::string unknown_option(const CLI::App& sub) {
  for (const std::string& word : sub.remaining())
    if (word.size() > 1 && word[0] == '-') return word;
  return {};
}

/// Returns the message for a usage error in a sub-command. CLI11 would first report that a required option is missing.
/// This function reports a misspelt option instead, because usually the required option was misspelt.
std::string wrong_use(const CLI::App& sub, const CLI::ParseError& error) {
  const std::string unknown = unknown_option(sub);
  return unknown.empty() ? error.what()
                         : "'" + unknown + "' is not an option of 'millrace " + sub.get_name() + "'";
}

/// Returns the message for a command line that has no valid sub-command.
std::string no_command(const CLI::App& app, int argc, const char* const* argv) {
  std::string known;
  for (const CLI::App* sub : app.get_subcommands({})) known += (known.empty() ? "" : ", ") + sub->get_name();
  const std::string word = argc > 1 ? argv[1] : "";
  return (word.empty() ? "a command is missing"
                       : "'" + word + "' is not a command or an option of millrace") +
         "; the commands are " + known;
}

}  // namespace

Parsed parse(int argc, const char* const* argv) {
  CLI::App app("Compiles ONNX models for several FPGAs and serves them one frame at a time.", "millrace");
  app.set_version_flag("--version", "millrace " MILLRACE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  Commands commands;
  Builder builder(app);
  add_coverage(builder, commands.coverage);
  add_plan(builder, commands.plan);
  add_quantize(builder, commands.quantize);
  add_compile(builder, commands.compile);
  add_verify(builder, commands.verify);
  add_synth(builder, commands.synth);
  add_pack(builder, commands.pack);
  add_launch(builder, commands.launch);
  add_inspect(builder, commands.inspect);
  add_serve(builder, commands.serve);
  add_infer(builder, commands.infer);
  add_reload(builder, commands.reload);
  add_bench(builder, commands.bench);
  add_devices(builder, commands.devices);

  Parsed parsed;
  parsed.json =
      std::find(argv + 1, argv + std::max(argc, 1), std::string_view("--json")) != argv + std::max(argc, 1);
  const auto wrong = [&](const std::string& message) {
    parsed.exit_code = 2;
    parsed.message = message;
  };
  try {
    app.parse(argc, argv);
    parsed.name = app.get_subcommands().front()->get_name();
    const CLI::App& sub = *app.get_subcommands().front();
    if (parsed.name == "serve")
      take_common_settings(sub, commands.serve);  // server/config checks for empty values
    else
      refuse_empty_values(sub);
    parsed.command = chosen(parsed.name, commands);
  } catch (const CLI::CallForVersion& version) {
    parsed.message = std::string(version.what()) + "\n";
  } catch (const CLI::CallForAllHelp&) {
    parsed.message = app.help("", CLI::AppFormatMode::All);
  } catch (const CLI::CallForHelp&) {
    // The user asked for help on a command that does not exist.
    if (app.get_subcommands().empty() && !app.remaining().empty())
      wrong(no_command(app, argc, argv));
    else
      parsed.message = app.help();
  } catch (const CLI::ParseError& error) {
    const auto subs = app.get_subcommands();
    parsed.name = subs.empty() ? "" : subs.front()->get_name();
    wrong(subs.empty() ? no_command(app, argc, argv) : wrong_use(*subs.front(), error));
  }
  return parsed;
}

const Common& common_of(const Command& command) {
  return std::visit([](const auto& c) -> const Common& { return c.common; }, command);
}

}  // namespace millrace::cli
