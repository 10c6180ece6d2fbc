#include "tests/integration/installed_service.hpp"

#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>
#include <stdexcept>

#include "runtime/base/file.hpp"
#include "tests/support/metrics_page.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {

namespace fs = std::filesystem;
namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

constexpr char kSettings[] = "/etc/millrace/server.yaml";  // the path in millrace.service

std::string text_of(const fs::path& file) {
  const auto text = read_text_file(file);
  if (!text.ok()) throw std::runtime_error(text.error().message());
  return *text;
}

void write(const fs::path& file, const std::string& text) {
  if (const Status written = write_file_atomically(file, text); !written.ok())
    throw std::runtime_error(written.error().message());
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

struct LogLine {
  std::string level, message;
};

/// Parses the server's log, which is JSON because the systemd unit asks for JSON. Throws if a line is not JSON.
std::vector<LogLine> lines_of_log(const std::string& log) {
  std::vector<LogLine> lines;
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);) {
    const json::value parsed = json::parse(line);
    lines.push_back(
        {std::string(parsed.at("level").as_string()), std::string(parsed.at("message").as_string())});
  }
  return lines;
}

}  // namespace

InstalledService::InstalledService(const InstalledPrefix& prefix, fs::path folder)
    : prefix_(prefix), folder_(std::move(folder)) {
  fs::create_directories(folder_);
  fs::copy_file(prefix_.shared("server.yaml"), folder_ / "server.yaml");
  set("listen: [127.0.0.1:8000]  # also unix:/run/millrace/http.sock, tls:0.0.0.0:8443, systemd:http",
      "listen: [\"127.0.0.1:0\"]");
}

void InstalledService::set(const std::string& line, const std::string& by) {
  std::istringstream in(text_of(folder_ / "server.yaml"));
  std::string all;
  bool found = false;
  for (std::string one; std::getline(in, one);) {
    const auto begin = std::min(one.find_first_not_of(' '), one.size());
    const bool same = one.substr(begin) == line;
    found = found || same;
    all += one.substr(0, begin) + (same ? by : one.substr(begin)) + "\n";
  }
  if (!found) throw std::runtime_error("server.yaml has no line '" + line + "'");
  write(folder_ / "server.yaml", all);
}

void InstalledService::keep_socket() {
  socket_ = std::make_unique<KeptSocket>();
  set("listen: [\"127.0.0.1:0\"]", "listen: [systemd:http]");  // the name in millrace.socket
}

std::vector<std::string> InstalledService::in_unit(const std::string& unit, const std::string& key) const {
  std::istringstream in(text_of(prefix_.path() / "lib/systemd/system" / unit));
  std::vector<std::string> values;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + "=")) values.push_back(line.substr(key.size() + 1));
  return values;
}

InstalledService::Words InstalledService::command_with(const Words& more) const {
  Words command = {"env"};
  for (const auto& cache : in_unit("millrace.service", "CacheDirectory"))
    fs::create_directories(folder_ / "cache" / cache);
  for (auto variable : in_unit("millrace.service", "Environment")) {
    replace_all(variable, "%C", (folder_ / "cache").string());
    command.push_back(variable);
  }
  std::string start = in_unit("millrace.service", "ExecStart").at(0);
  replace_all(start, kSettings, (folder_ / "server.yaml").string());
  for (const auto& word : words_of(start)) command.push_back(word);
  command.insert(command.end(), more.begin(), more.end());
  return prefix_.from_elsewhere(command);
}

void InstalledService::start(const std::function<Words(const Words&)>& wrap) {
  Words command = command_with({});
  if (wrap) command = wrap(command);
  if (socket_)
    command = with_passed_socket(*socket_, in_unit("millrace.socket", "FileDescriptorName").at(0), command);
  server_ = std::make_unique<BackgroundProgram>(command);
  const auto http = server_->wait_for_line("listening http ", 120s);
  if (!http) throw std::runtime_error("the server did not come up: " + server_->err());
  http_ = *http;
}

void InstalledService::reload() const {
  std::string command = in_unit("millrace.service", "ExecReload").at(0);
  replace_all(command, "$MAINPID", std::to_string(server_->pid()));
  if (const Outcome sent = run_program(words_of(command)); sent.exit_code != 0)
    throw std::runtime_error(command + ": " + sent.err);
}

std::string InstalledService::address(const std::string& kind) {
  const auto found = server_->wait_for_line("listening " + kind + " ", 60s);
  if (!found) throw std::runtime_error("the server does not listen for " + kind + ": " + server_->err());
  return *found;
}

testing::AssertionResult InstalledService::logged(const std::string& level, const std::string& text) const {
  const auto there = [&] {
    const std::string log = server_->err();
    const auto lines = lines_of_log(log.substr(0, log.rfind('\n') + 1));  // the last line may be incomplete
    return std::any_of(lines.begin(), lines.end(), [&](const LogLine& line) {
      return line.level == level && line.message.find(text) != std::string::npos;
    });
  };
  if (wait_until(there, 10s)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no line of level " << level << " says '" << text << "':\n"
                                     << server_->err();
}

std::vector<std::string> InstalledService::complaints() const {
  std::vector<std::string> found;
  for (const LogLine& line : lines_of_log(server_->err()))
    if (line.level != "info" && line.level != "debug") found.push_back(line.message);
  return found;
}

std::optional<double> InstalledService::metric(const std::string& name, const std::string& labels,
                                               const std::string& token) const {
  HttpConnection connection(http_);
  const auto page = connection.request("GET", "/metrics", {},
                                       token.empty() ? "" : "Authorization: Bearer " + token + "\r\n");
  if (!page || page->status != 200) throw std::runtime_error("no metrics from " + http_);
  return metric_in(page->body, name, labels);
}

bool InstalledService::metric_becomes(double value, const std::string& name, const std::string& labels,
                                      const std::string& token) const {
  return wait_until([&] { return metric(name, labels, token) == value; });
}

}  // namespace millrace::tests
