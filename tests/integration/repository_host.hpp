// A repository on disk whose versions compute different outputs, and a server that serves it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/cluster.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {

/// The result of an inference: the version that answered, and whether every byte is that version's.
struct Answer {
  int status = 0;  // 0: no answer
  std::string version;
  bool right = false;
};

class RepositoryHost {
 public:
  /// A cluster of `cards` emulated cards in a chain. Each version takes three cards, with one partition on
  /// each.
  explicit RepositoryHost(std::uint32_t cards = 3);

  const std::filesystem::path& root() const { return root_; }
  const std::filesystem::path& scratch() const { return directory_.path(); }
  const std::string& cluster_file() const { return cluster_file_; }

  /// Writes a version of model "m" (or `model`) that computes `program`.
  void add(const std::string& version, const kernels::Program& program, const std::string& description = {},
           const std::string& model = "m");
  /// Like add(), with SystemVerilog that is folded for an interval of `interval_cycles`.
  void add_rtl(const std::string& version, const kernels::Program& program, std::uint64_t interval_cycles);
  /// Adds stored frames to a version, with the outputs of `program`.
  void add_stored(const std::string& version, const kernels::Program& program);

  /// Starts `millrace serve` on the repository in mode explicit; options in `more` override that. Throws if
  /// the server does not come up.
  void start(std::vector<std::string> more = {}, std::vector<std::string> environment = {});
  BackgroundProgram& server() { return *server_; }
  std::uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::string frame(std::uint32_t seed) const;
  /// Sends one raw inference to `target`, or to the model without a version if `target` is empty.
  Answer ask(HttpConnection& connection, const std::string& frame, const std::string& target = {}) const;

  HttpResponse post(const std::string& target, const std::string& body = {}) const;
  HttpResponse load(const std::string& version, const std::string& policy = {},
                    const std::string& model = "m") const;
  /// Runs `millrace reload` for model "m" at this server.
  Outcome reload(std::vector<std::string> more) const;
  /// The state that the index gives, such as "READY"; empty if the index does not list the version.
  std::string state(const std::string& version, const std::string& model = "m") const;
  std::string reason(const std::string& version, const std::string& model = "m") const;
  /// The version that the index calls pinned; empty if there is none.
  std::string pinned(const std::string& model = "m") const;
  /// How often the server's log says `what`.
  int log_says(const std::string& what) const;
  /// Mode poll: returns once a poll has begun and ended after this call. False if there was none.
  bool wait_for_poll();
  bool eventually(const std::string& version, const std::string& state, const std::string& model = "m") const;

  /// Sum of the values of all series `name` whose labels contain `labels`; 0 if there is none.
  double metric(const std::string& name, const std::string& labels = {}) const;
  std::vector<pid_t> cards() { return children_named(server_->pid(), "millrace-card"); }

 private:
  std::string index_field(const std::string& model, const std::string& version, const char* field) const;

  TemporaryDirectory directory_{"millrace-repository"};
  std::filesystem::path root_;
  std::string cluster_file_;
  runtime::plan::Cluster cluster_;
  std::map<std::string, kernels::Program> programs_;  // by version, of model m
  std::optional<BackgroundProgram> server_;
  std::uint16_t port_ = 0;
  int polls_ = 0;
};

}  // namespace millrace::tests
