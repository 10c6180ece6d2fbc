#include "tests/integration/repository_host.hpp"

#include <boost/json.hpp>
#include <chrono>
#include <random>
#include <stdexcept>

#include "kernels/reference/reference.hpp"
#include "runtime/base/npy.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/metrics_page.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {

namespace fs = std::filesystem;
namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kRaw = "Inference-Header-Content-Length: 0\r\n";

std::string cluster_text(std::uint32_t cards) {
  std::string text = "schema: 1\nemulated: true\ncards:\n";
  for (std::uint32_t i = 0; i < cards; ++i)
    text += "  - {name: fpga" + std::to_string(i) + ", device: ku060}\n";
  text += "cables:\n";
  for (std::uint32_t i = 0; i + 1 < cards; ++i)
    text += "  - {a: {card: fpga" + std::to_string(i) + ", connector: 1}, b: {card: fpga" +
            std::to_string(i + 1) + ", connector: 0}, gigabits_per_second: 10}\n";
  return text;
}

std::string reference(const kernels::Program& program, const std::string& input) {
  const auto bytes = std::as_bytes(std::span(input));
  const auto out = kernels::reference::run(program, {{bytes.begin(), bytes.end()}}).front();
  return std::string(reinterpret_cast<const char*>(out.data()), out.size());
}

NpyArray frames_of(const kernels::Tensor& tensor, std::uint64_t frames) {
  NpyArray array{"<f4", {frames}, {}};
  array.shape.insert(array.shape.end(), tensor.shape.begin(), tensor.shape.end());
  return array;
}

void append(NpyArray& array, const std::string& bytes) {
  const auto view = std::as_bytes(std::span(bytes));
  array.data.insert(array.data.end(), view.begin(), view.end());
}

}  // namespace

RepositoryHost::RepositoryHost(std::uint32_t cards) : root_(directory_.path() / "models") {
  fs::create_directories(root_);
  fs::create_directories(directory_.path() / "clusters");
  fs::create_directory_symlink(fs::path(tests::source_dir()) / "configs" / "devices",
                               directory_.path() / "devices");
  cluster_file_ = (directory_.path() / "clusters" / "cards.yaml").string();
  if (!write_file_atomically(cluster_file_, cluster_text(cards)).ok())
    throw std::runtime_error("cannot write the cluster file");
  auto cluster = runtime::plan::load_cluster(cluster_file_);
  if (!cluster.ok()) throw std::runtime_error(cluster.error().message());
  cluster_ = *cluster;
}

void RepositoryHost::add(const std::string& version, const kernels::Program& program,
                         const std::string& description, const std::string& model) {
  if (model == "m") programs_[version] = program;
  fs::create_directories(root_ / model);
  deploy(program, cluster_, 3, root_ / model / version, description);
}

void RepositoryHost::add_rtl(const std::string& version, const kernels::Program& program,
                             std::uint64_t interval_cycles) {
  programs_[version] = program;
  fs::create_directories(root_ / "m");
  deploy_rtl(program, cluster_, 3, root_ / "m" / version, interval_cycles, program);
}

void RepositoryHost::add_stored(const std::string& version, const kernels::Program& program) {
  constexpr std::uint32_t kFrames = 3;
  const fs::path folder = root_ / "m" / version / "verify";
  fs::create_directories(folder);
  NpyArray in = frames_of(program.tensors[program.inputs[0]], kFrames);
  NpyArray out = frames_of(program.tensors[program.outputs[0]], kFrames);
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    const std::string input = frame(100 + i);
    append(in, input);
    append(out, reference(program, input));
  }
  if (!write_npy(folder / "in0.npy", in).ok() || !write_npy(folder / "out0.npy", out).ok())
    throw std::runtime_error("cannot write stored frames");
}

void RepositoryHost::start(std::vector<std::string> more, std::vector<std::string> environment) {
  std::vector<std::string> command = {millrace_binary(), "serve",       "--repository", root_.string(),
                                      "--cluster",       cluster_file_, "--http",       "127.0.0.1:0"};
  if (std::find(more.begin(), more.end(), "--repository-mode") == more.end())
    command.insert(command.end(), {"--repository-mode", "explicit"});
  command.insert(command.end(), more.begin(), more.end());
  environment.push_back("MILLRACE_CACHE=" + (directory_.path() / "cache").string());
  server_.emplace(command, environment);
  const auto address = server_->wait_for_line("listening http ", 120s);
  if (!address) throw std::runtime_error("the server did not come up: " + server_->err());
  port_ = static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1)));
}

