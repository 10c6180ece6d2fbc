#include "runtime/mpi/join.hpp"

#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/mpi/communicator.hpp"
#include "runtime/mpi/wire.hpp"

namespace millrace::runtime::mpi {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kJoinTag = 2;  // of messages with identities
constexpr milliseconds kPoll{1};

MPI_Comm job = MPI_COMM_NULL;

std::string reason_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return std::string(text, static_cast<std::size_t>(length));
}

Bytes bytes_of(const Identity& identity) {
  Writer out;
  out.put_text(identity.host)
      .put_text(identity.version)
      .put_text(identity.cluster)
      .put_text(identity.machine);
  out.put(static_cast<std::uint32_t>(identity.deployments.size()));
  for (const auto& deployment : identity.deployments) out.put_text(deployment);
  return out.take();
}

Identity identity_of(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Identity out{in.get_text(), in.get_text(), in.get_text(), {}, in.get_text()};
  for (auto left = in.get<std::uint32_t>(); left > 0 && !in.failed(); --left)
    out.deployments.push_back(in.get_text());
  return out;
}

/// Returns a text that all processes on this machine's kernel share, also those in containers.
std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

/// Ends the process if MPI does not start in time. MPI_Init() waits for all ranks, and cannot be given up.
class StartWatch {
 public:
  explicit StartWatch(milliseconds bound)
      : thread_([this, bound](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          if (started_.wait_for(lock, stop, bound, [] { return false; }) || stop.stop_requested()) return;
          log::error("mpi", "MPI has not started within " + std::to_string(bound.count()) +
                                " ms, because not all ranks of the job have started MPI: "
                                "a rank hangs, or its host cannot be reached; "
                                "the logs of the launcher and of each rank say more");
          std::_Exit(exit_code(ErrorCode::kEnvironment));
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any started_;
  std::jthread thread_;
};

/// Waits until an operation of MPI is complete. `what` is the error's message if it is not complete in time.
Status complete(MPI_Request& request, Clock::time_point end, const std::string& what) {
  for (int done = 0;;) {
    if (const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS)
      return Error(ErrorCode::kUnavailable, "MPI: " + reason_of(code));
    if (done != 0) return {};
    if (Clock::now() > end) return Error(ErrorCode::kUnavailable, what);
    std::this_thread::sleep_for(kPoll);
  }
}

/// Receives the identity of one rank, if one has arrived.
void receive_identity(std::vector<std::optional<Identity>>& ranks) {
  int there = 0, length = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  if (MPI_Improbe(MPI_ANY_SOURCE, kJoinTag, job, &there, &message, &status) != MPI_SUCCESS || there == 0)
    return;
  MPI_Get_count(&status, MPI_BYTE, &length);
  Bytes bytes(static_cast<std::size_t>(length));
  if (MPI_Mrecv(bytes.data(), length, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
  ranks[static_cast<std::size_t>(status.MPI_SOURCE)] = identity_of(bytes);
}

/// Sends this rank's identity to all ranks, and returns everybody's. The error names the ranks that sent none.
Result<std::vector<Identity>> exchange(const Identity& own, int rank, int size, Clock::time_point end) {
  const Bytes mine = bytes_of(own);
  std::vector<MPI_Request> sends(static_cast<std::size_t>(size), MPI_REQUEST_NULL);
  for (int other = 0; other < size; ++other)
    if (other != rank)
      MPI_Isend(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, other, kJoinTag, job,
                &sends[static_cast<std::size_t>(other)]);
  std::vector<std::optional<Identity>> found(static_cast<std::size_t>(size));
  found[static_cast<std::size_t>(rank)] = own;
  const auto missing = [&] {
    std::string names;
    for (std::size_t other = 0; other < found.size(); ++other)
      if (!found[other]) names += (names.empty() ? "rank " : ", rank ") + std::to_string(other);
    return names;
  };
  for (std::string names = missing(); !names.empty(); names = missing()) {
    receive_identity(found);
    if (Clock::now() > end)
      return Error(ErrorCode::kUnavailable,
                   names + " of " + std::to_string(size) +
                       " did not join the job in time, because it was lost or hangs; "
                       "the logs of the launcher and of that rank say more");
    std::this_thread::sleep_for(kPoll);
  }
  for (std::size_t other = 0; other < sends.size(); ++other)
    MILLRACE_TRY(complete(sends[other], end,
                          "rank " + std::to_string(other) + " was lost while the ranks joined the job"));
  std::vector<Identity> out;
  for (auto& identity : found) out.push_back(std::move(*identity));
  return out;
}

}  // namespace

MPI_Comm communicator() {
  return job;
}

Result<std::vector<Identity>> join_job(const Identity& own, milliseconds start_within,
                                       milliseconds join_within, int& rank) {
  int provided = 0;
  {
    const StartWatch watch(start_within);
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
        code != MPI_SUCCESS)
      return Error(ErrorCode::kEnvironment, "MPI does not start: " + reason_of(code));
  }
  if (provided < MPI_THREAD_MULTIPLE)
    return Error(ErrorCode::kEnvironment,
                 "this MPI library has no support for several threads "
                 "(MPI_THREAD_MULTIPLE); use Open MPI 4 or newer");
  const auto end = Clock::now() + join_within;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // the duplicate inherits it
  MPI_Request duplicated = MPI_REQUEST_NULL;
  MPI_Comm_idup(MPI_COMM_WORLD, &job, &duplicated);
  MILLRACE_TRY(complete(duplicated, end, "a rank was lost while the ranks joined the job"));
  Identity mine = own;
  mine.machine = machine_id();
  return exchange(mine, rank, size, end);
}

}  // namespace millrace::runtime::mpi
