// millrace-card: one emulated FPGA. libxrt_core.so.2 starts it with the descriptors that it needs; nobody
// starts it by hand.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <thread>

#include "runtime/emulator/card/card.hpp"

namespace {

using namespace millrace;
using namespace millrace::runtime::emulator;

/// Ends the process when the host closes its end of the socket or ends in any way.
void end_with_the_host() {
  char byte;
  while (read(kLivenessFd, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

/// Maps the memory that the host shares. The error says why that failed.
Result<std::unique_ptr<Card>> open_card() {
  MILLRACE_ASSIGN(auto control, SharedMemory::open(kControlFd));
  MILLRACE_ASSIGN(auto memory, SharedMemory::open(kMemoryFd));
  MILLRACE_ASSIGN(auto fabric, SharedMemory::open(kFabricFd));
  if (control.bytes() != kControlBytes || control.as<ControlBlock>().magic != kProtocolMagic ||
      fabric.bytes() < sizeof(Fabric) || fabric.as<Fabric>().magic != kProtocolMagic ||
      control.as<ControlBlock>().card >= fabric.as<Fabric>().cards)
    return Error(ErrorCode::kEnvironment,
                 "belongs to another build than libxrt_core.so.2; build both together");
  return std::make_unique<Card>(std::move(control), std::move(memory), std::move(fabric), kImageFd);
}

}  // namespace

int main(int count, char** arguments) {
  const char* name = count > 1 ? arguments[1] : "";
  if (fcntl(kLivenessFd, F_GETFD) < 0) {
    std::fprintf(stderr, "millrace-card is started by Millrace for each emulated card, not by hand\n");
    return 2;
  }
  // The card must not end before the host. Ctrl-C and a service manager's SIGTERM go to the whole process
  // group while the host still drains. The card also keeps no other descriptor of the host open.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  syscall(SYS_close_range, kFirstOtherFd, ~0U, 0);
  std::thread(end_with_the_host).detach();
  auto card = open_card();
  if (!card.ok()) {
    std::fprintf(stderr, "millrace-card %s: %s\n", name, card.error().message().c_str());
    return 70;
  }
  (*card)->run();
}
