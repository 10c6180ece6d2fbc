#include "tests/integration/operators_day.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "runtime/base/npy.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/lenet.hpp"

namespace millrace::tests {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

namespace {

const fs::path kVectors = fs::path(tests::source_dir()) / "tests/vectors/lenet5_mnist";
constexpr std::size_t kScoreBytes = 40;

}  // namespace

Site::Site() {
  for (const char* version : {"1", "2"}) {
    fs::create_directories(source(version));
    for (const char* file : {"millrace.yaml", "seven.png"})
      fs::copy_file(kVectors / file, source(version) / file);
  }
  fs::copy_file(kVectors / "lenet5_qdq_s8_pow2.onnx", source("1") / "model.onnx");
  std::ofstream(source("2") / "model.onnx", std::ios::binary) << lenet_trained_again();
  for (const char* version : {"1", "2"}) {
    fs::create_directories(deployment(version).parent_path());
    const Outcome compiled = run(compile(version, deployment(version)));
    if (compiled.exit_code != 0) throw std::runtime_error(compiled.err);
  }
}

Words Site::compile(const std::string& version, const fs::path& to) const {
  return {"compile",      source(version) / "model.onnx",
          "--name",       "lenet5",
          "--cluster",    cluster(),
          "--partitions", "1",
          "--quiet",      "-o",
          to.string()};
}

Words Site::command(Words words) const {
  words.insert(words.begin(), prefix_.program());
  return prefix_.from_elsewhere(words);
}

const Site& site() {
  static const Site made;
  return made;
}

InstalledServer::InstalledServer() {
  fs::create_directories(model());
  service_.set("# cluster: clusters/three-ku060.yaml", "cluster: " + site().cluster());
  service_.set("# root: /var/lib/millrace/models", "root: " + (directory_.path() / "models").string());
}

void InstalledServer::set_mode(const std::string& mode) {
  service_.set("mode: none", "mode: " + mode);
  if (mode == "explicit") service_.set("# load: [\"*\"]", "load: [\"*\"]");
  if (mode == "poll") service_.set("# poll_ms: 15000", "poll_ms: 100");
}

void InstalledServer::copy_version(const std::string& version) const {
  fs::copy(site().deployment(version), model() / "copying", fs::copy_options::recursive);
  fs::rename(model() / "copying", model() / version);
}

void InstalledServer::cut_short(const std::string& version) const {
  for (const auto& image : fs::directory_iterator(model() / version / "images"))
    fs::resize_file(image, fs::file_size(image) / 2);
}

Outcome InstalledServer::reload_model(Words more) const {
  more.insert(more.begin(), {"reload", "--url", service_.url(), "--model", "lenet5"});
  return site().run(more);
}

void InstalledServer::restart() {
  ASSERT_EQ(service_.stop(), 0) << service_.log();
  EXPECT_TRUE(service_.logged("info", "stopped"));
  service_.start();
}

void InstalledServer::expect_served(const std::string& version) const {
  EXPECT_EQ(service_.metric("millrace_model_ready", "version=\"" + version + "\""), 1) << service_.log();
  EXPECT_EQ(service_.metric("millrace_model_ready"), 1) << "and no other version";
  EXPECT_EQ(service_.metric("millrace_ready"), 1);
  EXPECT_EQ(service_.metric("millrace_model_wanted", "model=\"lenet5\""), 1);
  EXPECT_EQ(service_.metric("millrace_repository_models_unavailable"), 0);
  const fs::path scores = directory_.path() / "scores.npy";
  const Outcome asked = site().run({"infer", "--url", service_.url(), "--model", "lenet5", "--input",
                                    site().picture(), "--output", scores});
  ASSERT_EQ(asked.exit_code, 0) << asked.err;
  EXPECT_NE(asked.out.find("seven.png[0]: 7 ("), std::string::npos) << asked.out;
  const auto answer = read_npy(scores), golden = read_npy(kVectors / "golden_f32.npy");
  ASSERT_TRUE(answer.ok() && golden.ok());
  ASSERT_EQ(answer->data.size(), kScoreBytes);
  const bool first = std::equal(answer->data.begin(), answer->data.end(), golden->data.begin());
  EXPECT_EQ(first, version == "1") << "ONNX Runtime computed the scores of version 1";
}

}  // namespace millrace::tests
