// Runs the steps of a command, such as `compile`, one after another and times each step.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/log.hpp"

namespace millrace::compiler {

struct StepTime {
  std::string name;
  double milliseconds = 0;
};

class Steps {
 public:
  explicit Steps(std::vector<StepTime>& times) : times_(times) {}

  template <class Body>
  auto run(const std::string& name, Body body) {
    const auto start = std::chrono::steady_clock::now();
    auto result = body();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    add(name, took.count());
    return result;
  }

  void add(const std::string& name, double milliseconds) {
    times_.push_back({name, milliseconds});
    log::debug("compile", name + ": " + std::to_string(milliseconds) + " ms");
  }

  /// Returns the milliseconds of all steps, or of all steps with this name.
  double total(const std::string& name = {}) const {
    double sum = 0;
    for (const auto& time : times_)
      if (name.empty() || time.name == name) sum += time.milliseconds;
    return sum;
  }

 private:
  std::vector<StepTime>& times_;
};

}  // namespace millrace::compiler
