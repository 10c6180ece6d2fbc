// A model repository on disk, whose versions compute different outputs, and a server that serves the repository.
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

/// The result of an inference request: the version that answered, and whether every byte of the answer is
/// correct for this version.
struct Answer {
  int status = 0;  // 0: no answer
  std::string version;
  bool right = false;
};

class RepositoryHost {
 public:
  /// Makes an empty repository and a cluster of `cards` emulated cards in a chain. Each version of a model
  /// needs three cards, with one partition on each.
  explicit RepositoryHost(std::uint32_t cards = 3);

  const std::filesystem::path& root() const { return root_; }
  const std::filesystem::path& scratch() const { return directory_.path(); }
  const std::string& cluster_file() const { return cluster_file_; }

  /// Adds to the repository a version of `model` that computes `program`.
  void add(const std::string& version, const kernels::Program& program, const std::string& description = {},
           const std::string& model = "m");
  /// Like add(), but the version has SystemVerilog, folded for an interval of at most `interval_cycles` clock cycles.
  void add_rtl(const std::string& version, const kernels::Program& program, std::uint64_t interval_cycles);
  /// Adds stored frames to a version. The expected outputs of these frames are those of `program`.
  void add_stored(const std::string& version, const kernels::Program& program);

  /// Starts `millrace serve` on the repository. The repository mode is "explicit" unless `more` contains
  /// another one. Throws if the server does not become ready.
  void start(std::vector<std::string> more = {}, std::vector<std::string> environment = {});
  BackgroundProgram& server() { return *server_; }
  std::uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::string frame(std::uint32_t seed) const;
  /// Sends one inference request, whose body is only the tensor (raw mode), to the path `target`. If `target` is empty,
  /// sends it to model "m" without naming a version.
  Answer ask(HttpConnection& connection, const std::string& frame, const std::string& target = {}) const;

  HttpResponse post(const std::string& target, const std::string& body = {}) const;
  HttpResponse load(const std::string& version, const std::string& policy = {},
                    const std::string& model = "m") const;
  /// Runs `millrace reload` for model "m" against this server.
  Outcome reload(std::vector<std::string> more) const;
  /// Returns the version's state in the server's index, such as "READY", or an empty text if the index does
  /// not list it.
  std::string state(const std::string& version, const std::string& model = "m") const;
  std::string reason(const std::string& version, const std::string& model = "m") const;
  /// Returns the version that the server's index calls pinned, or an empty text if no version is pinned.
  std::string pinned(const std::string& model = "m") const;
  /// Returns how often the server's log contains `what`.
  int log_says(const std::string& what) const;
  /// In mode "poll", waits until a poll of the repository that began after this call has ended. Returns false
  /// if that does not happen in time.
  bool wait_for_poll();
  bool eventually(const std::string& version, const std::string& state, const std::string& model = "m") const;

  /// Returns the sum of all series of the metric `name` whose labels contain `labels`, or 0 if there is none.
  double metric(const std::string& name, const std::string& labels = {}) const;
  std::vector<pid_t> cards() { return children_named(server_->pid(), "millrace-card"); }

 private:
  std::string index_field(const std::string& model, const std::string& version, const char* field) const;

  TemporaryDirectory directory_{"millrace-repository"};
  std::filesystem::path root_;
  std::string cluster_file_;
  runtime::plan::Cluster cluster_;
  std::map<std::string, kernels::Program> programs_;  // the programs of model "m", by version
  std::optional<BackgroundProgram> server_;
  std::uint16_t port_ = 0;
  int polls_ = 0;
};

}  // namespace millrace::tests
