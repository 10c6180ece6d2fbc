// Runs `millrace verify --fidelity rtl` and `millrace serve --fidelity rtl` on a small net with generated
// SystemVerilog.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "kernels/program/parameters.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/rtl/build.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/rtl_folder.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_rtl_fidelity {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::uint64_t kInterval = 800;

class RtlFidelity : public testing::Test {
 protected:
  void SetUp() override {
    const auto tools = runtime::rtl::Toolchain::find();
    ASSERT_TRUE(tools.ok()) << tools.error().message();
  }
  /// Compiles a net with a skip connection for `cards` cards and returns the deployment's directory.
  fs::path deployed(std::uint32_t cards, bool with_rtl = true) const {
    const fs::path target = directory_.path() / ("on" + std::to_string(cards));
    if (with_rtl) {
      deploy_rtl(program_, emulated_ring(3), cards, target, kInterval, program_);
    } else {
      deploy(program_, emulated_ring(3), cards, target);
    }
    return target;
  }
  Outcome verify(const fs::path& deployment, const std::vector<std::string>& more,
                 const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> command = {millrace_binary(), "verify", deployment.string(), "--fidelity",
                                        "rtl"};
    command.insert(command.end(), more.begin(), more.end());
    std::vector<std::string> all = environment;  // the first variable of a name counts
    all.push_back("MILLRACE_CACHE=" + shared_simulation_cache().string());
    return run_program(command, all, 500s);
  }

  TemporaryDirectory directory_{"millrace-fidelity"};
  const kernels::Program program_ = skip_program(3, 2);
};

