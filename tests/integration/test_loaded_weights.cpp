// Tests weights that are loaded at run time instead of being part of the FPGA images. Models of one topology
// share images, so the swap to a version with other weights programs no card.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <fstream>
#include <thread>

#include "kernels/program/parameters.hpp"
#include "runtime/base/digest.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/repository_host.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/lenet.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/rtl_folder.hpp"
#include "tests/support/tools.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_loaded_weights {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using namespace std::chrono_literals;

kernels::Program loaded(kernels::Program program) {
  for (auto& block : program.blocks)
    if (kernels::has_parameters(block.operation)) block.placement = kernels::Placement::kLoaded;
  return program;
}

class Clients {
 public:
  Clients(const RepositoryHost& host, int count) {
    for (int c = 0; c < count; ++c)
      threads_.emplace_back([this, &host, c](const std::stop_token& stop) {
        HttpConnection connection(host.port());
        for (std::uint32_t i = 0; !stop.stop_requested(); ++i) {
          const Answer answer =
              host.ask(connection, host.frame(static_cast<std::uint32_t>(c) * 100 + i % 10));
          ++all;
          failed += answer.status == 200 ? 0 : 1;
          wrong += answer.status == 200 && !answer.right ? 1 : 0;
          if (answer.status == 0) return;
        }
      });
  }
  void wait_for(int more) const {
    const int until = all + more;
    EXPECT_TRUE(wait_until([&] { return all >= until || failed > 0; }));
  }
  void end() {
    for (auto& thread : threads_) thread.request_stop();
    threads_.clear();
  }
  std::atomic<int> all{0}, failed{0}, wrong{0};

 private:
  std::vector<std::jthread> threads_;
};

TEST(LoadedWeights, NewVersionReplacesWeightsUnderLoadWithoutReprogramming) {
  RepositoryHost host;
  const auto base = chain_program(6);
  host.add("1", loaded(base));
  host.add("2", loaded(trained_again(base)));
  host.add("3", loaded(chain_program(6, 4, 99)));
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  ASSERT_EQ(host.metric("millrace_programmings_total"), 3);
  Clients clients(host, 3);
  clients.wait_for(20);
  for (int swap = 0; swap < 12; ++swap) {
    const std::string version = std::to_string((swap + 1) % 3 + 1);
    const auto answer = host.load(version, "drain");
    ASSERT_EQ(answer.status, 200) << answer.body;
    clients.wait_for(5);
  }
  clients.end();
  EXPECT_EQ(clients.failed, 0);
  EXPECT_EQ(clients.wrong, 0) << "an answer was wrong for the version it names";
  EXPECT_EQ(host.metric("millrace_programmings_total"), 3) << "only weights changed";
  EXPECT_EQ(host.metric("millrace_reloads_total", "outcome=\"success\""), 13);
}

TEST(LoadedWeights, RestartedCardReceivesTheCurrentWeightsAgain) {
  RepositoryHost host;
  const auto base = chain_program(6);
  host.add("1", loaded(base));
  host.add("2", loaded(trained_again(base)));
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  ASSERT_EQ(host.load("2").status, 200);
  const auto cards = host.cards();
  ASSERT_EQ(cards.size(), 3U);
  ASSERT_EQ(::kill(cards[1], SIGKILL), 0);
  HttpConnection connection(host.port());
  Answer answer;
  ASSERT_TRUE(wait_until([&] {
    answer = host.ask(connection, host.frame(7));
    return answer.status == 200 && host.cards() != cards;
  }));
  EXPECT_EQ(answer.version, "2");
  EXPECT_TRUE(answer.right);
}

TEST(LoadedWeights, ARollbackRestoresTheOldWeights) {
  RepositoryHost host;
  const auto base = chain_program(6);
  host.add("1", loaded(base));
  host.add("2", loaded(trained_again(base)));
  host.add_stored("2", base);  // version 2 does not compute these outputs
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  EXPECT_NE(host.load("2", "drain").status, 200);
  HttpConnection connection(host.port());
  const Answer answer = host.ask(connection, host.frame(1));
  EXPECT_EQ(answer.version, "1");
  EXPECT_TRUE(answer.right) << "the old version's weights are back";
  EXPECT_EQ(host.metric("millrace_programmings_total"), 3);
}

