#include "tools/cli/plugin_guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "runtime/base/text.hpp"
#include "runtime/plugins/models.hpp"

namespace millrace::cli {

namespace {

constexpr std::size_t kNoteBytes = 512;
// How long a plugin may take to load, or to compute one block of one frame. Pipelines wait as long for a card
// (PipelineOptions::stuck_after).
constexpr unsigned kRunSeconds = 10;

void write_note(char* note, const std::string& what) {
  const std::size_t length = what.copy(note, kNoteBytes - 1);
  note[length] = 0;
}

std::string name_of(const kernels::PluginOperator& op, const kernels::Block& block) {
  return "plugin '" + op.plugin + "', block '" + block.name + "'";
}

/// Notes what a plugin does. If the plugin takes too long, SIGALRM ends the process.
class Watch {
 public:
  Watch(char* note, const std::string& what) : note_(note) {
    write_note(note_, what);
    ::alarm(kRunSeconds);
  }
  ~Watch() {
    ::alarm(0);
    write_note(note_, "");
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  char* note_;
};

class WatchedModel : public kernels::PluginModel {
 public:
  WatchedModel(std::shared_ptr<const kernels::PluginModel> model, std::string what, char* note)
      : model_(std::move(model)), what_(std::move(what)), note_(note) {}

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) const override {
    const Watch watch(note_, what_);
    model_->run(inputs, outputs);
  }

 private:
  std::shared_ptr<const kernels::PluginModel> model_;
  std::string what_;
  char* note_;
};

Error ended_by(int signal, const std::string& what) {
  const std::string remedy = "; correct the plugin and compile the model again";
  if (what.empty())
    return Error(ErrorCode::kInvalidInput,
                 "the process that had loaded the plugins of the deployment was ended by signal " +
                     std::to_string(signal) + remedy);
  if (signal == SIGALRM)
    return Error(ErrorCode::kInvalidInput,
                 what + " did not return within " + std::to_string(kRunSeconds) + " s" + remedy);
  return Error(ErrorCode::kInvalidInput,
               what + " ended the process with signal " + std::to_string(signal) + remedy);
}

}  // namespace

Result<PluginGuard> PluginGuard::continue_in_child() {
  const auto failed = [](const std::string& what) {
    return Error(ErrorCode::kResourceExhausted, what + ": " + std::strerror(errno));
  };
  void* const shared = ::mmap(nullptr, kNoteBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return failed("no memory for a process that computes with plugins");
  auto* const note = static_cast<char*>(shared);  // the mapping is filled with zeros
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return failed("no process that computes with plugins");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(1);  // the parent ended before prctl()
    ::signal(SIGALRM, SIG_DFL);
    return PluginGuard(note);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) std::_Exit(WEXITSTATUS(status));
  note[kNoteBytes - 1] = 0;  // the plugin can write to this memory, too
  return ended_by(WTERMSIG(status), printable(note));
}

Status PluginGuard::load_models(kernels::Program& program) const {
  std::unique_ptr<const Watch> loading;
  MILLRACE_TRY(runtime::plugins::load_models(program, [&](const kernels::Block& block) {
    const auto& op = std::get<kernels::PluginOperator>(block.operation);
    loading.reset();
    loading = std::make_unique<const Watch>(note_, name_of(op, block) + ": the code that loads its library");
  }));
  for (kernels::Block& block : program.blocks) {
    auto* const op = std::get_if<kernels::PluginOperator>(&block.operation);
    if (op == nullptr || op->model == nullptr) continue;
    op->model = std::make_shared<const WatchedModel>(op->model, name_of(*op, block) + ": run()", note_);
  }
  return {};
}

}  // namespace millrace::cli
