// The start of a job: starts MPI, and exchanges the identities of the ranks.
#pragma once

#include <chrono>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/mpi/ranks.hpp"

namespace millrace::runtime::mpi {

/// Starts MPI, makes the communicator of the job, and returns the identities of all ranks, in their order. Stores the
/// number of this rank in `rank`. `start_within` is the time for all ranks to start MPI, `join_within` the time for
/// everything else. Returns kEnvironment if MPI does not start or has no support for threads, and kUnavailable, with the
/// ranks, if ranks do not answer in time. MPI cannot give up a start, so if not all ranks start it in time, this
/// function logs an error and ends the process with exit code 3. May be called once in a process.
Result<std::vector<Identity>> join_job(const Identity& own, std::chrono::milliseconds start_within,
                                       std::chrono::milliseconds join_within, int& rank);

}  // namespace millrace::runtime::mpi