TEST(LoadedWeights, LoadingRefusesParametersOfAnotherImage) {
  const TemporaryDirectory directory("millrace-loaded");
  const auto cluster =
      runtime::plan::load_cluster(fs::path(tests::source_dir()) / "configs/clusters/three-ku060.yaml");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message();
  const auto loaded_ones = deploy(loaded(chain_program(6)), *cluster, 3, directory.path() / "loaded");
  const auto baked_ones = deploy(chain_program(6), *cluster, 3, directory.path() / "baked");
  ASSERT_TRUE(loaded_ones != nullptr && baked_ones != nullptr);
  // Writes the altered plan with correct digest and checksums, so that only the plan's content is wrong.
  const auto expect_refused = [](const fs::path& folder, runtime::plan::Deployment altered,
                                 const std::string& why) {
    altered.digest = runtime::plan::compute_digest(altered);
    ASSERT_TRUE(write_file_atomically(folder / "deployment.json", runtime::plan::to_json(altered)).ok());
    const std::string sum_up = "cd '" + folder.string() + "' && sha256sum deployment.json */*.xclbin " +
                               (fs::exists(folder / "weights") ? "weights/*" : "") + " > CHECKSUMS";
    ASSERT_EQ(std::system(sum_up.c_str()), 0);
    const auto refused = runtime::plan::load_deployment(folder);
    ASSERT_FALSE(refused.ok()) << why;
    EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt) << refused.error().message();
    EXPECT_NE(refused.error().message().find(why), std::string::npos) << refused.error().message();
  };
  std::vector<std::size_t> takers;
  for (std::size_t i = 0; i < loaded_ones->plan.partitions.size(); ++i)
    if (loaded_ones->plan.partitions[i].parameters) takers.push_back(i);
  ASSERT_EQ(takers.size(), 3U);
  const auto& partitions = loaded_ones->plan.partitions;

  auto altered = loaded_ones->plan;
  altered.partitions[takers[0]].parameters.reset();
  expect_refused(loaded_ones->directory, altered, "takes parameters, but the plan has none");

  const auto other = std::find_if(takers.begin(), takers.end(), [&](std::size_t i) {
    return partitions[i].program_digest != partitions[takers[0]].program_digest;
  });
  ASSERT_NE(other, takers.end());
  altered.partitions[takers[0]].parameters = partitions[*other].parameters;
  expect_refused(loaded_ones->directory, altered, "are for topology");

  altered = baked_ones->plan;
  for (auto& partition : altered.partitions)
    if (!partition.image.empty()) partition.parameters = partitions[takers[0]].parameters;
  expect_refused(baked_ones->directory, altered,
                 "takes no parameters, but the plan has parameters for this partition");
}

TEST(LoadedWeights, NewVersionReplacesWeightsOfSimulatedCardsWithoutReprogramming) {
  ASSERT_TRUE(installed({"verilator", "g++"}));
  RepositoryHost host;
  const auto base = chain_program(3);
  constexpr std::uint64_t kInterval = 800;
  host.add_rtl("1", loaded(base), kInterval);
  host.add_rtl("2", loaded(trained_again(base)), kInterval);
  host.start({"--fidelity", "rtl"}, {"MILLRACE_CACHE=" + shared_simulation_cache().string()});
  ASSERT_EQ(host.load("1").status, 200);
  ASSERT_EQ(host.metric("millrace_programmings_total"), 3);
  Clients clients(host, 2);
  clients.wait_for(4);
  for (const char* version : {"2", "1", "2"}) {
    const auto answer = host.load(version, "drain");
    ASSERT_EQ(answer.status, 200) << answer.body;
    clients.wait_for(4);
  }
  clients.end();
  EXPECT_EQ(clients.failed, 0);
  EXPECT_EQ(clients.wrong, 0);
  EXPECT_EQ(host.metric("millrace_programmings_total"), 3) << "only weights changed";
}

