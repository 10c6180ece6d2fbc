#include "tests/integration/two_hosts.hpp"

#include <unistd.h>

#include <fstream>

#include "tests/support/process.hpp"

namespace millrace::tests {
namespace {

namespace fs = std::filesystem;

/// Returns the shell text that runs "$@" in a namespace with its own host name.
std::string in_namespace(const std::string& name) {
  return "ip netns exec " + name + " unshare --uts sh -c 'hostname " + name + " && exec \"$@\"' sh";
}

bool shell(const std::string& text) {
  return run_program({"sh", "-c", text}).exit_code == 0;
}

}  // namespace

bool TwoHosts::is_possible() {
  const std::string probe = "mrprobe" + std::to_string(::getpid());
  return shell("command -v ip && command -v unshare && ip netns add " + probe +
               " && unshare --uts true; made=$?; " + "ip netns del " + probe + " 2>/dev/null; exit $made");
}

TwoHosts::TwoHosts() {
  // Names of network devices have at most 15 characters.
  const std::string stem = "mr" + std::to_string(::getpid());
  names_ = {stem + "a", stem + "b"};
  std::string make = "set -e\nip netns add " + names_[0] + "\nip netns add " + names_[1] + "\nip link add " +
                     names_[0] + " netns " + names_[0] + " type veth peer name " + names_[1] + " netns " +
                     names_[1] + "\n";
  for (std::size_t host = 0; host < names_.size(); ++host) {
    const std::string in = "ip -n " + names_[host];
    make += in + " addr add " + address(host) + "/24 dev " + names_[host] + "\n" + in + " link set " +
            names_[host] + " up\n" + in + " link set lo up\n";
  }
  made_ = shell(make);
  // mpirun calls the agent as it would call ssh: with the host and a command line for that host's shell.
  std::ofstream(agent()) << "#!/bin/sh\nshift\nexec " << in_namespace(names_[1]) << " sh -c \"$*\"\n";
  fs::permissions(agent(), fs::perms::owner_all);
}

TwoHosts::~TwoHosts() {
  for (const auto& name : names_) shell("ip netns del " + name);
}

std::vector<std::string> TwoHosts::in_first(const std::vector<std::string>& command) const {
  std::vector<std::string> out{"sh", "-c", "exec " + in_namespace(names_[0]) + " \"$@\"", "sh"};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

}  // namespace millrace::tests
