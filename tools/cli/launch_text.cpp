#include "tools/cli/launch_text.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "runtime/base/digest.hpp"

namespace millrace::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestName = 40;  // Kubernetes allows 63, and appends to names of pods

/// Quotes the text so that a shell reads it as one word.
std::string quoted(const std::string& text) {
  constexpr std::string_view kPlain = "-_./:=,@%+";
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::string shell(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : " ") + quoted(word);
  return out;
}

std::vector<std::string> serve_words(const Launch& launch, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"millrace", "serve"};
  words.insert(words.end(), launch.serve.begin(), launch.serve.end());
  words.insert(words.end(), {"--http", launch.address});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Returns the options of mpirun that a job of Millrace needs: every rank has several threads, so it must not be bound
/// to one core; and a stopped rank gets time to complete its requests.
std::vector<std::string> mpirun_words(const Launch& launch) {
  return {"mpirun",
          "--bind-to",
          "none",
          "--mca",
          "mpi_yield_when_idle",
          "1",
          "--mca",
          "odls_base_sigkill_timeout",
          std::to_string(launch.drain_seconds)};
}

/// Returns a name that Kubernetes and Slurm accept: lower-case letters, digits and '-'. If the model's name is too long,
/// the name ends with a part of its digest, so that two such models have different names.
std::string job_name(const Launch& launch) {
  std::string out = "millrace-";
  for (const char c : launch.model) {
    const char low = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    out += std::isalnum(static_cast<unsigned char>(low)) != 0 ? low : '-';
  }
  if (out.size() > kLongestName) {
    constexpr std::size_t kDigits = 8;
    out.resize(kLongestName - kDigits - 1);
    out += "-" + sha256_hex(launch.model).substr(0, kDigits);
  }
  while (out.ends_with('-')) out.pop_back();
  return out;
}

/// Returns a string quoted for YAML. It is quoted as in JSON, because all JSON is valid YAML.
std::string yaml(const std::string& text) {
  return json::serialize(json::value(text));
}

/// Returns a container's command as a YAML list. Kubernetes replaces "$(NAME)" in commands by variables, and "$$" by "$".
std::string yaml_command(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    std::string escaped;
    for (const char c : word) escaped.append(c == '$' ? 2 : 1, c);
    out += (out.empty() ? "[" : ", ") + yaml(escaped);
  }
  return out + "]";
}

std::string service(const Launch& launch, const std::string& selector) {
  return "apiVersion: v1\n"
         "kind: Service\n"
         "metadata:\n"
         "  name: " +
         job_name(launch) +
         "\n"
         "spec:\n"
         "  selector:\n" +
         selector +
         "  ports:\n"
         "    - name: http\n"
         "      port: " +
         std::to_string(launch.port()) +
         "\n"
         "      targetPort: " +
         std::to_string(launch.port()) + "\n";
}

std::string limits(const Launch& launch, const std::string& indent) {
  if (launch.card_resource.empty()) return "";
  return indent + "resources:\n" + indent + "  limits:\n" + indent + "    " + yaml(launch.card_resource) +
         ": 1\n";
}

std::string deployment(const Launch& launch) {
  const std::string name = job_name(launch), port = std::to_string(launch.port());
  // Requests still arrive for a moment after Kubernetes has sent the stop signal, so they are served for that time.
  const auto words = serve_words(launch, {"--drain-notice-ms", "5000"});
  std::string out =
      "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: " + name +
      "\nspec:\n  replicas: " + std::to_string(launch.replicas) +
      "\n  selector:\n    matchLabels:\n      app: " + name +
      "\n  template:\n    metadata:\n      labels:\n        app: " + name +
      "\n    spec:\n      terminationGracePeriodSeconds: " + std::to_string(launch.drain_seconds + 10) +
      "\n      containers:\n        - name: millrace\n          image: " + yaml(launch.container) +
      "\n          command: " + yaml_command(words) + "\n          ports:\n            - name: http\n" +
      "              containerPort: " + port + "\n";
  for (const auto& [probe, path, period] : {std::tuple{"readinessProbe", "/v2/health/ready", "2"},
                                            std::tuple{"livenessProbe", "/v2/health/live", "10"}})
    out += std::string("          ") + probe + ":\n            httpGet:\n              path: " + path +
           "\n              port: " + port + "\n            periodSeconds: " + period + "\n";
  return out + limits(launch, "          ");
}