TEST_F(RtlFidelity, OutputsOfOneCardEqualTheReferenceAndTakeThePredictedCycles) {
  const Outcome outcome = verify(deployed(1), {"--json", "--frames", "8"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
  const json::value document = json::parse(outcome.out);
  EXPECT_EQ(document.at("fidelity"), "rtl");
  EXPECT_EQ(document.at("frames").to_number<int>(), 8);
  EXPECT_EQ(document.at("mismatches").to_number<int>(), 0);
  const json::value &measured = document.at("measured"), &predicted = document.at("predicted");
  const auto number = [](const json::value& from, const char* key) {
    return from.at(key).to_number<double>();
  };
  EXPECT_NEAR(number(measured, "initiation_interval_cycles"), number(predicted, "initiation_interval_cycles"),
              0.01 * number(predicted, "initiation_interval_cycles"));
  EXPECT_NEAR(number(measured, "latency_cycles"), number(predicted, "latency_cycles"),
              0.05 * number(predicted, "latency_cycles"));
  EXPECT_LE(number(measured, "first_output_cycles"), number(measured, "latency_cycles"));
  EXPECT_TRUE(document.at("fifos").at("sufficient").as_bool());
  EXPECT_TRUE(document.at("fifos").at("wasteful").as_array().empty()) << outcome.out;
  EXPECT_TRUE(document.at("standstill").is_null());
  const json::array& streams = document.at("partitions").at(0).at("streams").as_array();
  ASSERT_FALSE(streams.empty());
  for (const json::value& stream : streams)
    EXPECT_LE(stream.at("high_water").to_number<int>(), stream.at("depth").to_number<int>() + 1);
}

TEST_F(RtlFidelity, ANetOverThreeRegionsEqualsTheReferenceAndTakesThePredictedCycles) {
  const fs::path source = tests::source_dir(), out = directory_.path() / "regions";
  // The options let the plan use so small a part of each region that the net needs three regions.
  const Outcome compiled = run_program(
      {millrace_binary(), "compile", (source / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx").string(),
       "--cluster", (source / "configs/clusters/one-u280.yaml").string(), "--max-utilisation", "0.03",
       "--max-utilisation", "lut=0.012", "-o", out.string(), "--quiet"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const json::value design = json::parse(*read_text_file(out / "rtl/part0/design.json"));
  const std::string tcl = *read_text_file(out / "vitis/image0/regions.tcl");
  std::map<std::string, int> regions;
  for (const auto& instance : design.at("instances").as_array()) {
    ++regions[std::string(instance.at("region").as_string())];
    EXPECT_NE(tcl.find("    " + std::string(instance.at("name").as_string()) + "\n"), std::string::npos);
  }
  EXPECT_EQ(regions.size(), 3U);

  const Outcome outcome = verify(out, {"--json", "--frames", "4"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
  const json::value document = json::parse(outcome.out);
  EXPECT_EQ(document.at("mismatches").to_number<int>(), 0);
  for (const char* key : {"initiation_interval_cycles", "latency_cycles"})
    EXPECT_EQ(document.at("measured").at(key).to_number<double>(),
              document.at("predicted").at(key).to_number<double>())
        << key;
}

TEST_F(RtlFidelity, ReportsMultiplicationsPerDspSliceAndCycle) {
  const Outcome outcome = verify(deployed(1), {"--json", "--frames", "8"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
  const json::value partition = json::parse(outcome.out).at("partitions").at(0);
  const json::array& layers = partition.at("layers").as_array();
  ASSERT_FALSE(layers.empty()) << outcome.out;
  double work = 0, slices = 0;
  const double interval = partition.at("measured").at("initiation_interval_cycles").to_number<double>();
  for (const json::value& layer : layers) {
    const double macs = layer.at("multiply_accumulates").to_number<double>(),
                 dsp = layer.at("dsp").to_number<double>();
    ASSERT_GT(dsp, 0);
    const json::value& use = layer.at("macs_per_dsp_cycle");
    EXPECT_NEAR(use.at("interval").to_number<double>(), macs / dsp / interval, 1e-9);
    EXPECT_LE(use.at("interval").to_number<double>(), 1.01 * use.at("busy").to_number<double>());
    EXPECT_LE(use.at("busy").to_number<double>(), 2.0);
    EXPECT_EQ(layer.at("busy_cycles").to_number<double>(),
              layer.at("predicted_busy_cycles").to_number<double>());
    work += macs;
    slices += dsp;
  }
  EXPECT_NEAR(partition.at("macs_per_dsp_cycle").at("interval").to_number<double>(), work / slices / interval,
              1e-9);
}

void replace_once(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  ASSERT_EQ(text.find(from, at + 1), std::string::npos) << from;
  text.replace(at, from.size(), to);
}

/// Rewrites the file CHECKSUMS after the test has changed a file of the deployment.
void renew_checksums(const fs::path& deployment) {
  const std::string again =
      "cd '" + deployment.string() + "' && sha256sum $(cut -c67- CHECKSUMS) > new && mv new CHECKSUMS";
  ASSERT_EQ(std::system(again.c_str()), 0);
}

/// Replaces the matrix-vector module by a module that computes every pass twice and discards the first result. The
/// output bytes are the same. Only clock cycles that are counted in the simulation show that the multipliers are busy
/// for twice as long.
TEST_F(RtlFidelity, BusyCyclesAreMeasuredAndNotComputedFromTheFolding) {
  const fs::path deployment = directory_.path() / "twice", folder = deployment / "rtl" / "part0";
  const kernels::Program program = chain_program(2, 24);  // wide enough for several passes per input vector
  deploy_rtl(program, emulated_ring(3), 1, deployment, 4000, program);
  std::string unit = *read_text_file(folder / "library" / "mr_mvu.sv");
  replace_once(unit, "  assign nf_end = (nf == NF_LAST);\n",
               "  assign nf_end = (nf == NF_LAST);\n  logic second, pass_end;\n"
               "  assign pass_end = sf_end && (second || NF == 1);\n"
               "  always_ff @(posedge clk)\n    if (rst) second <= 1'b0;\n"
               "    else if (step && sf_end) second <= !second;\n");
  replace_once(unit, "if (sf_end) nf <= nf_end", "if (pass_end) nf <= nf_end");
  replace_once(unit, "      waddr <= (waddr == A_LAST) ? '0 : waddr + 1'b1;\n",
               "      waddr <= (sf_end && !pass_end) ? waddr - AW'(SF - 1)\n"
               "               : (waddr == A_LAST) ? '0 : waddr + 1'b1;\n");
  replace_once(unit, "assign give    = step && nf_end;", "assign give    = step && nf_end && second;");
  replace_once(unit, "assign again   = step && sf_end && !nf_end;",
               "assign again   = step && sf_end && !(nf_end && second);");
  replace_once(unit, "if (step && sf_end && nf_end) base <=", "if (step && pass_end && nf_end) base <=");
  replace_once(unit, "last  <= {last[LAT-1:1], sf_end};", "last  <= {last[LAT-1:1], pass_end};");
  std::ofstream(folder / "library" / "mr_mvu.sv") << unit;
  sign_rtl_folder(folder);
  renew_checksums(deployment);
  const Outcome outcome = verify(deployment, {"--json", "--frames", "4"});
  ASSERT_FALSE(outcome.out.empty()) << outcome.err;
  const json::value document = json::parse(outcome.out);
  EXPECT_EQ(document.at("mismatches").to_number<int>(), 0) << outcome.out;
  const json::value partition = document.at("partitions").at(0);
  std::size_t doubled = 0;
  for (const json::value& layer : partition.at("layers").as_array()) {
    const double busy = layer.at("busy_cycles").to_number<double>(),
                 predicted = layer.at("predicted_busy_cycles").to_number<double>(),
                 work = layer.at("multiply_accumulates").to_number<double>() /
                        layer.at("dsp").to_number<double>();
    EXPECT_TRUE(busy == predicted || busy == 2 * predicted) << layer;
    EXPECT_NEAR(layer.at("macs_per_dsp_cycle").at("busy").to_number<double>(), work / busy, 1e-9);
    doubled += busy == 2 * predicted ? 1 : 0;
  }
  EXPECT_GT(doubled, 0U) << outcome.out;
}

TEST_F(RtlFidelity, VerifyFailsIfAFrameTakesLongerThanPredicted) {
  const fs::path deployment = deployed(1), file = deployment / "rtl" / "part0" / "design.json";
  json::object design = json::parse(*read_text_file(file)).as_object();
  json::value& predicted = design["predicted"].as_object()["interval_cycles"];
  const auto interval = predicted.to_number<std::uint64_t>();
  ASSERT_EQ(verify(deployment, {"--frames", "8"}).exit_code, 0);
  predicted = interval * 9 / 10;
  std::ofstream(file) << json::serialize(design);
  renew_checksums(deployment);
  const Outcome outcome = verify(deployment, {"--frames", "8"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err << outcome.out;
  EXPECT_NE(outcome.err.find("the predicted interval is not reached"), std::string::npos) << outcome.err;
  EXPECT_EQ(verify(deployment, {"--frames", "8", "--stall", "0.3"}).exit_code, 0) << "stalls excuse it";
}

TEST_F(RtlFidelity, OutputsWithLoadedWeightsEqualTheReferenceAndNewWeightsNeedNoNewSimulation) {
  const auto loaded = [](kernels::Program program) {
    for (auto& block : program.blocks)
      if (kernels::has_parameters(block.operation)) block.placement = kernels::Placement::kLoaded;
    return program;
  };
  kernels::Program again = program_;
  for (auto& block : again.blocks)
    if (auto* layer = std::get_if<kernels::Convolution>(&block.operation))
      std::reverse(layer->weights.edit().begin(), layer->weights.edit().end());
  ASSERT_EQ(kernels::validate(again), "");
  const std::string cache = "MILLRACE_CACHE=" + (directory_.path() / "cache").string();
  std::vector<fs::path> deployments;
  for (const auto& program : {loaded(program_), loaded(again)}) {
    deployments.push_back(directory_.path() / ("version" + std::to_string(deployments.size())));
    deploy_rtl(program, emulated_ring(3), 2, deployments.back(), kInterval, program);
    for (const std::string stall : {"0", "0.3"}) {
      const Outcome outcome =
          verify(deployments.back(), {"--frames", "5", "--json", "--stall", stall}, {cache});
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
      EXPECT_EQ(json::parse(outcome.out).at("mismatches").to_number<int>(), 0);
    }
  }
  EXPECT_EQ(*read_text_file(deployments[0] / "images" / "image0.xclbin"),
            *read_text_file(deployments[1] / "images" / "image0.xclbin"));
  EXPECT_NE(*read_text_file(deployments[0] / "deployment.json"),
            *read_text_file(deployments[1] / "deployment.json"));
  const fs::path simulations = directory_.path() / "cache" / "simulation";
  EXPECT_EQ(std::distance(fs::directory_iterator(simulations), fs::directory_iterator()), 2)
      << "one a partition, whatever it is loaded with";
}

TEST_F(RtlFidelity, OutputsWithStreamedWeightsEqualTheReference) {
  kernels::Program program = chain_program(2, 24);  // the second layer has 5,184 weights, the first 216
  for (auto& block : program.blocks)
    if (kernels::has_parameters(block.operation)) block.placement = kernels::Placement::kStreamed;
  const fs::path deployment = directory_.path() / "streamed";
  deploy_rtl(program, emulated_ring(3), 1, deployment, 4000, program);
  const json::value design = json::parse(*read_text_file(deployment / "rtl" / "part0" / "design.json"));
  ASSERT_GE(design.at("streamed").at("bytes").to_number<int>(), 5184);
  for (const std::string stall : {"0", "0.3"}) {
    const Outcome outcome = verify(deployment, {"--frames", "5", "--json", "--stall", stall});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    EXPECT_EQ(json::parse(outcome.out).at("mismatches").to_number<int>(), 0);
  }
}

TEST_F(RtlFidelity, OneLayerWithStreamedWeightsEqualsTheReference) {
  const fs::path source = tests::source_dir(), out = directory_.path() / "mixed";
  // The options let the plan use so small a part of the card that all weights fit except those of the largest layer.
  const Outcome compiled = run_program(
      {millrace_binary(), "compile", (source / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx").string(),
       "--cluster", (source / "configs/clusters/one-ku060.yaml").string(), "--max-utilisation", "bram=0.02",
       "--max-utilisation", "lut=0.1", "-o", out.string(), "--quiet"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const json::value design = json::parse(*read_text_file(out / "rtl/part0/design.json"));
  std::map<std::string, int> modules;
  for (const auto& instance : design.at("instances").as_array())
    ++modules[std::string(instance.at("module").as_string())];
  EXPECT_EQ(modules["mr_weight_reader"], 1);
  EXPECT_EQ(modules["mr_mvu_streamed"], 1);
  EXPECT_EQ(modules["mr_mvu"], 4);
  for (const std::string stall : {"0", "0.3"}) {
    const Outcome outcome = verify(out, {"--frames", "4", "--json", "--stall", stall});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    const json::value document = json::parse(outcome.out);
    EXPECT_EQ(document.at("mismatches").to_number<int>(), 0);
    if (stall != "0") continue;
    const auto of = [&](const char* what, const char* key) {
      return document.at(what).at(key).to_number<double>();
    };
    EXPECT_NEAR(of("measured", "initiation_interval_cycles"), of("predicted", "initiation_interval_cycles"),
                0.01 * of("predicted", "initiation_interval_cycles"));
    EXPECT_NEAR(of("measured", "latency_cycles"), of("predicted", "latency_cycles"),
                0.05 * of("predicted", "latency_cycles"));
  }
}

TEST_F(RtlFidelity, OutputsOfThreeCardsEqualTheReferenceWithAndWithoutStalls) {
  const fs::path deployment = deployed(3);
  for (const std::string stall : {"0", "0.4"}) {
    const Outcome outcome = verify(deployment, {"--json", "--frames", "6", "--stall", stall, "--seed", "9"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    const json::value document = json::parse(outcome.out);
    EXPECT_EQ(document.at("mismatches").to_number<int>(), 0);
    EXPECT_EQ(document.at("cards").to_number<int>(), 3);
    EXPECT_EQ(document.at("seed").to_number<int>(), 9);
    EXPECT_EQ(document.at("partitions").as_array().size(), 3U);
    ASSERT_GE(document.at("links").as_array().size(), 2U);
    for (const json::value& link : document.at("links").as_array())
      EXPECT_GT(link.at("packets").to_number<int>(), 0);
    EXPECT_EQ(document.at("fifos").at("sufficient").is_null(), stall != "0");
  }
  const Outcome text = verify(deployment, {"--frames", "3", "--stall", "0.4", "--seed", "9"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.out.find("seed 9"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("initiation interval"), std::string::npos) << text.out;
}

/// Channels over UDP pass through the SystemVerilog of their links: packing, datagrams, CRCs, window and credit.
TEST_F(RtlFidelity, TheHardwareOfUdpLinksCarriesTheFramesOfThreeCardsWithAndWithoutStalls) {
  auto cluster = emulated_ring(3);
  for (auto& cable : cluster.cables) cable.protocol = runtime::plan::CableProtocol::kUdp;
  const fs::path deployment = directory_.path() / "udp";
  deploy_rtl(program_, cluster, 3, deployment, kInterval, program_);
  for (const std::string stall : {"0", "0.4"}) {
    const Outcome outcome = verify(deployment, {"--json", "--frames", "6", "--stall", stall, "--seed", "9"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    const json::value document = json::parse(outcome.out);
    EXPECT_EQ(document.at("mismatches").to_number<int>(), 0);
    EXPECT_GE(document.at("udp_links").as_array().size(), 2U) << outcome.out;
    EXPECT_TRUE(document.at("links").as_array().empty()) << "no link is only modelled: " << outcome.out;
  }
}

TEST_F(RtlFidelity, VerifyDetectsWrongHardwareAndNamesThePort) {
  const fs::path deployment = directory_.path() / "wrong";
  deploy_rtl(program_, emulated_ring(3), 1, deployment, kInterval, skip_program(3, 2, 77));
  const Outcome outcome = verify(deployment, {"--json", "--frames", "4"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err << outcome.out;
  const json::value document = json::parse(outcome.out);
  EXPECT_GT(document.at("mismatches").to_number<int>(), 0);
  EXPECT_TRUE(document.at("first_difference").at("output").as_string().starts_with("part0.out"))
      << outcome.out;
}

TEST_F(RtlFidelity, VerifyNamesMissingToolsAndAlteredFiles) {
  const Outcome without = verify(deployed(2, false), {});
  EXPECT_EQ(without.exit_code, 2) << without.err;
  EXPECT_NE(without.err.find("compile the model again"), std::string::npos) << without.err;

  const fs::path deployment = deployed(1);
  const Outcome tools = verify(deployment, {}, {"PATH=/nowhere"});
  EXPECT_EQ(tools.exit_code, 3) << tools.err;
  EXPECT_NE(tools.err.find("verilator is not installed"), std::string::npos) << tools.err;
  const Outcome cache = verify(deployment, {}, {"MILLRACE_CACHE=/proc/nothing"});
  EXPECT_EQ(cache.exit_code, 3) << cache.err;

  std::ofstream(deployment / "rtl" / "part0" / "part0_dataflow.sv", std::ios::app) << "// mine\n";
  const Outcome altered = verify(deployment, {});
  EXPECT_EQ(altered.exit_code, 2) << altered.err;
  EXPECT_NE(altered.err.find("altered"), std::string::npos) << altered.err;
}

TEST_F(RtlFidelity, KilledBuildLeavesNoCacheEntryAndTheNextBuildSucceeds) {
  const fs::path deployment = deployed(1), cache = directory_.path() / "cache",
                 tools = directory_.path() / "tools";
  ASSERT_EQ(verify(deployment, {"--frames", "3"}).exit_code, 0);  // caches Verilator's runtime
  fs::create_directories(cache);
  fs::permissions(cache, fs::perms::owner_all);
  fs::create_directory(cache / "locks");  // a folder with this subfolder counts as a cache
  fs::copy(shared_simulation_cache() / "verilator", cache / "verilator", fs::copy_options::recursive);
  fs::create_directory(tools);
  // A fake compiler that kills its parent process and continues to run. Several such compilers may run at
  // once, so each appends its process id to the file instead of truncating the file.
  std::ofstream(tools / "g++") << "#!/bin/sh\n[ \"$1\" = --version ] && exec /usr/bin/g++ --version\n"
                                  "echo $$ >> " +
                                      (tools / "pids").string() + "\nkill -9 $PPID\nexec sleep 600\n";
  fs::permissions(tools / "g++", fs::perms::owner_all);
  const std::string path = std::getenv("PATH");
  const Outcome killed =
      verify(deployment, {}, {"MILLRACE_CACHE=" + cache.string(), "PATH=" + tools.string() + ":" + path});
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << killed.err;
  EXPECT_FALSE(fs::exists(cache / "simulation") && !fs::is_empty(cache / "simulation"));
  std::ifstream pids(tools / "pids");
  const std::vector<pid_t> compilers{std::istream_iterator<pid_t>(pids), {}};
  ASSERT_FALSE(compilers.empty());
  for (const pid_t compiler : compilers) {
    EXPECT_TRUE(wait_until([&] { return !process_exists(compiler); }))
        << "a compiler outlived the program that started it";
  }
  const Outcome again = verify(deployment, {"--frames", "3"}, {"MILLRACE_CACHE=" + cache.string()});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(fs::is_empty(cache / "tmp"));
}

TEST_F(RtlFidelity, TheServerAnswersFromSimulatedCardsAsTheReferenceDoes) {
  const fs::path deployment = deployed(3);
  BackgroundProgram server({millrace_binary(), "serve", "--deployment", deployment.string(), "--http",
                            "127.0.0.1:0", "--fidelity", "rtl"},
                           {"MILLRACE_CACHE=" + shared_simulation_cache().string()});
  const auto address = server.wait_for_line("listening http ", 500s);
  ASSERT_TRUE(address.has_value()) << server.err();
  HttpConnection connection(static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1))));
  std::mt19937 random(5);
  for (int n = 0; n < 12; ++n) {
    std::string input;
    for (std::uint64_t i = 0; i < program_.tensors[program_.inputs[0]].elements(); ++i) {
      const float value = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 16.F;
      input.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    const auto bytes = std::as_bytes(std::span(input));
    const auto wanted = kernels::reference::run(program_, {{bytes.begin(), bytes.end()}}).front();
    const auto answer = connection.request("POST", "/v2/models/" + program_.name + "/infer", input,
                                           "Inference-Header-Content-Length: 0\r\n");
    ASSERT_TRUE(answer.has_value());
    ASSERT_EQ(answer->status, 200) << answer->body;
    EXPECT_TRUE(
        answer->body.ends_with(std::string_view(reinterpret_cast<const char*>(wanted.data()), wanted.size())))
        << "frame " << n;
    if (n == 5) {  // a killed card must be restarted as a simulation
      const auto cards = children_named(server.pid(), "millrace-card");
      ASSERT_EQ(cards.size(), 3U);
      ASSERT_EQ(::kill(cards[1], SIGKILL), 0);
      EXPECT_TRUE(wait_until([&] {
        const auto looked = connection.request("GET", "/v2/millrace/status");
        const json::value status = json::parse(looked.value().body);
        const json::value& model = status.at("models").at(0);
        int restarts = 0;
        for (const json::value& card : model.at("cards").as_array())
          restarts += card.at("restarts").to_number<int>();
        return restarts == 1 && model.at("ready").as_bool();
      }));
    }
  }
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

TEST_F(RtlFidelity, TheServerRefusesADeploymentItCannotSimulate) {
  const auto serve = [&](const fs::path& deployment, const std::vector<std::string>& environment) {
    std::vector<std::string> all = environment;  // the first variable of a name counts
    all.push_back("MILLRACE_CACHE=" + shared_simulation_cache().string());
    return run_program({millrace_binary(), "serve", "--deployment", deployment.string(), "--http",
                        "127.0.0.1:0", "--fidelity", "rtl"},
                       all);
  };
  const Outcome without = serve(deployed(2, false), {});
  EXPECT_EQ(without.exit_code, 2) << without.err;
  EXPECT_NE(without.err.find("compile the model again"), std::string::npos) << without.err;
  const Outcome tools = serve(deployed(1), {"PATH=/nowhere"});
  EXPECT_EQ(tools.exit_code, 3) << tools.err;
}

}  // namespace
}  // namespace millrace::tests::test_rtl_fidelity
