// The emulated machine as text: select_backend() writes the text to MILLRACE_EMULATION, and the shim reads
// it. README.md describes the format.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::emulator {

struct Topology {
  struct Card {
    std::string name, device;
    std::uint64_t memory_bytes = 0;  // total of all memory banks
    bool operator==(const Card&) const = default;
  };
  struct End {
    std::uint32_t card = 0, connector = 0;
    bool operator==(const End&) const = default;
  };
  struct Cable {
    End a, b;
    double gigabits_per_second = 0;  // in each direction; used only with Options::pace; 0: takes no time
    double latency_ns = 0;
    bool udp = false;
    std::string address_a{},
        address_b{};             // for UDP: "10.1.2.3:5000"; empty: any port of the loopback interface
    plan::CableFaults faults{};  // for UDP
    bool operator==(const Cable&) const = default;
  };
  struct Options {
    Manners manners = Manners::kKind;
    std::chrono::milliseconds program_time{0};     // delay added to each load
    std::chrono::milliseconds cable_time{0};       // from the end of a load until the card's cables are up
    std::chrono::milliseconds reset_time{0};       // delay of a reset of the device
    std::chrono::nanoseconds sync_cost{0};         // of each copy between a buffer's two copies
    std::chrono::nanoseconds start_cost{0};        // of each start of a run
    std::chrono::nanoseconds register_cost{0};     // of each access to a register
    std::chrono::milliseconds call_timeout{5000};  // a card that takes longer to answer is killed
    std::chrono::microseconds spin{0};             // how long cards and waiters poll before they sleep
    bool rtl = false;                              // whether cards simulate the generated SystemVerilog
    double pace = 0;  // cards and cables take this many times their predicted time; 0: as fast as they can
    // Pairs of connectors whose plugs are exchanged, so that the cabling differs from the cluster file. Parsed ends may
    // name cards that do not exist; exchange_plugs() refuses them.
    std::vector<std::pair<End, End>> swaps;
    bool operator==(const Options&) const = default;
  };
  std::vector<Card> cards;  // in the order of their XRT index
  std::vector<Cable> cables;
  Options options;
  bool operator==(const Topology&) const = default;
};

/// Exchanges the plugs of the connectors in options.swaps, in their order, and clears options.swaps. to_text() writes no swaps. Returns kInvalidInput
/// if a swap names a card that does not exist.
Status exchange_plugs(Topology& topology);

std::string to_text(const Topology& topology);

/// Parses the text. Refuses unknown words, cards without memory, cables to unknown cards, and connectors used twice.
/// The error names what is wrong.
Result<Topology> parse_topology(std::string_view text);

/// Parses options such as "program_time=2500 call_timeout=200" and refuses unknown words and values out of range. Times
/// are in milliseconds, spin is in microseconds, costs are in nanoseconds, rtl is 0 or 1, pace is a number of at least 1,
/// manners is kind or hardware, swap is CARD.CONNECTOR/CARD.CONNECTOR. With manners=hardware, times that the text does not give have the values of hardware.
Status parse_options(std::string_view text, Topology::Options& options);

}  // namespace millrace::runtime::emulator