std::string mpi_job(const Launch& launch) {
  // The host file that the MPI operator writes lists the workers in order, with one slot each, so rank i runs on worker
  // i.
  std::vector<std::string> words = mpirun_words(launch);
  words.push_back("--allow-run-as-root");
  for (const auto& host : launch.hosts) {
    if (&host != &launch.hosts.front()) words.emplace_back(":");
    words.insert(words.end(), {"-n", "1"});
    const auto serve = serve_words(launch, {"--host-name", host});
    words.insert(words.end(), serve.begin(), serve.end());
  }
  const std::string image = "              image: " + yaml(launch.container) + "\n";
  return "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: " + job_name(launch) +
         "\nspec:\n  slotsPerWorker: 1\n  runPolicy:\n    cleanPodPolicy: Running\n  mpiReplicaSpecs:\n"
         "    Launcher:\n      replicas: 1\n      template:\n        spec:\n          containers:\n"
         "            - name: launcher\n" +
         image + "              command: " + yaml_command(words) +
         "\n    Worker:\n      replicas: " + std::to_string(launch.hosts.size()) +
         "\n      template:\n        spec:\n          containers:\n            - name: worker\n" + image +
         "              command: " + yaml_command({"/usr/sbin/sshd", "-De"}) +
         "\n              ports:\n                - containerPort: " + std::to_string(launch.port()) + "\n" +
         limits(launch, "              ");
}

}  // namespace

std::uint16_t Launch::port() const {
  return static_cast<std::uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str()));
}

std::string mpirun_text(const Launch& launch) {
  if (launch.hosts.empty()) return shell(serve_words(launch)) + "\n";
  std::vector<std::string> words = mpirun_words(launch);
  words.insert(words.end(), {"--host", joined(launch.hosts, ","), "-n", std::to_string(launch.hosts.size())});
  const auto serve = serve_words(launch);
  words.insert(words.end(), serve.begin(), serve.end());
  return shell(words) + "\n";
}

std::string slurm_text(const Launch& launch) {
  const std::string ranks = std::to_string(std::max<std::size_t>(launch.hosts.size(), 1));
  std::string out = "#!/bin/bash\n#SBATCH --job-name=" + job_name(launch) + "\n#SBATCH --nodes=" + ranks +
                    "\n#SBATCH --ntasks=" + ranks + "\n#SBATCH --ntasks-per-node=1\n";
  if (!launch.hosts.empty()) out += "#SBATCH --nodelist=" + joined(launch.hosts, ",") + "\n";
  if (!launch.time.empty()) out += "#SBATCH --time=" + launch.time + "\n";
  out += "#SBATCH --output=%x-%j.log\n\n";
  std::vector<std::string> words{"exec", "srun", "--kill-on-bad-exit=1", "--cpu-bind=none"};
  if (!launch.hosts.empty()) words.emplace_back("--mpi=pmix");
  const auto serve = serve_words(launch);
  words.insert(words.end(), serve.begin(), serve.end());
  return out + shell(words) + "\n";
}

std::string kubernetes_text(const Launch& launch) {
  const std::string name = job_name(launch);
  if (launch.hosts.empty()) return deployment(launch) + "---\n" + service(launch, "    app: " + name + "\n");
  return mpi_job(launch) + "---\n" +
         service(launch, "    training.kubeflow.org/job-name: " + name +
                             "\n    training.kubeflow.org/job-role: worker\n"
                             "    training.kubeflow.org/replica-index: \"0\"\n");
}

}  // namespace millrace::cli
