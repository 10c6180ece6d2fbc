// Bench of loaded constants. It tests mr_parameters, which reads the constants from memory, and mr_load, which takes
// the constants of one block from the stream.
//
// For mr_load, words come at random and are never held back. Every line and every passed-on word must appear exactly
// one cycle later, round after round. For mr_parameters, a simulated host starts runs of all sizes, rewrites the
// arguments and starts the next run early. Memory fails, and resets come in mid-run. The bench checks the words, their
// number, `error`, `streamed`, `given`, the cycle of the interrupt and the AXI protocol.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "kernels/tb/axi.hpp"

namespace millrace::kernels::tb {
namespace {

class LoadRow {
 public:
  LoadRow(const Parameters& p, Ports& ports, std::uint64_t seed)
      : clk(ports.at("clk")),
        parameters_(p),
        ports_(ports),
        rng_(seed),
        width_(static_cast<unsigned>(p["WIDTH"])),
        line_words_((width_ + 63) / 64),
        own_(line_words_ * static_cast<unsigned>(p["LINES"])),
        all_(own_ + static_cast<unsigned>(p["REST"])),
        line_(line_words_ * 64) {}

  Port clk;
  int failures = 0;

  void drive(int cycle) {
    if (cycle % 499 == 0)
      pace_ = cycle == 0 || rng_.chance(0.3) ? 1.0 : 0.1 * static_cast<double>(rng_.between(1, 9));
    offered_ = rng_.chance(pace_);
    word_ = (static_cast<std::uint64_t>(rng_.between(0, 0xffffffff)) << 32) |
            static_cast<std::uint64_t>(rng_.between(0, 0xffffffff));  // noise if no word is offered
    ports_.at("s_valid").set(offered_);
    ports_.at("s_data").set(word_);
  }

  void sample() {
    expect((ports_.at("m_valid").get() != 0) == passes_, "passes on: valid");
    if (passes_) expect(ports_.at("m_data").get() == passed_, "passes on: data");
    expect((ports_.at("l_valid").get() != 0) == complete_, "a line: valid");
    if (complete_) expect(ports_.at("l_data").read() == line_.slice(0, width_), "a line: data");
    passes_ = offered_ && count_ >= own_;
    passed_ = word_;
    complete_ = offered_ && count_ < own_ && count_ % line_words_ == line_words_ - 1;
    if (!offered_) return;
    if (count_ < own_) line_.set(count_ % line_words_ * 64, 64, word_);
    if (++count_ == all_) {
      count_ = 0;
      ++rounds_;
    }
  }

  void print() const {
    const char* const result = failures == 0 ? "ok" : "FAILED";
    std::printf("  %-8s %s: %u times %u words\n", parameters_.row().c_str(), result, rounds_, all_);
  }
  bool worked() const { return rounds_ >= 3; }

 private:
  void expect(bool holds, const char* what) {
    if (!holds && ++failures <= 5)
      std::printf("  %s: round %u, word %u: %s is wrong\n", parameters_.row().c_str(), rounds_, count_, what);
  }

  const Parameters& parameters_;
  Ports& ports_;
  Rng rng_;
  unsigned width_, line_words_, own_, all_;
  double pace_ = 1;
  bool offered_ = false, passes_ = false, complete_ = false;
  std::uint64_t word_ = 0, passed_ = 0;
  Beat line_;
  unsigned count_ = 0, rounds_ = 0;
};

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kPages = 4;  // pages of memory before the words, and as many after them
constexpr std::uint64_t kLoadBase = 0x3'ffff'f000;
constexpr std::uint64_t kRunDeadlineCycles = 60'000;

class ParametersRow {
 public:
  ParametersRow(const Parameters& p, Ports& ports, std::uint64_t seed)
      : clk(ports.at("clk")),
        parameters_(p),
        ports_(ports),
        rng_(seed),
        words_(static_cast<unsigned>(p["WORDS"])),
        settle_cycles_(static_cast<std::uint64_t>(p["HOPS"]) + kSettle),
        memory_(ports, "axi_", kLoadBase, kPages * kPage + std::size_t{words_} * 8,
                static_cast<unsigned>(p["BURST"]), rng_, report()),
        host_(ports, "axil", rng_, report()) {}

  Port clk;
  int failures = 0;

  void drive(int) {
    if (reset_cycles_ > 0) {
      --reset_cycles_;
    } else if (running_ && cycle_ >= reset_at_) {
      reset_cycles_ = static_cast<int>(rng_.between(1, 3));
      ++resets_;
    }
    reset_ = reset_cycles_ > 0;
    if (reset_) forget();
    reading_ = cycle_ < reading_until_;
    ports_.at("rst").set(reset_);
    ports_.at("reading").set(reading_);
    memory_.drive();
    host_.drive();
  }

