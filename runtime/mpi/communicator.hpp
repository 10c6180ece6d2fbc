// The communicator of the job's messages. Private to this folder, which alone sees mpi.h.
#pragma once

#include <mpi.h>

namespace millrace::runtime::mpi {

/// A copy of MPI_COMM_WORLD whose functions return errors. Set while a Session exists.
MPI_Comm communicator();

/// The tag of messages outside of streams. Streams have larger tags.
inline constexpr int kMessageTag = 1;

}  // namespace millrace::runtime::mpi
