// Bench of the weight reader in front of a memory. Lines must come in order, pass after pass, at any pace of the memory
// and of the receiver, and from the first line again after a flush. The memory checks the AXI protocol. At full speed,
// the bench measures the latency from `active` to the first line, and the interval between passes.
#include <cstdio>

#include "kernels/tb/axi.hpp"

namespace millrace::kernels::tb {
namespace {

constexpr std::uint64_t kReaderBase = 0x1'2345'0000;
constexpr int kPace = 997;  // cycles before the pace changes; the first pace is full speed without flushes
constexpr int kActiveFrom = 11;

class ReaderRow {
 public:
  ReaderRow(const Parameters& p, Ports& ports, std::uint64_t seed)
      : clk(ports.at("clk")),
        parameters_(p),
        ports_(ports),
        rng_(seed),
        width_(static_cast<unsigned>(p["WIDTH"])),
        lines_(static_cast<unsigned>(p["LINES"])),
        memory_(ports, "axi_", kReaderBase, pass_bytes(p) + 4096, static_cast<unsigned>(p["BURST"]), rng_,
                [this](const std::string& what) { fail(what); }) {
    for (auto& byte : memory_.content()) byte = static_cast<std::uint8_t>(rng_.between(0, 255));
    ports_.at("addr").set(kReaderBase);
  }

  Port clk;
  int failures = 0;

  void drive(int cycle) {
    cycle_ = cycle;
    if (cycle % kPace == 0) {  // draw a new pace for both sides
      memory_.pace = cycle == 0         ? 1.0
                     : rng_.chance(0.3) ? 1.0
                                        : 0.1 + 0.1 * static_cast<double>(rng_.between(0, 8));
      taking_ = cycle == 0         ? 1.0
                : rng_.chance(0.3) ? 1.0
                                   : 0.1 + 0.1 * static_cast<double>(rng_.between(0, 8));
    }
    reset_ = cycle < 3;
    flush_ = cycle >= kPace && (flush_ ? !quiet_ || rng_.chance(0.5) : rng_.chance(0.0005));
    ports_.at("rst").set(reset_);
    ports_.at("flush").set(flush_);
    ports_.at("active").set(cycle >= kActiveFrom);
    ports_.at("m_ready").set(rng_.chance(taking_));
    memory_.drive();
  }

  void sample() {
    memory_.sample();
    quiet_ = ports_.at("quiet").get() != 0;
    if (reset_ || flush_) {
      next_ = 0;
      return;
    }
    if (ports_.at("error").get() != 0) fail("an error where there was none");
    if (ports_.at("m_valid").get() == 0 || ports_.at("m_ready").get() == 0) return;
    const Beat line = ports_.at("m_data").read();
    for (unsigned at = 0; at < width_; at += 8) {
      const unsigned bits = std::min(8U, width_ - at);
      if (line.get(at, bits) == (memory_.content()[next_ * pitch() + at / 8] & ((1U << bits) - 1))) continue;
      fail("line " + std::to_string(next_) + " is wrong from bit " + std::to_string(at) + " on");
      break;
    }
    if (seen_ == 0) latency_ = cycle_ - kActiveFrom;
    next_ = (next_ + 1) % lines_;
    if (next_ == 0 && cycle_ < kPace) {
      interval_ = cycle_ - pass_end_;
      pass_end_ = cycle_;
    }
    ++seen_;
  }

  void print() const {
    std::printf("  %-8s %s: %llu lines, latency %d, interval %d\n", parameters_.row().c_str(),
                failures == 0 ? "ok" : "FAILED", static_cast<unsigned long long>(seen_), latency_, interval_);
  }
  bool worked() const { return seen_ > 10 * std::uint64_t{lines_}; }

 private:
  static std::size_t pitch_of(const Parameters& p) {
    const std::size_t bytes = (static_cast<std::size_t>(p["WIDTH"]) + 7) / 8,
                      word = static_cast<std::size_t>(p["DATA_BYTES"]);
    if (bytes >= word) return (bytes + word - 1) / word * word;
    std::size_t pitch = 1;
    while (pitch < bytes) pitch *= 2;
    return pitch;
  }
  static std::size_t pass_bytes(const Parameters& p) {
    const std::size_t word = static_cast<std::size_t>(p["DATA_BYTES"]);
    return (pitch_of(p) * static_cast<std::size_t>(p["LINES"]) + word - 1) / word * word;
  }
  std::size_t pitch() const { return pitch_of(parameters_); }
  void fail(const std::string& what) {
    if (++failures <= 5) std::printf("  %s: %s\n", parameters_.row().c_str(), what.c_str());
  }

  const Parameters& parameters_;
  Ports& ports_;
  Rng rng_;
  unsigned width_, lines_;
  Memory memory_;
  double taking_ = 1;
  bool reset_ = true, flush_ = false, quiet_ = false;
  std::size_t next_ = 0;
  std::uint64_t seen_ = 0;
  int cycle_ = 0, latency_ = 0, interval_ = 0, pass_end_ = 0;
};

}  // namespace

void add_reader_bench(Benches& benches) {
  benches["mr_weight_reader"] = [](std::uint64_t seed, int rounds) {
    return run_rows<ReaderRow>(seed, 30'000 * rounds);
  };
}

}  // namespace millrace::kernels::tb