  void sample() {
    ++cycle_;
    // The modules that receive words do not reset their word counters.
    const bool word = ports_.at("load_valid").get() != 0;
    if (word) place_ = (place_ + 1) % words_;
    if (reset_) return;
    memory_.sample();
    if (word && place_ != (taken_ + 1) % words_) {
      if (taken_ != 0) fail("a word out of its place");
      owed_ = true;
    } else if (word) {
      take(ports_.at("load_data").get());
    }
    if (reading_) still_ = cycle_ + 1;
    const bool interrupt = ports_.at("irq").get() != 0;
    if (interrupt && !interrupted_) {
      if (!running_) fail("an interrupt without a run");
      const std::uint64_t due = std::max(last_word_ + settle_cycles_, still_ + kFromStill);
      if (run_.fits && cycle_ != due) {
        const std::string taken = std::to_string(cycle_ - last_word_);
        fail("done " + taken + " cycles after the last word, not " + std::to_string(due - last_word_));
      }
    }
    interrupted_ = interrupt;
    host_.sample();  // may read that the run is done in this very cycle
    if (!running_ && host_.idle()) return start();
    if (running_ && cycle_ > started_ + kRunDeadlineCycles) {
      fail("deadlock: a run does not complete, " + std::to_string(taken_) + " of " + std::to_string(words_) +
           " words came");
      reset_cycles_ = 3;
    }
  }

  void print() const {
    std::printf(
        "  %-8s %s: %u runs, %u of them requested before the previous run ended, "
        "%u refused, %u with failing memory, %u reset\n",
        parameters_.row().c_str(), failures == 0 ? "ok" : "FAILED", runs_, chained_, refused_, failed_,
        resets_);
  }
  bool worked() const {
    return chained_ > 0 && refused_ > 0 && failed_ > 0 && resets_ > 0 && host_.overlapped() > 0 &&
           (owed_ || words_ == 1);
  }

 private:
  static constexpr std::uint64_t kFromStill = 2;  // cycles from the last reader's end to the interrupt
  static constexpr std::uint64_t kSettle = 7;  // cycles from the last word to the interrupt, plus one per hop

  Report report() {
    return [this](const std::string& what) { fail(what); };
  }
  void fail(const std::string& what) {
    if (++failures <= 5)
      std::printf("  %s: cycle %llu: %s\n", parameters_.row().c_str(),
                  static_cast<unsigned long long>(cycle_), what.c_str());
  }

  /// Forgets what a reset clears in the host, in the memory and in mr_parameters. All three are reset together.
  void forget() {
    if (running_) streamed_.reset();  // the unit may or may not have taken the run
    taken_ = 0;
    running_ = broken_ = interrupted_ = memory_.failing = false;
    next_.reset();
    memory_.reset();
    host_.reset();
  }

  struct Run {
    std::size_t place = 0;  // position of the run's words in memory
    std::uint32_t load_offset = 0, load_bytes = 0, streamed_offset = 0;
    bool fits = false;
    std::uint64_t buffer() const { return kLoadBase + place - load_offset; }
  };

