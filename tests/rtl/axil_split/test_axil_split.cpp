// Tests mr_axil_split with three windows in a Verilator simulation. Writes and reads are random, and every AXI channel
// stalls at random. Each access must reach exactly one window, once, with its address and data, and return the answer
// of that window. An access to a window that does not exist must return DECERR. In each cycle, the test also changes all
// inputs but the clock, and no output may follow: AXI forbids combinational paths between inputs and outputs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "Vmr_axil_split.h"
#include "verilated.h"

namespace {

constexpr unsigned kWindows = 3;

struct Bench {
  Vmr_axil_split top;
  std::mt19937 random{0};
  // For each window: whether it has received a write address or write data, and whether it owes an answer.
  bool write_address[kWindows] = {}, write_data[kWindows] = {}, answer[kWindows] = {},
       read_answer[kWindows] = {};
  std::uint32_t awaddr = 0, wdata = 0, wstrb = 0, araddr = 0;
  unsigned writes[kWindows] = {}, reads[kWindows] = {};

  bool chance() { return random() % 3 != 0; }

  void fail(const char* what) {
    std::printf("FAILED: %s\n", what);
    std::exit(1);
  }

  /// Returns all valid and ready signals that the module drives.
  std::uint32_t handshakes() const {
    std::uint32_t all = 0;
    for (const unsigned bits : {unsigned(top.s_awready), unsigned(top.s_wready), unsigned(top.s_bvalid),
                                unsigned(top.s_arready), unsigned(top.s_rvalid)})
      all = all << 1U | bits;
    for (const unsigned bits : {unsigned(top.m_awvalid), unsigned(top.m_wvalid), unsigned(top.m_bready),
                                unsigned(top.m_arvalid), unsigned(top.m_rready)})
      all = all << kWindows | bits;
    return all;
  }

  /// Inverts all valid and ready inputs of the module, so that the test sees whether an output follows at once.
  void invert_inputs() {
    for (auto* one : {&top.s_awvalid, &top.s_wvalid, &top.s_bready, &top.s_arvalid, &top.s_rready})
      *one = *one ^ 1U;
    for (auto* all : {&top.m_awready, &top.m_wready, &top.m_bvalid, &top.m_arready, &top.m_rvalid})
      *all = *all ^ ((1U << kWindows) - 1U);
    top.s_awaddr = static_cast<std::uint16_t>(~top.s_awaddr);
    top.s_araddr = static_cast<std::uint16_t>(~top.s_araddr);
  }

  /// Simulates one clock cycle. The windows behave as AXI slaves. Calls before() once the cycle's inputs have settled.
  template <class Before>
  void clock(Before before) {
    unsigned awready = 0, wready = 0, arready = 0;
    for (unsigned w = 0; w < kWindows; ++w) {
      if (!write_address[w] && !answer[w] && chance()) awready |= 1U << w;
      if (!write_data[w] && !answer[w] && chance()) wready |= 1U << w;
      if (!read_answer[w] && chance()) arready |= 1U << w;
    }
    top.m_awready = awready;
    top.m_wready = wready;
    top.m_arready = arready;
    unsigned bvalid = 0, rvalid = 0;
    for (unsigned w = 0; w < kWindows; ++w) {
      bvalid |= answer[w] ? 1U << w : 0;
      rvalid |= read_answer[w] ? 1U << w : 0;
    }
    top.m_bvalid = bvalid;
    top.m_rvalid = rvalid;
    top.m_bresp = 0b01'10'00;  // each window has a different answer
    top.m_rresp = 0b01'10'00;
    for (unsigned w = 0; w < kWindows; ++w) top.m_rdata[w] = 0xa0000000U + (w << 16U) + araddr;
    top.eval();
    const std::uint32_t driven = handshakes();
    invert_inputs();
    top.eval();
    if (handshakes() != driven) fail("an output follows an input within a cycle");
    invert_inputs();
    top.eval();
    before();
    const unsigned aw = top.m_awvalid & awready, wd = top.m_wvalid & wready, ar = top.m_arvalid & arready;
    const unsigned b = top.m_bready & bvalid, r = top.m_rready & rvalid;
    if ((top.m_awvalid & (top.m_awvalid - 1)) != 0 || (top.m_arvalid & (top.m_arvalid - 1)) != 0)
      fail("two windows at once");
    const std::uint32_t address = top.m_awaddr, data = top.m_wdata, strobe = top.m_wstrb,
                        read_address = top.m_araddr;
    top.clk = 1;
    top.eval();
    top.clk = 0;
    for (unsigned w = 0; w < kWindows; ++w) {
      const unsigned bit = 1U << w;
      if (b & bit) answer[w] = false;
      if (r & bit) read_answer[w] = false;
      if (aw & bit) write_address[w] = true, awaddr = address;
      if (wd & bit) write_data[w] = true, wdata = data, wstrb = strobe;
      if (write_address[w] && write_data[w])
        write_address[w] = write_data[w] = false, answer[w] = true, ++writes[w];
      if (ar & bit) read_answer[w] = true, araddr = read_address, ++reads[w];
    }
    top.eval();
  }

