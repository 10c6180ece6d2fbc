#include "compiler/report/energy.hpp"

namespace millrace::compiler::report {
namespace {

// Horowitz, "Computing's energy problem", ISSCC 2014, 45 nm: multiply 8 bit 0.2 pJ, add 32 bit 0.1 pJ, read
// 8 bytes of an 8 KB SRAM 10 pJ. Kuon and Rose, "Measuring the gap between FPGAs and ASICs", IEEE TCAD 2007:
// an FPGA takes 14 times the dynamic power of an ASIC where it has only logic.
constexpr double kPicojoulesPerMultiply = (0.2 + 0.1 + 10.0 / 8) * 14;
// Horowitz: 1.3 to 2.6 nJ for 8 bytes of DRAM.
constexpr double kPicojoulesPerMemoryByte = 2600.0 / 8;
constexpr double kPicojoulesPerCableByte = 8 * 20;

}  // namespace

Energy assumed_energy(const Plan& plan) {
  Energy energy;
  double work = 0, read = 0, sent = 0;
  for (const auto& place : plan.analysis.places) {
    work += static_cast<double>(place.cost);
    read += static_cast<double>(place.memory_bytes);
  }
  for (const auto& cable : plan.analysis.cables) sent += static_cast<double>(cable.bytes);
  const auto add = [&](const char* what, const char* unit, double count, double each, const char* from) {
    if (count <= 0) return;
    energy.terms.push_back({what, unit, count, each, from});
    energy.joules += energy.terms.back().joules();
  };
  add("multiply and add, with its weight read on the chip", "operation", work, kPicojoulesPerMultiply,
      "Horowitz, ISSCC 2014, 45 nm: multiply 0.2 pJ, add 0.1 pJ, a byte of SRAM 1.25 pJ; times 14, what an "
      "FPGA takes of an ASIC's dynamic power (Kuon and Rose, IEEE TCAD 2007)");
  add("weights read from the card's memory", "byte", read, kPicojoulesPerMemoryByte,
      "Horowitz, ISSCC 2014: 2.6 nJ for 8 bytes of DRAM");
  add("bytes over cables", "byte", sent, kPicojoulesPerCableByte,
      "a round 20 pJ a bit for both ends; no source");
  energy.joules_per_idle_watt = plan.interval_seconds * static_cast<double>(plan.solution.card.size());
  return energy;
}

}  // namespace millrace::compiler::report
