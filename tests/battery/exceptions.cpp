#include "exceptions.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace millrace::tests {
namespace {

Exception parse(const std::string& outcome, const std::string& detail, const std::string& reason) {
  Exception e;
  e.reason = reason;
  if (reason.empty()) throw std::runtime_error("the reason is missing");
  if (outcome == "host") {
    e.kind = Kind::kHost;
  } else if (outcome == "refused" && !detail.empty()) {
    e.kind = Kind::kRefused;
    e.message = detail;
  } else if (outcome == "differs" &&
             std::sscanf(detail.c_str(), "%lf steps %lf %%", &e.steps, &e.per_cent) == 2) {
    e.kind = Kind::kDiffers;
  } else {
    throw std::runtime_error(
        "the outcome is neither 'host', nor 'refused' with a part of the message, nor 'differs' with 'N "
        "steps P %'");
  }
  return e;
}

}  // namespace

std::string to_string(Kind kind) {
  switch (kind) {
    case Kind::kAgrees:
      return "agrees";
    case Kind::kDiffers:
      return "differs";
    case Kind::kHost:
      return "host";
    case Kind::kRefused:
      return "refused";
  }
  return {};
}

std::map<std::string, Exception> read_exceptions(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || line != "net,outcome,detail,reason")
    throw std::runtime_error(file.string() + ": the first line must be 'net,outcome,detail,reason'");
  std::map<std::string, Exception> found;
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    std::string net, outcome, detail, reason;
    std::getline(cells, net, ',');
    std::getline(cells, outcome, ',');
    std::getline(cells, detail, ',');
    std::getline(cells, reason);
    try {
      if (!found.emplace(net, parse(outcome, detail, reason)).second)
        throw std::runtime_error("the net has two lines");
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(file.string() + ", net '" + net + "': " + error.what());
    }
  }
  return found;
}

}  // namespace millrace::tests
