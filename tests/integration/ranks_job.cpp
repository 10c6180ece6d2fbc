#include "tests/integration/ranks_job.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>

#include "runtime/base/npy.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests {
namespace {

using namespace std::chrono_literals;

constexpr float kPixelScale = 1.0F / 255.0F;

/// Whether the process was started with `entry` ("NAME=value") in its environment.
bool has_variable(pid_t process, const std::string& entry) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  for (std::string line; std::getline(file, line, '\0');)
    if (line == entry) return true;
  return false;
}

}  // namespace

bool has_mpirun() {
  return run_program({"sh", "-c", "command -v mpirun"}).exit_code == 0;
}

std::vector<std::string> mpirun_command() {
  return {"mpirun",
          "--allow-run-as-root",
          "--oversubscribe",
          "--mca",
          "btl",
          "self,vader",
          "--mca",
          "oob_tcp_if_include",
          "lo",
          "--mca",
          "mpi_yield_when_idle",
          "1"};
}

Digits read_digits() {
  const std::filesystem::path vectors = source_dir() / std::filesystem::path("tests/vectors/lenet5_mnist");
  const auto images = read_npy(vectors / "images_u8.npy"), golden = read_npy(vectors / "golden_f32.npy");
  Digits digits;
  if (!images.ok() || !golden.ok()) return digits;
  const std::size_t frames = std::min(images->shape[0], golden->shape[0]);
  const std::size_t pixels = images->data.size() / images->shape[0];
  const std::size_t bytes = golden->data.size() / golden->shape[0];
  for (std::size_t frame = 0; frame < frames; ++frame) {
    std::string input;
    for (std::size_t i = 0; i < pixels; ++i) {
      const float pixel =
          static_cast<float>(std::to_integer<int>(images->data[frame * pixels + i])) * kPixelScale;
      input.append(reinterpret_cast<const char*>(&pixel), sizeof pixel);
    }
    digits.inputs.push_back(std::move(input));
    digits.outputs.emplace_back(reinterpret_cast<const char*>(golden->data.data() + frame * bytes), bytes);
  }
  return digits;
}

RanksJob::RanksJob(const std::vector<std::string>& more) {
  std::vector<std::string> command = mpirun_command();
  for (int number = 0; number < kRanks; ++number) {
    if (number > 0) command.emplace_back(":");
    command.insert(command.end(), {"-n", "1", millrace_binary(), "serve", "--http", "127.0.0.1:0",
                                   "--host-name", "host" + std::to_string(number)});
    command.insert(command.end(), more.begin(), more.end());
  }
  program_ = std::make_unique<BackgroundProgram>(command);
}

RanksJob::~RanksJob() {
  // At SIGTERM, mpirun ends all ranks. If mpirun were killed by SIGKILL, the ranks would keep running.
  if (program_->running()) program_->stop(SIGTERM, 30s);
}

bool RanksJob::wait_until_ready() {
  const auto address = program_->wait_for_line("listening http ", 60s);
  if (!address) return false;
  port_ = static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1)));
  return true;
}

pid_t RanksJob::rank(int number) const {
  for (const pid_t process : children_named(program_->pid(), "millrace"))
    if (has_variable(process, "OMPI_COMM_WORLD_RANK=" + std::to_string(number))) return process;
  return -1;
}

std::vector<pid_t> RanksJob::cards() const {
  std::vector<pid_t> all;
  for (const pid_t process : children_named(program_->pid(), "millrace")) {
    const auto cards = children_named(process, "millrace-card");
    all.insert(all.end(), cards.begin(), cards.end());
  }
  return all;
}

int RanksJob::ask(HttpConnection& connection, const Digits& digits, std::size_t frame) {
  const std::size_t digit = frame % digits.inputs.size();
  const auto answer = connection.request("POST", "/v2/models/lenet/infer", digits.inputs[digit],
                                         "Inference-Header-Content-Length: 0\r\n");
  if (!answer) return 0;
  return answer->status == 200 && !answer->body.ends_with(digits.outputs[digit]) ? -1 : answer->status;
}

}  // namespace millrace::tests
