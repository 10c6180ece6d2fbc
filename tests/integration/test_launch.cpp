// Tests `millrace launch`: the command line for mpirun, the batch script for Slurm, and the manifests for Kubernetes.
// The manifests are checked against schemas, and never applied.

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/private_slurm.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tools.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_launch {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string in_source(const std::string& path) {
  return (source_dir() / fs::path(path)).string();
}

class LaunchCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryDirectory("millrace-launch");
    const Outcome outcome =
        run_program({millrace_binary(), "compile",
                     in_source("tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx"), "--cluster", kHosts,
                     "--replicas", "3", "--partitions", "1", "--name", "LeNet_5", "-o", deployment()});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static std::string deployment() { return (folder_->path() / "d").string(); }

  static Outcome launch(const std::vector<std::string>& arguments) {
    std::vector<std::string> command{millrace_binary(), "launch", deployment()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_program(command);
  }
  static std::string printed(const std::vector<std::string>& arguments) {
    const Outcome outcome = launch(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }

  /// Returns the manifests as JSON, after a check against the schemas.
  static json::array manifests(const std::vector<std::string>& arguments) {
    const fs::path file = folder_->path() / "manifests.yaml";
    std::ofstream(file) << printed(arguments);
    const Outcome checked = run_program({"node", in_source("tests/node/manifests.mjs"), file.string()});
    EXPECT_EQ(checked.exit_code, 0) << checked.err << read_text_file(file).value();
    return checked.exit_code == 0 ? json::parse(checked.out).as_array() : json::array();
  }

  static inline const std::string kHosts = in_source("configs/clusters/three-hosts-ku060.yaml");
  static inline const std::string kOneHost = in_source("configs/clusters/three-ku060.yaml");
  static inline TemporaryDirectory* folder_ = nullptr;
};

TEST_F(LaunchCommand, PrintsAnMpirunCommandWithOneRankOnEachHost) {
  EXPECT_EQ(printed({"--print", "mpirun", "--cluster", kHosts}),
            "mpirun --bind-to none --mca mpi_yield_when_idle 1 --mca odls_base_sigkill_timeout 10 "
            "--host host0,host1,host2 -n 3 millrace serve --cluster " +
                kHosts + " --deployment " + deployment() + " --http 0.0.0.0:8000\n");
}

TEST_F(LaunchCommand, PrintsAServeCommandForAClusterOfOneHost) {
  EXPECT_EQ(
      printed({"--print", "mpirun", "--cluster", kOneHost, "--http", "127.0.0.1:9000"}),
      "millrace serve --cluster " + kOneHost + " --deployment " + deployment() + " --http 127.0.0.1:9000\n");
}

TEST_F(LaunchCommand, PrintsABatchScriptThatBashAccepts) {
  const std::string script = printed({"--print", "slurm", "--cluster", kHosts, "--time", "24:00:00"});
  EXPECT_EQ(script,
            "#!/bin/bash\n"
            "#SBATCH --job-name=millrace-lenet-5\n"
            "#SBATCH --nodes=3\n"
            "#SBATCH --ntasks=3\n"
            "#SBATCH --ntasks-per-node=1\n"
            "#SBATCH --nodelist=host0,host1,host2\n"
            "#SBATCH --time=24:00:00\n"
            "#SBATCH --output=%x-%j.log\n"
            "\n"
            "exec srun --kill-on-bad-exit=1 --cpu-bind=none --mpi=pmix millrace serve --cluster " +
                kHosts + " --deployment " + deployment() + " --http 0.0.0.0:8000\n");
  const fs::path file = folder_->path() / "job.sh";
  std::ofstream(file) << script;
  EXPECT_EQ(run_program({"bash", "-n", file.string()}).exit_code, 0);
}

TEST_F(LaunchCommand, SlurmRunsTheBatchScript) {
  if (!PrivateSlurm::is_possible())
    GTEST_SKIP() << "Slurm is not installed ('tools/setup test' installs it), or this user may not start it";
  PrivateSlurm slurm;
  ASSERT_TRUE(slurm.wait_until_idle()) << slurm.log();
  const std::uint16_t port = free_port();
  const fs::path script = folder_->path() / "job.sh", bin = fs::path(millrace_binary()).parent_path();
  std::ofstream(script) << printed(
      {"--print", "slurm", "--cluster", kOneHost, "--http", "127.0.0.1:" + std::to_string(port)});
  auto environment = slurm.environment();
  environment.push_back("PATH=" + bin.string() + ":/usr/bin:/bin");
  const Outcome submitted = run_program(
      {"sbatch", "--parsable", "--chdir", folder_->path().string(), script.string()}, environment);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string job = submitted.out.substr(0, submitted.out.find_first_of(";\n"));
  const auto ready = [&] {
    HttpConnection connection("127.0.0.1:" + std::to_string(port));
    if (!connection.connected()) return false;
    const auto answer = connection.request("GET", "/v2/models/LeNet_5/ready");
    return answer && answer->status == 200;
  };
  const auto log = [&] {
    const auto text = read_text_file(folder_->path() / ("millrace-lenet-5-" + job + ".log"));
    return text.ok() ? *text : slurm.log();
  };
  EXPECT_TRUE(wait_until(ready)) << log();
  EXPECT_EQ(run_program({"scancel", job}, environment).exit_code, 0);
  EXPECT_TRUE(wait_until([&] {
    return run_program({"squeue", "-h", "-j", job}, environment).out.find(job) == std::string::npos;
  })) << log();
  EXPECT_NE(log().find("stopped"), std::string::npos) << "the server stops in order: " << log();
}

TEST_F(LaunchCommand, PrintsAnMpiJobWithTheFieldsOfTheKubernetesMpiOperator) {
  ASSERT_TRUE(node_package_installed("kubernetes-models"));
  const json::array objects =
      manifests({"--print", "kubernetes", "--cluster", kHosts, "--container", "registry.example/millrace:1",
                 "--card-resource", "example.com/fpga"});
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0].at("kind"), "MPIJob");
  const json::value& replicas = objects[0].at("spec").at("mpiReplicaSpecs");
  EXPECT_EQ(replicas.at("Worker").at("replicas"), 3);
  const json::value& worker = replicas.at("Worker").at("template").at("spec").at("containers").at(0);
  EXPECT_EQ(worker.at("resources").at("limits").at("example.com/fpga"), 1);
  const std::string command =
      json::serialize(replicas.at("Launcher").at("template").at("spec").at("containers").at(0).at("command"));
  for (const char* host : {"host0", "host1", "host2"})
    EXPECT_NE(command.find("\"--host-name\",\"" + std::string(host) + "\""), std::string::npos) << command;
  EXPECT_EQ(objects[1].at("kind"), "Service");
  EXPECT_EQ(objects[1].at("spec").at("ports").at(0).at("port"), 8000);
}

