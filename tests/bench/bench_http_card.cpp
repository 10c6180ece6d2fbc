// Measures how much time a card adds to an HTTP request: an identity model on one emulated card is compared with a
// pipeline that does nothing ("null"). One client measures both alternately with the same bytes. The card's own time is
// measured with the same frames without HTTP. Prints JSON.
//
//   bench_http_card [--seconds S] [--rounds N]
//
// Exit code 1 if the median of (identity - null) - (the card's own time) over the rounds is more than 10 us from zero.
#include <algorithm>
#include <cmath>
#include <thread>

#include "runtime/base/file.hpp"
#include "runtime/emulator/backend.hpp"
#include "tests/bench/http_bench.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"

namespace {

using namespace millrace;
using namespace millrace::bench;

constexpr double kGoalUs = 10;

/// Returns a program that copies 28 x 28 x 4 bytes, the size of a picture of 28 x 28 in float32.
kernels::Program identity() {
  using namespace kernels;
  Program program;
  program.name = "identity";
  for (const char* name : {"in", "out"}) {
    Tensor tensor;
    tensor.name = name;
    tensor.type = {ElementType::Kind::kUnsigned, 8};
    tensor.shape = {28, 28, 4};
    tensor.scale = {1.0F};
    program.tensors.push_back(tensor);
  }
  Lookup lookup;
  for (int i = 0; i < 256; ++i) lookup.table.push_back(static_cast<std::int16_t>(i));
  Block block;
  block.name = "identity";
  block.nodes = {"identity"};
  block.inputs = {0};
  block.outputs = {1};
  block.operation = lookup;
  program.blocks = {block};
  program.inputs = {0};
  program.outputs = {1};
  return program;
}

/// Returns the median time of a frame in microseconds when frames go to the pipeline one after another, without HTTP.
double direct_us(pipeline::Pipeline& pipeline, double seconds) {
  const auto& model = pipeline.deployment().model;
  std::vector<std::byte> in(model.inputs[0].bytes(), std::byte{7}), out(model.outputs[0].bytes());
  std::vector<double> times;
  const auto end = pipeline::Clock::now() + std::chrono::duration<double>(seconds);
  for (auto begin = pipeline::Clock::now(); begin < end;) {
    pipeline::Frame frame;
    frame.inputs = {in};
    frame.outputs = {out};
    if (const Status done = pipeline.infer(frame); !done.ok()) fail(done.error().message());
    const auto now = pipeline::Clock::now();
    times.push_back(std::chrono::duration<double, std::micro>(now - begin).count());
    begin = now;
  }
  if (in != out) fail("the identity is none");
  return median_of(times);
}

struct Options {
  double seconds = 1;
  int rounds = 5;
};

/// Measures and prints the times with the server on `server_cpu`. Returns by how much (identity - null) differs from
/// the card's own time, in us.
double report(const char* placement, int server_cpu, const Options& options, bool first) {
  pin(server_cpu);  // the cards' processes and the server's threads inherit the CPU
  const TemporaryDirectory directory("millrace-bench");
  const auto cluster = tests::emulated_ring(1);
  auto opened =
      pipeline::Pipeline::open(tests::deploy(identity(), cluster, 1, directory.path() / "d"), cluster, {});
  if (!opened.ok()) fail(opened.error().message());
  const std::shared_ptr<pipeline::Pipeline> card = std::move(opened).value();
  const auto null =
      std::make_shared<NullPipeline>(static_cast<std::uint32_t>(card->deployment().model.inputs[0].bytes()));
  const Millrace with_card(card), without(null);
  const std::string to_card = request_for(with_card.address(), card->deployment().model),
                    to_null = request_for(without.address(), null->deployment().model);
  Samples a, b;
  std::vector<double> direct, off;
  for (int round = 0; round < options.rounds; ++round) {
    pin(0);
    a.push_back(measure(with_card, to_card, 1, options.seconds));
    b.push_back(measure(without, to_null, 1, options.seconds));
    pin(server_cpu);
    direct.push_back(direct_us(*card, options.seconds));
    off.push_back(a.back().p50 - b.back().p50 - direct.back());
  }
  const double median_off = median_of(off);
  std::printf(
      "%s  {\"placement\": \"%s\", \"identity_p50_us\": %.2f, \"null_p50_us\": %.2f, \"card_p50_us\": %.2f, "
      "\"off_us\": %.2f}",
      first ? "" : ",\n", placement, median(a, &Sample::p50), median(b, &Sample::p50), median_of(direct),
      median_off);
  std::fflush(stdout);
  return std::abs(median_off);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc || (option != "--seconds" && option != "--rounds"))
      fail("usage: bench_http_card [--seconds S] [--rounds N]");
    if (option == "--seconds") options.seconds = std::max(0.01, std::atof(argv[i + 1]));
    if (option == "--rounds") options.rounds = std::max(1, std::atoi(argv[i + 1]));
  }
  log::configure(log::Level::kWarning, false);
  if (const Status selected = runtime::emulator::select_backend(tests::emulated_ring(1)); !selected.ok())
    fail(selected.error().message());
  std::printf("{\"benchmark\": \"http_card\", \"rounds\": %d, \"seconds\": %g, \"results\": [\n",
              options.rounds, options.seconds);
  double worst = report("same-core", 0, options, true);
  if (std::thread::hardware_concurrency() > 1)
    worst = std::max(worst, report("cross-core", 1, options, false));
  std::printf("\n], \"goal\": {\"off_us\": %g, \"met\": %s}}\n", kGoalUs,
              worst <= kGoalUs ? "true" : "false");
  return worst <= kGoalUs ? 0 : 1;
}
