// `millrace bench`: sends requests to a server, at a fixed rate or over a fixed number of connections, and
// reports the latencies.

#include <algorithm>
#include <cstring>
#include <iostream>
#include <ostream>
#include <random>
#include <sstream>
#include <utility>

#include "runtime/base/file.hpp"
#include "server/udp/wire/keys.hpp"
#include "tools/cli/access.hpp"
#include "tools/cli/commands.hpp"
#include "tools/clients/http_client.hpp"
#include "tools/clients/samples.hpp"
#include "tools/load/power.hpp"
#include "tools/load/report.hpp"

namespace millrace::cli {
namespace {

using Tensors = std::vector<std::vector<std::byte>>;  // one frame: the model's inputs

constexpr std::uint32_t kRandomFrames = 16;
constexpr std::uint32_t kMaxConnections = 16'384;
constexpr std::uint32_t kMaxUdpConnections = 512;  // each connection has its own thread
constexpr double kMaxRate = 1e7;
constexpr double kMaxSeconds = 7 * 86'400.0;

Error bad(std::string message) {
  return Error(ErrorCode::kInvalidInput, std::move(message));
}

std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

Status check(const BenchCommand& c, bool udp) {
  if (c.model.empty()) return bad("--model: give the model's name");
  if (c.rate && !c.concurrency.empty())
    return bad("--rate (open loop) and --concurrency (closed loop) exclude each other; leave one out");
  if (c.rate && !(*c.rate > 0 && *c.rate <= kMaxRate))
    return bad("--rate " + text_of(*c.rate) +
               ": the rate must be above 0 and at most 10000000 requests per second");
  if (!(c.duration_seconds >= 0.001 && c.duration_seconds <= kMaxSeconds))
    return bad("--duration " + text_of(c.duration_seconds) + ": it must be 0.001 to 604800 seconds");
  if (!(c.warmup_seconds >= 0 && c.warmup_seconds <= kMaxSeconds))
    return bad("--warmup " + text_of(c.warmup_seconds) + ": it must be 0 to 604800 seconds");
  if (c.timeout.count() < 1) return bad("--timeout-ms: it must be above 0");
  if (c.connections && !c.rate)
    return bad("--connections needs --rate (open loop); for a closed loop give --concurrency");
  if (!udp && !c.udp_keys.empty())
    return bad("--udp-keys is only for udp:// URLs; for HTTP give --token-file");
  if (c.udp_key_id && c.udp_keys.empty()) return bad("--udp-key-id needs --udp-keys");
  if (c.raw && udp) return bad("--raw is only for HTTP; UDP always sends the tensors alone");
  std::vector<std::uint32_t> counts = c.concurrency;
  if (c.connections) counts.push_back(*c.connections);
  const std::uint32_t most = udp ? kMaxUdpConnections : kMaxConnections;
  for (const std::uint32_t n : counts)
    if (n == 0 || n > most)
      return bad((c.rate ? "--connections " : "--concurrency ") + std::to_string(n) + ": it must be 1 to " +
                 std::to_string(most) + (udp ? " over UDP" : ""));
  return {};
}

/// Stores in `options` the key with which requests are signed.
Status take_key(const BenchCommand& c, client::Options& options) {
  if (c.udp_keys.empty()) return {};
  const std::string file = "--udp-keys " + c.udp_keys.string();
  MILLRACE_ASSIGN(const std::string text, read_text_file(c.udp_keys));
  // Parse the key file with the server's parser first, because that parser's errors name the line.
  if (const auto ring = server::udp::wire::parse_keys(text); !ring.ok()) return ring.error().within(file);
  MILLRACE_ASSIGN(auto keys, server::udp::wire::parse_secret_keys(text));
  if (keys.empty()) return bad(file + " holds no key");
  if (!c.udp_key_id && keys.size() > 1)
    return bad(file + " holds " + std::to_string(keys.size()) + " keys; --udp-key-id says which");
  const auto key = std::find_if(keys.begin(), keys.end(),
                                [&](const auto& one) { return !c.udp_key_id || one.id == *c.udp_key_id; });
  if (key == keys.end())
    return bad("--udp-key-id " + std::to_string(*c.udp_key_id) + ": " + c.udp_keys.string() +
               " has no key of that id");
  options.key_id = key->id;
  options.key = std::move(key->secret);
  return {};
}

std::uint64_t bytes_of(const Tensors& frame) {
  std::uint64_t bytes = 0;
  for (const auto& tensor : frame) bytes += tensor.size();
  return bytes;
}

/// Fills a tensor with random finite numbers: floats in [0, 1), 16-bit floats below 2, integers of their
/// type's whole range.
std::vector<std::byte> random_tensor(const client::TensorInfo& info, std::mt19937_64& random) {
  std::vector<std::byte> out(info.bytes());
  const auto fill = [&](auto draw) {
    using T = decltype(draw());
    for (std::size_t at = 0; at + sizeof(T) <= out.size(); at += sizeof(T)) {
      const T value = draw();
      std::memcpy(out.data() + at, &value, sizeof value);
    }
  };
  if (info.datatype == "FP32")
    fill([&] { return static_cast<float>(random() >> 40U) * 0x1p-24F; });
  else if (info.datatype == "FP64")
    fill([&] { return static_cast<double>(random() >> 11U) * 0x1p-53; });
  else if (info.datatype == "FP16" || info.datatype == "BF16")
    fill([&] { return static_cast<std::uint16_t>(random() & 0x3FFFU); });
  else if (info.datatype == "BOOL")
    fill([&] { return static_cast<std::uint8_t>(random() & 1U); });
  else
    fill([&] { return static_cast<std::uint8_t>(random()); });
  return out;
}

Result<std::vector<Tensors>> frames_of(const BenchCommand& command, const client::ModelInfo& model) {
  std::vector<Tensors> frames;
  if (command.inputs.empty()) {
    std::mt19937_64 random(command.seed);
    for (std::uint32_t i = 0; i < kRandomFrames; ++i) {
      Tensors& frame = frames.emplace_back();
      for (const auto& info : model.inputs) frame.push_back(random_tensor(info, random));
      if (bytes_of(frame) > (4U << 20U)) break;  // one frame of a large model is enough
    }
    return frames;
  }
  if (model.inputs.size() != 1)
    return bad("--input: model '" + model.name + "' takes " + std::to_string(model.inputs.size()) +
               " inputs; "
               "files only work for models with one input, so leave out --input to send random tensors");
  clients::InputDescription description;
  description.name = model.inputs[0].name;
  description.datatype = model.inputs[0].datatype;
  description.shape = model.inputs[0].shape;
  for (const auto& file : command.inputs) {
    MILLRACE_ASSIGN(clients::Samples samples, clients::read_samples(file, description));
    for (auto& frame : samples.frames) frames.push_back({std::move(frame)});
  }
  if (frames.empty()) return bad("--input: the files contain no frame");
  return frames;
}

std::vector<load::Settings> settings_of(const BenchCommand& command) {
  load::Settings one;
  const auto ns = [](double seconds) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  };
  one.duration = ns(command.duration_seconds);
  one.warmup = ns(command.warmup_seconds);
  one.timeout = command.timeout;
  one.rate = command.rate;
  if (command.rate) {
    one.connections = command.connections.value_or(64);
    return {one};
  }
  std::vector<load::Settings> all;
  for (const std::uint32_t n :
       command.concurrency.empty() ? std::vector<std::uint32_t>{1} : command.concurrency) {
    one.connections = n;
    all.push_back(one);
  }
  return all;
}

Status comparable(const BenchCommand& command, const load::Report& old,
                  const std::vector<load::Settings>& planned) {
  load::Report report;
  for (const load::Settings& settings : planned) {
    load::RunReport& run = report.runs.emplace_back();
    run.connections = settings.connections;
    run.rate = settings.rate;
  }
  MILLRACE_ASSIGN([[maybe_unused]] const load::Comparison ignored,
                  load::compare(command.compare.string(), old, report));
  return {};
}

std::filesystem::path histogram_file(const BenchCommand& command, std::size_t runs,
                                     std::uint32_t connections) {
  std::filesystem::path file = command.histogram;
  if (runs > 1) file += "." + std::to_string(connections);
  return file;
}

Status check_histograms(const BenchCommand& command, const std::vector<load::Settings>& planned) {
  for (const load::Settings& settings : planned) {
    const Status place = check_file_place(histogram_file(command, planned.size(), settings.connections));
    if (!place.ok()) return place.error().within("--histogram");
  }
  return {};
}

Status write_histograms(const BenchCommand& command, const load::Report& report) {
  for (const load::RunReport& run : report.runs) {
    std::ostringstream text;
    load::print_histogram(text, run);
    const auto file = histogram_file(command, report.runs.size(), run.connections);
    if (const Status written = write_file_atomically(file, text.str()); !written.ok())
      return written.error().within("--histogram");
  }
  return {};
}

}  // namespace