TEST_F(LaunchCommand, PrintsKubernetesReplicasBehindAServiceForAClusterOfOneHost) {
  ASSERT_TRUE(node_package_installed("kubernetes-models"));
  const json::array objects = manifests({"--print", "kubernetes", "--cluster", kOneHost, "--container",
                                         "millrace", "--replicas", "4", "--http", "0.0.0.0:9000"});
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0].at("kind"), "Deployment");
  EXPECT_EQ(objects[0].at("spec").at("replicas"), 4);
  const json::value& pod = objects[0].at("spec").at("template");
  EXPECT_EQ(objects[1].at("spec").at("selector"), pod.at("metadata").at("labels"));
  const json::value& container = pod.at("spec").at("containers").at(0);
  EXPECT_EQ(container.at("readinessProbe").at("httpGet").at("port"), 9000);
  EXPECT_EQ(container.at("ports").at(0).at("containerPort"), 9000);
}

TEST_F(LaunchCommand, QuotesPathsWithBlanksQuotesAndDollarSigns) {
  const fs::path odd = folder_->path() / "it's $(HOME) $$5 \"a\" & b";
  fs::copy(deployment(), odd, fs::copy_options::recursive);
  const auto printed_for = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> command{millrace_binary(), "launch", odd.string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  // If a shell runs the printed command, the program must get the path unchanged.
  const fs::path bin = folder_->path() / "bin";
  fs::create_directory(bin);
  for (const char* const name : {"mpirun", "srun"}) {
    std::ofstream(bin / name) << "#!/bin/sh\nfor word; do echo \"[$word]\"; done\n";
    fs::permissions(bin / name, fs::perms::owner_all);
  }
  for (const char* const form : {"mpirun", "slurm"}) {
    const fs::path script = folder_->path() / "odd.sh";
    std::ofstream(script) << printed_for({"--print", form, "--cluster", kHosts});
    const Outcome ran = run_program({"bash", script.string()}, {"PATH=" + bin.string() + ":/usr/bin:/bin"});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_NE(ran.out.find("[" + odd.string() + "]\n"), std::string::npos) << ran.out;
  }
  // Kubernetes would replace $(HOME) by a variable and $$ by $; it passes on $$(HOME) as $(HOME) and $$$$ as $$.
  const std::string manifest =
      printed_for({"--print", "kubernetes", "--cluster", kOneHost, "--container", "millrace"});
  EXPECT_NE(manifest.find("it's $$(HOME) $$$$5 \\\"a\\\" & b"), std::string::npos) << manifest;
}

TEST_F(LaunchCommand, JobNamesAreShortLowerCaseAndDistinct) {
  const auto name_for = [&](const std::string& model) {
    const std::string to = (folder_->path() / "named").string();
    fs::remove_all(to);
    const Outcome made = run_program({millrace_binary(), "compile",
                                      in_source("tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx"),
                                      "--cluster", kOneHost, "--partitions", "1", "--name", model, "-o", to});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    const Outcome outcome = run_program({millrace_binary(), "launch", to, "--print", "slurm"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string key = "--job-name=";
    const auto at = outcome.out.find(key);
    return outcome.out.substr(at + key.size(), outcome.out.find('\n', at) - at - key.size());
  };
  const std::string stem(60, 'A');
  const std::string one = name_for(stem + ".1"), two = name_for(stem + ".2");
  EXPECT_NE(one, two);
  for (const auto& name : {one, two}) {
    EXPECT_LE(name.size(), 40U) << name;  // Kubernetes allows 63, and appends to names of pods
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos) << name;
  }
}

TEST_F(LaunchCommand, RefusesArgumentsWithWhichNoServerCanStart) {
  const auto refused = [](const std::vector<std::string>& arguments, int exit_code, const std::string& part) {
    const Outcome outcome = launch(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  refused({"--print", "kubernetes", "--cluster", kHosts}, 2, "needs --container IMAGE");
  refused({"--print", "mpirun", "--http", "0.0.0.0:0"}, 2, "clients need to know the port");
  refused({"--print", "mpirun", "--cluster", in_source("configs/clusters/two-ku060.yaml")}, 1,
          "has 2 cards, and the deployment needs 3");
  refused({"--print", "docker"}, 2, "--print");
}

}  // namespace
}  // namespace millrace::tests::test_launch