  void write(std::uint32_t address, std::uint32_t data, std::uint32_t strobe) {
    const unsigned window = address >> 12;
    unsigned before[kWindows];
    for (unsigned w = 0; w < kWindows; ++w) before[w] = writes[w];
    bool address_due = true, data_due = true, answered = false;
    unsigned response = 0;
    for (int i = 0; i < 200 && !answered; ++i) {
      top.s_awvalid = address_due && (top.s_awvalid || chance());
      top.s_wvalid = data_due && (top.s_wvalid || chance());
      top.s_awaddr = address;
      top.s_wdata = data;
      top.s_wstrb = strobe;
      top.s_bready = chance();
      bool address_taken = false, data_taken = false;
      clock([&] {
        address_taken = top.s_awvalid && top.s_awready;
        data_taken = top.s_wvalid && top.s_wready;
        answered = top.s_bvalid && top.s_bready;
        response = top.s_bresp;
      });
      if (address_taken) address_due = false;
      if (data_taken) data_due = false;
    }
    top.s_awvalid = top.s_wvalid = top.s_bready = 0;
    if (!answered) fail("a write without an answer");
    for (unsigned w = 0; w < kWindows; ++w) {
      if (writes[w] != before[w] + (w == window ? 1 : 0)) fail("a write went astray");
    }
    if (window >= kWindows) {
      if (response != 3) fail("a write to no window was not refused");
    } else if (awaddr != (address & 0xfffU) || wdata != data || wstrb != strobe ||
               response != ((0b01'10'00U >> (2 * window)) & 3U)) {
      fail("a write was changed");
    }
  }

  void read(std::uint32_t address) {
    const unsigned window = address >> 12;
    unsigned before[kWindows];
    for (unsigned w = 0; w < kWindows; ++w) before[w] = reads[w];
    bool due = true, answered = false;
    unsigned response = 0;
    std::uint32_t data = 0;
    for (int i = 0; i < 200 && !answered; ++i) {
      top.s_arvalid = due && (top.s_arvalid || chance());
      top.s_araddr = address;
      top.s_rready = chance();
      bool taken = false;
      clock([&] {
        taken = top.s_arvalid && top.s_arready;
        answered = top.s_rvalid && top.s_rready;
        response = top.s_rresp;
        data = top.s_rdata;
      });
      if (taken) due = false;
    }
    top.s_arvalid = top.s_rready = 0;
    if (!answered) fail("a read without an answer");
    for (unsigned w = 0; w < kWindows; ++w) {
      if (reads[w] != before[w] + (w == window ? 1 : 0)) fail("a read went astray");
    }
    if (window >= kWindows) {
      if (response != 3 || data != 0) fail("a read of no window was not refused");
    } else if (araddr != (address & 0xfffU) || data != 0xa0000000U + (window << 16U) + (address & 0xfffU) ||
               response != ((0b01'10'00U >> (2 * window)) & 3U)) {
      fail("a read was changed");
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  const unsigned seed = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  std::printf("seed %u\n", seed);
  Bench bench;
  bench.random.seed(seed);
  bench.top.rst = 1;
  for (int i = 0; i < 3; ++i) bench.clock([] {});
  bench.top.rst = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t address = (bench.random() % (kWindows + 2)) << 12U | (bench.random() & 0xffcU);
    if (bench.chance()) {
      bench.write(address, static_cast<std::uint32_t>(bench.random()), bench.random() & 0xfU);
    } else {
      bench.read(address);
    }
  }
  std::printf("3000 accesses as they should be\n");
  return 0;
}
