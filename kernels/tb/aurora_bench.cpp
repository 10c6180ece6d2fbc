// Bench of the Aurora adapter. The simulated channel goes up and down, with words in both directions.
#include <cstdio>

#include "kernels/tb/bench.hpp"

namespace millrace::kernels::tb {
namespace {

class AuroraRow {
 public:
  AuroraRow(const Parameters& parameters, std::map<std::string, Port>& ports, std::uint64_t seed)
      : clk(ports.at("clk")), parameters_(parameters), ports_(ports), rng_(seed) {}

  Port clk;
  int failures = 0;

  void drive(int cycle) {
    reset_ = cycle < 3;
    if (rng_.chance(channel_ ? 0.01 : 0.1)) channel_ = !channel_;
    error_ = rng_.chance(0.002);
    set("rst", reset_);
    set("channel_up", channel_);
    set("hard_err", error_);
    for (const char* port : {"tx_valid", "tx_last", "s_axi_tx_tready", "m_axi_rx_tvalid", "m_axi_rx_tlast"})
      set(port, rng_.chance(0.5));
    for (const char* port : {"tx_data", "m_axi_rx_tdata"}) {
      Beat word(ports_.at(port).bits);
      for (unsigned at = 0; at < word.bits(); at += 32)
        word.set(at, 32, static_cast<std::uint64_t>(rng_.between(0, 0xffffffff)));
      ports_.at(port).write(0, word);
    }
  }

  void sample() {
    expect(get("s_axi_tx_tvalid") == (get("tx_valid") && channel_), "transmit: valid");
    expect(get("tx_ready") == (!channel_ || get("s_axi_tx_tready")), "transmit: ready");
    expect(get("s_axi_tx_tlast") == get("tx_last"), "transmit: last");
    expect(ports_.at("s_axi_tx_tdata").read() == ports_.at("tx_data").read(), "transmit: data");
    expect(ports_.at("s_axi_tx_tkeep").get() == (std::uint64_t{1} << parameters_["BYTES"]) - 1,
           "transmit: keep");
    if (seen_) {
      expect(get("rx_valid") == received_valid_, "receive: valid");
      if (received_valid_) {
        expect(get("rx_last") == received_last_, "receive: last");
        expect(ports_.at("rx_data").read() == received_, "receive: data");
      }
      expect(get("up") == (steady_ > parameters_["SETTLE"]), "up");
    }
    seen_ = seen_ || reset_;
    received_valid_ = get("m_axi_rx_tvalid") && !reset_;
    received_last_ = get("m_axi_rx_tlast");
    received_ = ports_.at("m_axi_rx_tdata").read();
    steady_ = reset_ || !channel_ || error_ ? 0 : steady_ + 1;
    ups_ += get("up");
  }

  void print() const {
    const char* const result = failures == 0 ? "ok" : "FAILED";
    std::printf("  %-8s %s: up in %d cycles\n", parameters_.row().c_str(), result, ups_);
  }
  bool worked() const { return ups_ > 0; }

 private:
  bool get(const char* port) const { return ports_.at(port).get() != 0; }
  void set(const char* port, bool on) const { ports_.at(port).set(on); }
  void expect(bool holds, const char* what) {
    if (!holds && ++failures <= 5) std::printf("  %s: %s is wrong\n", parameters_.row().c_str(), what);
  }

  const Parameters& parameters_;
  std::map<std::string, Port>& ports_;
  Rng rng_;
  bool reset_ = true, channel_ = false, error_ = false, seen_ = false, received_valid_ = false,
       received_last_ = false;
  Beat received_;
  int steady_ = 0, ups_ = 0;
};

}  // namespace

void add_aurora_bench(Benches& benches) {
  benches["mr_aurora"] = [](std::uint64_t seed, int rounds) {
    return run_rows<AuroraRow>(seed, 20'000 * rounds);
  };
}

}  // namespace millrace::kernels::tb