/// LeNet-5 compiled for three cards, and a version of it with other weights, as if it had been trained again.
class LoadedLenet : public ::testing::Test {
 protected:
  Outcome compile(const fs::path& model, const fs::path& out, std::vector<std::string> more = {}) {
    std::vector<std::string> command{millrace_binary(),
                                     "compile",
                                     model.string(),
                                     "--name",
                                     "lenet",
                                     "--cluster",
                                     (kSource / "configs/clusters/three-ku060.yaml").string(),
                                     "--partitions",
                                     "3",
                                     "-o",
                                     out.string()};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  }
  Outcome run(const char* what, const fs::path& deployment, std::vector<std::string> more = {}) {
    std::vector<std::string> command{millrace_binary(), what, deployment.string()};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  }
  fs::path trained_again() {
    const std::string bytes = lenet_trained_again();
    EXPECT_FALSE(bytes.empty()) << kModel << " holds something else";
    const fs::path made = directory_.path() / "again.onnx";
    std::ofstream(made, std::ios::binary) << bytes;
    return made;
  }
  static std::string digest(const fs::path& file) { return sha256_hex(read_file(file, 1U << 30U).value()); }
  static void sign(const fs::path& deployment) {
    std::vector<std::string> lines;
    for (const auto& entry : fs::recursive_directory_iterator(deployment)) {
      const fs::path path = entry.path().lexically_relative(deployment);
      if (entry.is_regular_file() && path != "CHECKSUMS")
        lines.push_back(digest(entry.path()) + "  " + path.string());
    }
    std::ofstream out(deployment / "CHECKSUMS");
    std::sort(lines.begin(), lines.end(),
              [](const auto& a, const auto& b) { return a.substr(66) < b.substr(66); });
    for (const auto& line : lines) out << line << '\n';
  }
  void expect_refused(const fs::path& deployment, const std::string& why) {
    for (const char* command : {"inspect", "verify"}) {
      const Outcome outcome = run(command, deployment);
      EXPECT_EQ(outcome.exit_code, 2) << command << ": " << outcome.err;
      EXPECT_NE(outcome.err.find(why), std::string::npos) << command << ": " << outcome.err;
    }
  }
  /// Returns the parameter file of the partition number `index`, counted among the partitions that have such a file.
  static fs::path weights_of(const fs::path& deployment, std::size_t index) {
    std::ifstream in(deployment / "deployment.json");
    const auto root = json::parse(std::string((std::istreambuf_iterator<char>(in)), {}));
    for (const auto& partition : root.at("partitions").as_array())
      if (partition.as_object().contains("parameters") && index-- == 0)
        return deployment / std::string(partition.at("parameters").at("file").as_string());
    return {};
  }

  const fs::path kSource = tests::source_dir();
  const fs::path kModel = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  TemporaryDirectory directory_{"millrace-loaded"};
  fs::path first_ = directory_.path() / "first", second_ = directory_.path() / "second";
};

TEST_F(LoadedLenet, ModelsThatDifferOnlyInWeightsHaveIdenticalImages) {
  const Outcome one = compile(kModel, first_, {"--weights", "loaded"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const Outcome two = compile(trained_again(), second_, {"--weights", "loaded"});
  ASSERT_EQ(two.exit_code, 0) << two.err;
  for (const char* image : {"image0", "image1", "image2"}) {
    const fs::path file = fs::path("images") / (std::string(image) + ".xclbin");
    EXPECT_EQ(digest(first_ / file), digest(second_ / file)) << image;
  }
  EXPECT_NE(weights_of(first_, 0).filename(), weights_of(second_, 0).filename()) << "its weights changed";
  EXPECT_EQ(weights_of(first_, 2).filename(), weights_of(second_, 2).filename());
  const Outcome shown = run("inspect", first_);
  EXPECT_NE(shown.out.find("parameters, given to the cards"), std::string::npos) << shown.out;
  for (const auto& deployment : {first_, second_}) {
    const Outcome verified = run("verify", deployment);
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }
}

TEST_F(LoadedLenet, DamagedParametersAreRefusedAndTheErrorNamesTheFile) {
  ASSERT_EQ(compile(kModel, first_, {"--weights", "loaded"}).exit_code, 0);
  ASSERT_EQ(compile(trained_again(), second_, {"--weights", "loaded"}).exit_code, 0);
  const fs::path copy = directory_.path() / "copy";
  const auto fresh = [&] {
    fs::remove_all(copy);
    fs::copy(first_, copy, fs::copy_options::recursive);
    return weights_of(copy, 0);
  };
  fs::path file = fresh();
  const std::string name = file.lexically_relative(copy).string();
  fs::resize_file(file, fs::file_size(file) - 64);
  expect_refused(copy, name + ": truncated or altered");
  sign(copy);
  expect_refused(copy, name + ": not the file the plan was made with");
  file = fresh();
  fs::remove(file);
  expect_refused(copy, name + ": listed in CHECKSUMS, but missing");
  sign(copy);
  expect_refused(copy, "CHECKSUMS does not list " + name);
  file = fresh();
  fs::copy_file(weights_of(second_, 0), file, fs::copy_options::overwrite_existing);
  expect_refused(copy, name + ": truncated or altered");
  sign(copy);
  expect_refused(copy, name + ": not the file the plan was made with");
  fresh();
  EXPECT_EQ(run("inspect", copy).exit_code, 0) << "the copy itself is good";
}

TEST_F(LoadedLenet, CompileRefusesAnUnknownWeightLocation) {
  const Outcome outcome = compile(kModel, first_, {"--weights", "engraved"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("--weights"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(first_));
}

}  // namespace
}  // namespace millrace::tests::test_loaded_weights
