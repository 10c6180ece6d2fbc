// The main program that tools/rtl-sweep links with each verilated model. Usage: bench [SEED [ROUNDS]]
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "kernels/tb/bench.hpp"

int main(int argc, char** argv) {
  using namespace millrace::kernels::tb;
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1;
  std::printf("%s: seed %llu, rounds %d\n", kModuleName, static_cast<unsigned long long>(seed), rounds);
  try {
    int failures = 0;
    Cases cases;
    Benches benches;
    add_stream_cases(cases);
    add_window_cases(cases);
    add_arithmetic_cases(cases);
    add_element_cases(cases);
    add_reader_bench(benches);
    add_load_bench(benches);
    add_shell_bench(benches);
    add_link_bench(benches);
    add_aurora_bench(benches);
    add_top_bench(benches);
    add_ring_in_bench(benches);
    add_ring_out_bench(benches);
    add_udp_bench(benches);
    add_udp_link_bench(benches);
    if (const auto bench = benches.find(kModuleName); bench != benches.end()) {
      failures = bench->second(seed, rounds);
    } else if (const auto make = cases.find(kModuleName); make != cases.end()) {
      failures = run_stream_bench(make->second, seed, rounds);
    } else {
      std::fprintf(stderr, "no bench knows the module %s\n", kModuleName);
      return 2;
    }
    std::printf("%s: %s\n", kModuleName, failures == 0 ? "passed" : "FAILED");
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", kModuleName, error.what());
    return 2;
  }
}