std::string RepositoryHost::frame(std::uint32_t seed) const {
  const kernels::Program& program = programs_.begin()->second;
  std::mt19937 random(seed);
  std::string bytes;
  for (std::uint64_t i = 0; i < program.tensors[program.inputs[0]].elements(); ++i) {
    const float value = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 16.F;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

Answer RepositoryHost::ask(HttpConnection& connection, const std::string& input,
                           const std::string& target) const {
  const auto answer = connection.request("POST", target.empty() ? "/v2/models/m/infer" : target, input, kRaw);
  Answer out;
  if (!answer) return out;
  out.status = answer->status;
  if (out.status != 200) return out;
  const std::string key = "\"model_version\":\"";
  if (const auto at = answer->body.find(key); at != std::string::npos)
    out.version =
        answer->body.substr(at + key.size(), answer->body.find('"', at + key.size()) - at - key.size());
  if (const auto program = programs_.find(out.version); program != programs_.end())
    out.right = answer->body.ends_with(reference(program->second, input));
  return out;
}

HttpResponse RepositoryHost::post(const std::string& target, const std::string& body) const {
  HttpConnection connection(port_, 500s);  // a load may have to build simulations
  const auto answer = connection.request("POST", target, body);
  if (!answer) throw std::runtime_error("no answer from " + target);
  return *answer;
}

HttpResponse RepositoryHost::load(const std::string& version, const std::string& policy,
                                  const std::string& model) const {
  json::object parameters;
  if (!version.empty()) parameters["version"] = version;
  if (!policy.empty()) parameters["policy"] = policy;
  return post("/v2/repository/models/" + model + "/load",
              json::serialize(json::object{{"parameters", std::move(parameters)}}));
}

Outcome RepositoryHost::reload(std::vector<std::string> more) const {
  more.insert(more.begin(), {millrace_binary(), "reload", "--url", url(), "--model", "m"});
  return run_program(more);
}

std::string RepositoryHost::pinned(const std::string& model) const {
  const json::value index = json::parse(post("/v2/repository/index").body);
  std::string versions;
  for (const json::value& entry : index.as_array())
    if (entry.at("name").as_string() == model && entry.as_object().contains("pinned") &&
        entry.at("pinned").as_bool())
      versions += std::string(entry.at("version").as_string());
  return versions;
}

std::string RepositoryHost::index_field(const std::string& model, const std::string& version,
                                        const char* field) const {
  const json::value index = json::parse(post("/v2/repository/index").body);
  for (const json::value& entry : index.as_array())
    if (entry.at("name").as_string() == model && entry.at("version").as_string() == version)
      return std::string(entry.at(field).as_string());
  return "";
}

std::string RepositoryHost::state(const std::string& version, const std::string& model) const {
  return index_field(model, version, "state");
}

std::string RepositoryHost::reason(const std::string& version, const std::string& model) const {
  return index_field(model, version, "reason");
}

int RepositoryHost::log_says(const std::string& what) const {
  int times = 0;
  const std::string log = server_->err();
  for (auto at = log.find(what); at != std::string::npos; at = log.find(what, at + 1)) ++times;
  return times;
}

bool RepositoryHost::wait_for_poll() {
  // The first poll that finds an unreadable pin logs it. Add two such pins, one after the other, because the
  // poll that logs the first pin may have begun before this call.
  fs::create_directories(root_ / "broken");
  for (int pin = 0; pin < 2; ++pin) {
    const std::string content = "poll-" + std::to_string(++polls_);
    const Status written = write_file_atomically(root_ / "broken" / "PIN", content);
    if (!written.ok() || !wait_until([&] { return log_says("holds '" + content + "'") > 0; })) return false;
  }
  return true;
}

bool RepositoryHost::eventually(const std::string& version, const std::string& wanted,
                                const std::string& model) const {
  // Compilers run at low priority, so half a second of compilation can take minutes on a busy machine.
  return wait_until([&] { return state(version, model) == wanted; }, 300s);
}

double RepositoryHost::metric(const std::string& name, const std::string& labels) const {
  HttpConnection connection(port_);
  const auto page = connection.request("GET", "/metrics");
  if (!page) throw std::runtime_error("no metrics");
  return metric_in(page->body, name, labels).value_or(0);
}

}  // namespace millrace::tests