  Run draw() {
    Run run;
    run.place = kPage * static_cast<std::size_t>(rng_.between(0, kPages));
    run.load_offset =
        static_cast<std::uint32_t>(kPage * static_cast<std::uint64_t>(rng_.between(0, 0xfffff)));
    run.streamed_offset =
        static_cast<std::uint32_t>(kPage * static_cast<std::uint64_t>(rng_.between(0, 0xfffff)));
    run.load_bytes = words_ * 8;
    run.fits = ++drawn_ % 6 != 3 && !rng_.chance(0.1);  // some runs of each kind, even in rows with few runs
    if (!run.fits) {
      constexpr std::uint32_t kWrong[] = {1, 8, 64, 0x8000'0000u};
      const std::uint32_t by = kWrong[rng_.between(0, 3)];
      run.load_bytes = rng_.chance(0.3) ? 0 : run.load_bytes + (rng_.chance(0.5) ? by : 0 - by);
    }
    return run;
  }

  void ask_for(const Run& run) {
    host_.write_argument(0x10, static_cast<std::uint32_t>(run.buffer()));
    host_.write_argument(0x14, static_cast<std::uint32_t>(run.buffer() >> 32));
    host_.write_argument(0x1c, 0x123);
    host_.write_argument(0x24, run.load_offset);
    host_.write_argument(0x2c, run.load_bytes);
    host_.write_argument(0x34, run.streamed_offset);
    host_.read(0x2c, [this, run](std::uint32_t got) {
      if (got != run.load_bytes) fail("an argument reads back otherwise");
    });
    host_.write(0x00, 1);
  }

  void begin(const Run& run) {
    run_ = run;
    taken_ = 0;
    started_ = cycle_;
    still_ = 0;
    reading_until_ =
        rng_.chance(0.3) ? cycle_ + static_cast<std::uint64_t>(rng_.between(1, 200 + 4 * words_)) : 0;
    reset_at_ = rng_.chance(0.15) ? cycle_ + static_cast<std::uint64_t>(rng_.between(1, 100 + 3 * words_))
                                  : ~std::uint64_t{0};
    running_ = true;
  }

  void start() {
    memory_.pace = rng_.chance(0.3) ? 1.0 : 0.1 * static_cast<double>(rng_.between(1, 9));
    memory_.failing = ++begun_ % 6 == 2 || rng_.chance(0.05);
    for (auto& byte : memory_.content()) byte = static_cast<std::uint8_t>(rng_.between(0, 255));
    begin(draw());
    host_.write(0x04, 1);
    host_.write(0x08, 1);
    ask_for(run_);
    poll();
  }

  void poll() {
    host_.read(0x00, [this](std::uint32_t control) {
      if ((control & 8u) != 0) {  // taken: the arguments now belong to the next run, which may start early
        if (rng_.chance(0.4)) {
          ask_for(*(next_ = draw()));
        } else {
          for (const std::uint32_t argument : {0x10U, 0x14U, 0x24U, 0x2cU, 0x34U})
            host_.write_argument(argument, static_cast<std::uint32_t>(rng_.between(0, 0xffffffff)));
        }
      }
      if ((control & 2u) == 0) return poll();
      finish();
      host_.write(0x0c, 1);
      host_.write(0x00, 0x10);
      running_ = false;
      if (!next_) return;
      begin(*next_);
      next_.reset();
      ++chained_;
      poll();
    });
  }

  void finish() {
    ++runs_;
    if (!run_.fits) ++refused_;
    if (run_.fits && memory_.failing) ++failed_;
    if (run_.fits) broken_ = memory_.failing;
    if (run_.fits) streamed_ = run_.buffer() + run_.streamed_offset;
    if (taken_ != (run_.fits ? words_ : 0)) fail(std::to_string(taken_) + " words came of a run");
    const bool refused = !run_.fits || broken_;
    if ((ports_.at("error").get() != 0) != refused) fail("error is wrong");
    if (streamed_ && ports_.at("streamed").get() != *streamed_) fail("streamed is wrong");
    if (streamed_ && ports_.at("given").get() == 0) fail("nothing is said to be given");
  }

  void take(std::uint64_t word) {
    if (!running_ || !run_.fits || taken_ >= words_) return fail("a word nobody asked for");
    if (ports_.at("given").get() != 0) fail("given while it is taken");
    std::uint64_t want = 0;
    for (unsigned i = 0; i < 8; ++i)
      want |= std::uint64_t{memory_.content()[run_.place + std::size_t{taken_} * 8 + i]} << (8 * i);
    if (word != want) fail("word " + std::to_string(taken_) + " is wrong");
    if (++taken_ == words_) last_word_ = cycle_;
  }

  const Parameters& parameters_;
  Ports& ports_;
  Rng rng_;
  unsigned words_;
  std::uint64_t settle_cycles_;
  Memory memory_;
  RegisterMaster host_;
  int reset_cycles_ = 4;
  bool reset_ = true, running_ = false, interrupted_ = false;
  bool reading_ = false;
  std::uint64_t reading_until_ = 0, still_ = 0;  // the cycle in which the last reader ends
  bool broken_ = false;                          // memory failed in the last run with a fitting size
  bool owed_ = false;                            // the unit sent the rest of a run that a reset ended
  unsigned place_ = 0;                           // index of the next word, as the receivers count
  Run run_;
  std::optional<Run> next_;                  // a run that was started early, during the present run
  std::optional<std::uint64_t> streamed_{};  // the address from the last run with a fitting size
  unsigned taken_ = 0, runs_ = 0, chained_ = 0, refused_ = 0, failed_ = 0, resets_ = 0, drawn_ = 0,
           begun_ = 0;
  std::uint64_t cycle_ = 0, started_ = 0, last_word_ = 0, reset_at_ = 0;
};

}  // namespace

void add_load_bench(Benches& benches) {
  benches["mr_load"] = [](std::uint64_t seed, int rounds) {
    return run_rows<LoadRow>(seed, 20'000 * rounds);
  };
  benches["mr_parameters"] = [](std::uint64_t seed, int rounds) {
    return run_rows<ParametersRow>(seed, 100'000 * rounds);
  };
}

}  // namespace millrace::kernels::tb
