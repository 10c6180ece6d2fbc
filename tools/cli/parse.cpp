#include "tools/cli/parse.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <string_view>

#include "runtime/plan/installed.hpp"
#include "server/config/settings.hpp"

namespace millrace::cli {
namespace {

/// A whole number in digits alone: CLI11 by itself takes -1 for the largest there is and clamps what is
/// larger.
CLI::Validator whole(std::uint64_t least, std::uint64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  return {[=](std::string& text) {
            std::uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool good =
                error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
            return good ? std::string() : "'" + text + "' is no whole number from " + range;
          },
          range, "whole"};
}

/// A number; CLI::Range lets NaN pass.
CLI::Validator number(double least, double most, const std::string& range) {
  return {[=](std::string& text) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
            return good ? std::string() : "'" + text + "' is no number from " + range;
          },
          range, "number"};
}

constexpr std::uint64_t kMostVersion = 999'999'999'999'999'999;  // as many digits as server/models takes
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMost64 = std::numeric_limits<std::uint64_t>::max();

/// A shell variable that is not set must not become a default.
void refuse_empty_values(const CLI::App& sub) {
  for (const CLI::Option* option : sub.get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        throw CLI::ValidationError(option->get_name(), "the value is empty; give one or leave it out");
}

std::string cluster_help(const std::string& what) {
  const auto folder = runtime::plan::installed("clusters");
  return "Cluster file" + (folder.empty() ? "" : ", or the name of one in " + folder.string()) + " (" + what +
         ")";
}

/// Registers a sub-command and remembers, by name, which struct it fills.
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
  PlanCommand plan;
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
};

void add_what(CLI::App* sub, PlanWhat& c) {
  sub->add_option(
         "MODEL", c.model,
         "ONNX model; a millrace.yaml beside it gives labels, layout, and options where none stand here")
      ->required();
  sub->add_option("--cluster", c.cluster, cluster_help("cards and the cables between them"))->required();
  sub->add_option("--name", c.name, "Model name (default: the file's stem)");
  sub->add_option("--target-fps", c.target_fps, "Frames a second, at least");
  sub->add_option(
      "--max-latency", c.max_latency,
      "From the first card's input to the last one's output, at most: 500us, 1.5ms (ns, us, ms or s; "
      "without a unit us)");
  sub->add_option("--objective", c.objective,
                  "What the rest goes to: cards (as few as meet the targets; the default), throughput or "
                  "latency")
      ->check(CLI::IsMember({"cards", "throughput", "latency"}));
  sub->add_option(
         "--weights", c.weights,
         "Where weights are: baked (in the images), loaded (written to the cards: new weights need no new "
         "images), streamed (read from the cards' memory every frame), auto (of each layer, baked or "
         "streamed as is best) or baked-first (baked, and auto where the model does not fit so, or meets "
         "the target only with layers split; the default)")
      ->check(CLI::IsMember({"baked-first", "auto", "baked", "loaded", "streamed"}));
  sub->add_option("--partitions", c.partitions, "Exactly so many cards, of each replica (default: chosen)")
      ->check(whole(1, 1024));
  sub->add_option("--replicas", c.replicas,
                  "So many pipelines, each on cards of its own (default: as the target or throughput need)")
      ->check(whole(1, 1024));
  sub->add_option("--max-utilisation", c.max_utilisation,
                  "Share of what the shell leaves that may be used: 0.8 (default), or of one kind: dsp=0.9; "
                  "may be repeated");
  sub->add_option("--split", c.splits,
                  "BLOCK=N: build this layer as N, each with a part of its output channels; may be repeated "
                  "(others are split where they do not fit or limit)");
  sub->add_option("--plan", c.plan,
                  "Follow this plan file (from 'plan --save-plan', edited) instead of searching");
  sub->add_flag(
      "--no-host", c.no_host,
      "Refuse a model of which the host would compute more than the conversion of inputs and outputs");
  sub->add_option("--host", c.host_blocks, "Run this block on the host; may be repeated");
  sub->add_option("--host-time", c.host_time,
                  "What each block on the host between cards takes, instead of the catalogue's figure: 30us");
  sub->add_option("--generator-plugin", c.generator_plugin,
                  "A program that offers ways to build blocks, in JSON (" +
                      runtime::plan::document("compiler/generators/README.md") +
                      "); it is run with your rights");
  sub->add_option("--dump-after", c.dump_after,
                  "Print the graph after this pass on standard error; may be repeated; 'all' for every pass");
}

void add_plan(Builder& builder, PlanCommand& c) {
  CLI::App* sub = builder.add("plan", "Say how many cards a model takes, how fast it will be, and why", c);
  add_what(sub, c.what);
  sub->add_option(
      "--assume", c.assume,
      "Plan a float model on its structure, as if quantised: int2 to int8, or weights and activations "
      "apart: w4a8. Scales are taken to be general, one for each output channel of the weights; with "
      "-pow2 behind it (int8-pow2) powers of two, which take less hardware");
  sub->add_option("--save-plan", c.save, "Write the plan as a file that --plan takes");
  sub->add_option("--html,--report", c.html, "Write the report as one self-contained page");
  sub->add_flag("--alternatives", c.alternatives,
                "Also say what other numbers of cards would give (always in --html)");
}

void add_compile(Builder& builder, CompileCommand& c) {
  CLI::App* sub = builder.add("compile", "Build a deployment for a cluster from an ONNX model", c);
  add_what(sub, c.what);
  sub->add_option("--output,-o", c.output, "Deployment directory to write (replaced as a whole)")->required();
  sub->add_option("--variants", c.variants,
                  "Build up to so many alternatives side by side below the output: cards against frames, "
                  "latency and utilisation")
      ->check(whole(1, 32));
}

void add_inspect(Builder& builder, InspectCommand& c) {
  CLI::App* sub = builder.add("inspect", "Show what a deployment or an xclbin holds, checksums verified", c);
  sub->add_option("TARGET", c.target, "Deployment directory or .xclbin file")->required();
}

void add_verify(Builder& builder, VerifyCommand& c) {
  CLI::App* sub =
      builder.add("verify", "Run frames through the cards and compare every byte with the reference", c);
  sub->add_option("DEPLOYMENT", c.deployment, "Deployment directory")->required();
  sub->add_option("--cluster", c.cluster, cluster_help("default: emulated cards made to fit"));
  sub->add_option("--fidelity", c.fidelity,
                  "functional, or rtl: the generated SystemVerilog, simulated under one clock")
      ->capture_default_str();
  sub->add_option("--stall", c.stall, "With rtl: probability that a port holds back, at each clock")
      ->check(number(0, 0.99, "0 to 0.99"));
  sub->add_option("--inputs", c.inputs,
                  ".npy of the model's own type and layout, first axis = frames (default: random frames)");
  sub->add_option("--expect", c.expect, ".npy of the first output to compare with as well")
      ->needs("--inputs");
  sub->add_option(
         "--tolerance", c.tolerance,
         "Output steps allowed against --expect: of an integer output 1, of a float output the scale of its "
         "last quantiser, behind a softmax what such a step of every score changes")
      ->needs("--expect")
      ->check(whole(0, kMost32));
  sub->add_option("--frames", c.frames, "Number of frames (default: all of --inputs, or 16)")
      ->check(whole(1, kMost32));
  sub->add_option("--seed", c.seed, "Seed of the random frames")
      ->capture_default_str()
      ->check(whole(0, kMost64));
  sub->add_option("--dump-tensors", c.dump_tensors,
                  "Write every tensor of one frame below this directory; names the first differing node");
}

void add_synth(Builder& builder, SynthCommand& c) {
  CLI::App* sub =
      builder.add("synth", "Count resources by Yosys, instance by instance, beside the prediction", c);
  sub->add_option("DEPLOYMENT", c.target, "Deployment directory, or one partition's rtl folder")->required();
  sub->add_option("--jobs,-j", c.jobs, "Runs of Yosys at once (default: one a processor)")
      ->check(whole(1, 1024));
  sub->add_option("--catalog", c.catalog, "Cost catalogue to predict with (default: the built-in one)");
  sub->add_option("--family", c.family, "Device family (default: the design's)")
      ->check(CLI::IsMember({"xcu", "xcup"}));
}

void add_pack(Builder& builder, PackCommand& c) {
  CLI::App* sub = builder.add("pack", "Put an xclbin that Vitis built into a deployment", c);
  sub->add_option("DEPLOYMENT", c.deployment, "Deployment directory")->required();
  sub->add_option("--image", c.image, "Image it was built for: image0, ...")->required();
  sub->add_option("--xclbin", c.xclbin, "What v++ --link wrote")->required();
  sub->add_option("--output,-o", c.output, "Write another deployment (default: replace this one)");
}

void add_devices(Builder& builder, DevicesCommand& c) {
  CLI::App* sub = builder.add("devices", "List the cards XRT finds", c);
  sub->add_option("--cluster", c.cluster, cluster_help("needed for emulated cards"));
  sub->add_flag("--check", c.check, "Pre-flight: open every card, check it against the cluster");
}

/// What the command line gives for one setting, as it was written: server/config reads it.
void add_setting(CLI::App& sub, const server::config::Setting& setting, ServeCommand& c) {
  namespace config = server::config;
  const std::string flag(setting.flag), key(setting.key);
  const std::string help =
      (key == "cluster" ? cluster_help("default: emulated cards made to fit") : std::string(setting.help)) +
      " (" + config::environment_name(setting.key) + ", " + key + ")";
  if (std::holds_alternative<config::Switch>(setting.kind)) {
    sub.add_flag_function(
        flag, [&c, key](std::int64_t count) { c.flags[key] = {count > 0 ? "true" : "false"}; }, help);
    return;
  }
  const bool list = std::holds_alternative<config::Paths>(setting.kind) ||
                    std::holds_alternative<config::Texts>(setting.kind);
  if (list) {
    sub.add_option_function<std::vector<std::string>>(
           flag, [&c, key](const std::vector<std::string>& values) { c.flags[key] = values; }, help)
        ->allow_extra_args(false);
    return;
  }
  auto* option = sub.add_option_function<std::string>(
      flag, [&c, key](const std::string& value) { c.flags[key] = {value}; }, help);
  const std::string usual = config::value_text(setting, {});
  if (!usual.empty() && setting.help.find("(default") == std::string_view::npos) option->default_str(usual);
}

void add_serve(Builder& builder, ServeCommand& c) {
  CLI::App* sub = builder.add("serve", "Load deployments onto cards and answer inference requests", c);
  sub->add_option("--config", c.config,
                  "server.yaml: any of the settings below, flags and the environment win over it "
                  "(MILLRACE_CONFIG)");
  sub->add_flag("--check-config", c.check_config,
                "Check the settings, print them with their origins, and end");
  for (const auto& setting : server::config::settings())
    if (sub->get_option_no_throw(std::string(setting.flag)) == nullptr) add_setting(*sub, setting, c);
  sub->add_flag_callback(
      "--json-log", [&c] { c.flags["log.format"] = {"json"}; }, "The same as --log-format json");
}

/// What all commands take and is a setting of the server as well.
void take_common_settings(const CLI::App& sub, ServeCommand& c) {
  if (sub.count("--log-level") > 0) c.flags["log.level"] = {c.common.log_level};
}

void add_access(CLI::App& sub, ServerAccess& c) {
  sub.add_option("--ca-file", c.ca_file,
                 "https: PEM file of whom to trust (default: whom the system trusts)");
  sub.add_flag("--insecure", c.insecure, "https: trust whoever answers");
  sub.add_option("--token-file", c.token_file,
                 "File that holds the bearer token (default: MILLRACE_TOKEN, where it is set)");
}

void add_infer(Builder& builder, InferCommand& c) {
  CLI::App* sub = builder.add("infer", "Send inputs to a server and print the top classes", c);
  sub->add_option("--url", c.url, "http://HOST:PORT, https://HOST:PORT or unix:PATH")->capture_default_str();
  add_access(*sub, c.access);
  sub->add_option("--model", c.model, "Model name (default: the server's only model)");
  sub->add_option("--input", c.inputs, "Image, .npy or raw file; may be repeated")->required();
  sub->add_option("--top", c.top, "Classes to print")->capture_default_str()->check(whole(1, 1 << 20));
  sub->add_option("--output", c.output, "Write the first output as .npy, first axis = frames");
  sub->add_option_function<std::uint32_t>(
         "--timeout-ms", [&c](std::uint32_t ms) { c.timeout = std::chrono::milliseconds(ms); },
         "Longest wait for one answer (default: 10000)")
      ->check(whole(1, kMost32));
}

void add_reload(Builder& builder, ReloadCommand& c) {
  CLI::App* sub = builder.add(
      "reload", "Load a version of a model in a running server, in place of the one that serves", c);
  sub->add_option("--url", c.url, "http://HOST:PORT, https://HOST:PORT or unix:PATH")->capture_default_str();
  add_access(*sub, c.access);
  sub->add_option("--model", c.model, "Model name")->required();
  auto* const version = sub->add_option("--version", c.version,
                                        "Version in the repository (default: the pinned one, or the newest)")
                            ->check(whole(1, kMostVersion));
  auto* const policy =
      sub->add_option("--policy", c.policy, "auto, overlap, rolling or drain (default: the server's)")
          ->check(CLI::IsMember({"auto", "overlap", "rolling", "drain"}));
  auto* const force =
      sub->add_flag("--force", c.force,
                    "Load it also where its inputs or outputs are not those of the version that serves");
  auto* const pin =
      sub->add_flag("--pin", c.pin,
                    "Pin the model to --version once it serves: no other version is loaded until the "
                    "pin is removed or moved, also after a restart")
          ->needs(version);
  auto* const unpin =
      sub->add_flag("--unpin", c.unpin, "Remove the pin instead; the version that serves goes on")
          ->excludes(version)
          ->excludes(policy)
          ->excludes(force)
          ->excludes(pin);
  sub->add_flag("--unload", c.unload, "Unload it instead")->excludes(force)->excludes(pin)->excludes(unpin);
  sub->add_option_function<std::uint32_t>(
         "--timeout-ms", [&c](std::uint32_t ms) { c.timeout = std::chrono::milliseconds(ms); },
         "Longest wait for the load (default: an hour)")
      ->check(whole(1, kMost32));
}

void add_bench(Builder& builder, BenchCommand& c) {
  CLI::App* sub = builder.add("bench", "Measure a server: latencies at a rate, or of so many connections", c);
  sub->add_option("--url", c.url, "http://HOST:PORT, https://HOST:PORT, unix:PATH or udp://HOST:PORT")
      ->capture_default_str();
  add_access(*sub, c.access);
  sub->add_option("--udp-keys", c.udp_keys,
                  "udp: file of '<id> <hexadecimal secret>' lines, as serve takes it; requests are signed");
  sub->add_option("--udp-key-id", c.udp_key_id, "Which of them (default: the only one)")
      ->check(whole(1, 255));
  sub->add_option("--model", c.model, "Model name")->required();
  sub->add_option("--rate", c.rate, "Requests a second, sent on time whatever the answers take (open loop)");
  sub->add_option(
         "--concurrency", c.concurrency,
         "Connections that each send when answered (closed loop); N or N,N,… for a sweep (default: 1)")
      ->delimiter(',')
      ->check(whole(0, kMost32));
  sub->add_option("--connections", c.connections,
                  "With --rate: connections at most; beyond them requests go late (default: 64)")
      ->check(whole(0, kMost32));
  sub->add_option("--duration", c.duration_seconds, "Seconds that are measured, of each run")
      ->capture_default_str();
  sub->add_option("--warmup", c.warmup_seconds, "Seconds before them that are not")->capture_default_str();
  sub->add_option("--input", c.inputs,
                  ".npy or raw file of frames, sent in turn; may be repeated (default: random frames)");
  sub->add_option("--seed", c.seed, "Seed of the random frames")
      ->capture_default_str()
      ->check(whole(0, kMost64));
  sub->add_flag("--raw", c.raw, "HTTP: send the tensor alone, without a JSON header");
  sub->add_option("--histogram", c.histogram,
                  "Write the percentile distribution as HdrHistogram's plotters read it; of a sweep "
                  "FILE.<connections> each");
  sub->add_option("--compare", c.compare,
                  "What an earlier run printed with --json: print both and the ratios");
  sub->add_option_function<std::uint32_t>(
         "--timeout-ms", [&c](std::uint32_t ms) { c.timeout = std::chrono::milliseconds(ms); },
         "Longest wait for one answer (default: 10000)")
      ->check(whole(1, kMost32));
}

std::optional<Command> chosen(const std::string& name, Commands& c) {
  if (name == "plan") return Command(std::move(c.plan));
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
  return std::nullopt;
}

/// The first word that looks like an option and is none of the sub-command's; empty where there is none.
std::string unknown_option(const CLI::App& sub) {
  for (const std::string& word : sub.remaining())
    if (word.size() > 1 && word[0] == '-') return word;
  return {};
}

/// What is wrong with the use of a sub-command. CLI11 first misses what is required: a misspelt option is
/// told before the one that is missing because of it.
std::string wrong_use(const CLI::App& sub, const CLI::ParseError& error) {
  const std::string unknown = unknown_option(sub);
  return unknown.empty() ? error.what()
                         : "'" + unknown + "' is no option of 'millrace " + sub.get_name() + "'";
}

/// What is wrong where no sub-command was found.
std::string no_command(const CLI::App& app, int argc, const char* const* argv) {
  std::string known;
  for (const CLI::App* sub : app.get_subcommands({})) known += (known.empty() ? "" : ", ") + sub->get_name();
  const std::string word = argc > 1 ? argv[1] : "";
  return (word.empty() ? "a command is missing" : "'" + word + "' is no command or option of millrace") +
         "; the commands are " + known;
}

}  // namespace

Parsed parse(int argc, const char* const* argv) {
  CLI::App app("From an ONNX model to several FPGAs, served one frame at a time.", "millrace");
  app.set_version_flag("--version", "millrace " MILLRACE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  Commands commands;
  Builder builder(app);
  add_plan(builder, commands.plan);
  add_compile(builder, commands.compile);
  add_verify(builder, commands.verify);
  add_synth(builder, commands.synth);
  add_pack(builder, commands.pack);
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
      take_common_settings(sub, commands.serve);  // empty values: server/config judges them
    else
      refuse_empty_values(sub);
    parsed.command = chosen(parsed.name, commands);
  } catch (const CLI::CallForVersion& version) {
    parsed.message = std::string(version.what()) + "\n";
  } catch (const CLI::CallForAllHelp&) {
    parsed.message = app.help("", CLI::AppFormatMode::All);
  } catch (const CLI::CallForHelp&) {
    // Help asked of a command that there is not.
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
