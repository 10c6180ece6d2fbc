#include "tests/integration/private_slurm.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "tests/support/wait.hpp"

namespace millrace::tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::size_t kKeyBytes = 1'024;

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return std::string(name).substr(0, std::string(name).find('.'));
}

void write_key(const fs::path& file) {
  std::random_device random;
  {
    std::ofstream out(file, std::ios::binary);
    for (std::size_t i = 0; i < kKeyBytes; ++i) out.put(static_cast<char>(random()));
  }
  fs::permissions(file, fs::perms::owner_read);
}

}  // namespace

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ::bind(fd, reinterpret_cast<const sockaddr*>(&address), length);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(fd);
  return ntohs(address.sin_port);
}

bool PrivateSlurm::is_possible() {
  return ::geteuid() == 0 &&
         run_program({"sh", "-c", "command -v munged && command -v slurmctld && command -v slurmd"})
                 .exit_code == 0;
}

PrivateSlurm::PrivateSlurm() {
  const fs::path folder = folder_.path();
  const auto in = [&](const char* name) { return (folder / name).string(); };
  fs::permissions(folder, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  fs::create_directory(folder / "state");
  fs::create_directory(folder / "spool");
  write_key(folder / "munge.key");
  std::ofstream(configuration()) << "ClusterName=millrace\n"
                                 << "SlurmctldHost=" << host_name() << "(127.0.0.1)\n"
                                 << "SlurmctldPort=" << free_port() << "\n"
                                 << "SlurmdPort=" << free_port() << "\n"
                                 << "AuthType=auth/munge\nAuthInfo=socket=" << in("munge.sock") << "\n"
                                 << "CredType=cred/munge\nSlurmUser=root\n"
                                 << "StateSaveLocation=" << in("state") << "\n"
                                 << "SlurmdSpoolDir=" << in("spool") << "\n"
                                 << "SlurmctldPidFile=" << in("slurmctld.pid") << "\n"
                                 << "SlurmdPidFile=" << in("slurmd.pid") << "\n"
                                 << "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
                                 << "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n"
                                 << "ReturnToService=2\nMpiDefault=none\n"
                                 << "NodeName=" << host_name() << " NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN\n"
                                 << "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
  const auto start = [](const std::vector<std::string>& command) {
    return std::make_unique<BackgroundProgram>(command);
  };
  munged_ = start({"munged", "--foreground", "--force", "--socket=" + in("munge.sock"),
                   "--key-file=" + in("munge.key"), "--log-file=" + in("munged.log"),
                   "--pid-file=" + in("munged.pid"), "--seed-file=" + in("munged.seed")});
  static_cast<void>(wait_until([&] { return fs::exists(folder / "munge.sock"); }, 30s));
  controller_ = start({"slurmctld", "-D", "-f", configuration().string()});
  daemon_ = start({"slurmd", "-D", "-f", configuration().string()});
}

bool PrivateSlurm::wait_until_idle(std::chrono::seconds limit) {
  return wait_until(
      [&] {
        return run_program({"sinfo", "-h", "-o", "%t"}, environment()).out.starts_with("idle");
      },
      limit);
}

std::string PrivateSlurm::log() const {
  return munged_->err() + controller_->err() + daemon_->err();
}

}  // namespace millrace::tests