Status run(const BenchCommand& command, std::ostream& out) {
  const bool udp = command.url.starts_with("udp://");
  MILLRACE_TRY(check(command, udp));
  std::optional<load::Report> old;
  if (!command.compare.empty()) {
    MILLRACE_ASSIGN(old, load::read_report(command.compare));
  }
  const std::vector<load::Settings> planned = settings_of(command);
  // Check --compare and --histogram before the run.
  if (old) MILLRACE_TRY(comparable(command, *old, planned));
  if (!command.histogram.empty()) MILLRACE_TRY(check_histograms(command, planned));
  load::Address address;
  std::string url = command.url;
  client::Options options;
  options.timeout = std::min(command.timeout, std::chrono::milliseconds(10'000));
  MILLRACE_TRY(take_key(command, options));
  if (!udp) {
    MILLRACE_ASSIGN(address.url, clients::parse_url(command.url, clients::Udp::kTakenByCaller));
    MILLRACE_ASSIGN(address.access, access_of(command.access));
    url = clients::to_string(address.url);
    options.ca_file = address.access.ca_file;
    options.verify = address.access.verify;
    options.token = address.access.token;
  }

  std::unique_ptr<client::Client> client;
  if (const auto s = client::connect(url, options, client); !s.ok()) return load::error_of(s);
  client::ModelInfo model;
  if (const auto s = client->model(command.model, "", model); !s.ok()) return load::error_of(s);
  client.reset();
  if (command.raw && model.inputs.size() != 1)
    return bad("--raw: model '" + model.name + "' takes " + std::to_string(model.inputs.size()) +
               " inputs; raw mode supports only one");
  MILLRACE_ASSIGN(const std::vector<Tensors> frames, frames_of(command, model));
  std::vector<std::string> requests;
  if (!udp)
    for (const Tensors& frame : frames)
      requests.push_back(load::infer_request(address, model, frame, command.raw));

  load::Report report{
      url, command.model, bytes_of(frames.front()), command.duration_seconds, command.warmup_seconds, {}};
  const auto power = udp ? nullptr : load::PowerMeter::open(address, command.model);
  const double seconds = command.warmup_seconds + command.duration_seconds;
  for (const load::Settings& settings : planned) {
    if (power) power->mean_watts();  // discards the samples from before the run
    if (!command.common.quiet)
      std::cerr << "running " << text_of(seconds) << " s with " << settings.connections
                << (settings.connections == 1 ? " connection" : " connections") << (udp ? " over UDP" : "")
                << '\n';
    MILLRACE_ASSIGN(const load::Tally tally,
                    udp ? load::run_udp(url, options, command.model, frames, settings)
                        : load::run_http(address, requests, settings));
    report.runs.push_back(load::summarise(tally, settings, power ? power->mean_watts() : std::nullopt));
  }

  if (!command.histogram.empty()) MILLRACE_TRY(write_histograms(command, report));
  std::optional<load::Comparison> comparison;
  if (old) {
    MILLRACE_ASSIGN(comparison, load::compare(command.compare.string(), *old, report));
  }
  if (command.common.json) {
    out << load::to_json(report, comparison ? &*comparison : nullptr) << '\n';
  } else {
    load::print_table(out, report);
    if (comparison) load::print_comparison(out, *comparison);
  }
  if (report.errors() > 0)
    return Error(ErrorCode::kDoesNotFit, std::to_string(report.errors()) + " requests failed");
  return {};
}

}  // namespace millrace::cli
