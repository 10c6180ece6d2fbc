#include <algorithm>

#include "compiler/report/columns.hpp"
#include "compiler/report/figures.hpp"
#include "compiler/report/parts.hpp"
#include "compiler/report/report.hpp"

namespace millrace::compiler::report {
namespace {

class Page {
 public:
  Page(const Plan& plan, bool colour, const Alternatives& alternatives)
      : plan_(plan), alternatives_(alternatives), colour_(colour) {}

  std::string run() {
    headline();
    if (!plan_.unpredicted().empty()) {
      for (std::uint32_t p = 0; p < plan_.solution.card.size(); ++p) names(p);
      return out_;
    }
    cards();
    blocks();
    cables();
    rooflines();
    limits();
    alternatives();
    times();
    return out_;
  }

 private:
  std::string paint(const char* code, const std::string& text) const {
    return colour_ ? std::string("\x1b[") + code + "m" + text + "\x1b[0m" : text;
  }
  std::string bold(const std::string& text) const { return paint("1", text); }
  const explore::Card& card(std::uint32_t place) const { return card_of(plan_, place); }

  void headline() {
    const std::size_t used = plan_.cards();
    std::string text = plan_.model.info.name + " on " + plan_.cluster().name + ": " + std::to_string(used) +
                       " of " + std::to_string(plan_.cluster().cards.size()) + " cards";
    if (plan_.replicas() > 1) text += " in " + std::to_string(plan_.replicas()) + " replicas";
    if (plan_.unpredicted().empty())
      text += ", " + with_commas(plan_.frames_per_second()) + " frames/s, " +
              fixed(plan_.latency_seconds * 1e6, 1) + " us a frame";
    out_ += bold(wrapped(text, "", "  "));
    for (const auto& remark : remarks(plan_)) out_ += wrapped(remark, "  ", "  ");
  }

  void names(std::uint32_t place) {
    std::string text;
    for (const auto& part : plan_.solution.parts)
      if (!part.host && part.place == place)
        for (const auto i : part.operations) text += " " + plan_.program().blocks[i].name;
    out_ += wrapped(text.empty() ? text : text.substr(1), "  " + left(card(place).name, 10) + " ", "    ");
  }

  /// Formats the used part of a resource in percent, in red if nearly all of the resource is used.
  std::string share(std::uint64_t used, std::uint64_t available) const {
    if (available == 0 && used == 0) return right("-", 7);
    const double part = static_cast<double>(used) / std::max(1.0, static_cast<double>(available));
    const std::string text = right(fixed(part * 100, 0) + " %", 7);
    return part > 0.95 ? paint("31", text) : text;
  }

  void cards() {
    out_ += "\n" + bold("  card       device   region   frames/s    LUT     FF    DSP   BRAM   URAM") + "\n";
    for (std::uint32_t p = 0; p < plan_.analysis.places.size(); ++p) {
      const auto& figures = plan_.analysis.places[p];
      for (std::size_t r = 0; r < figures.regions.size(); ++r) {
        const auto& region = figures.regions[r];
        out_ += "  " + left(r == 0 ? card(p).name : "", 10) + " " + left(r == 0 ? card(p).device : "", 8) +
                " " + left(region.name, 7) +
                right(r == 0 ? short_number(1 / figures.interval_seconds) : "", 10);
        for (const auto k : {explore::kLut, explore::kFf, explore::kDsp, explore::kBram18, explore::kUram})
          out_ += share(region.used[k], region.available[k]);
        out_ += "\n";
      }
    }
    out_ += "  percentages: of the resources that the shell and --max-utilisation leave free\n";
  }

  void blocks() {
    out_ += "\n" + bold("  block                card          cycles  built as") + "\n";
    for (const auto& part : plan_.solution.parts) {
      if (part.host) continue;
      for (const auto i : part.operations) {
        const auto& built = implementation_of(plan_, i);
        out_ +=
            wrapped(built.name,
                    "  " + left(plan_.program().blocks[i].name, 20) + " " + left(card(part.place).name, 8) +
                        right(with_commas(static_cast<double>(built.interval_cycles)), 12) + "  ",
                    std::string(45, ' '));
      }
    }
    if (const std::string host = on_the_host(plan_); !host.empty())
      out_ += wrapped(host, "  on the host: ", "    ");
    host_blocks();
  }

  /// Lists the blocks that the host computes between two cards. Their times are part of the latency.
  void host_blocks() {
    std::string lines;
    for (const HostBlock& block : plan_.lowered->host) {
      if (!block.between) continue;
      const HostBytes bytes = host_bytes(plan_, block);
      lines += "  " + left(block.block, 28) + right(duration(block.seconds), 16) +
               right(with_commas(static_cast<double>(bytes.input)), 14) +
               right(with_commas(static_cast<double>(bytes.output)), 14) + "\n";
    }
    if (!lines.empty())
      out_ += "\n" + bold("  on the host, between cards    time of a core      bytes in     bytes out") +
              "\n" + lines;
  }

  void cables() {
    if (plan_.analysis.cables.empty()) return;
    out_ += "\n" + bold("  cable                          bytes a frame   used") + "\n";
    for (const auto& cable : plan_.analysis.cables)
      out_ += "  " + left(card(cable.from).name + " > " + card(cable.to).name, 28) +
              right(with_commas(static_cast<double>(cable.bytes)), 16) +
              right(fixed(cable.share * 100, 1) + " %", 7) + "\n";
  }

  void rooflines() {
    out_ +=
        "\n" + bold("  frames/s limit        DSPs    memory    cables                        reached") + "\n";
    for (std::uint32_t p = 0; p < plan_.analysis.places.size(); ++p) {
      const auto& roof = plan_.analysis.places[p].roofline;
      out_ += "  " + left(card(p).name, 14) + right(short_number(roof.compute), 10) +
              right(short_number(roof.memory), 10) + right(short_number(roof.links), 10) +
              right(short_number(roof.attained), 33) + "\n";
    }
  }

  void limits() {
    out_ += "\n" + wrapped(plan_.analysis.bottleneck, "  ", "  ");
    for (const auto& lift : plan_.analysis.lifts) out_ += wrapped(lift, "  ", "  ");
  }

  void alternatives() {
    if (!alternatives_.found.empty()) {
      out_ += "\n" + bold("  cards   replicas   best for       frames/s     latency") + "\n";
      for (const auto& alternative : alternatives_.found)
        out_ += "  " + right(std::to_string(alternative.cards), 5) +
                right(std::to_string(alternative.replicas), 11) + "   " +
                left(explore::objective_name(alternative.objective), 10) +
                right(with_commas(alternative.frames_per_second()), 13) +
                right(duration(alternative.latency_seconds), 12) + "\n";
      out_ += "  rates and latencies are sums over blocks, not simulated\n";
    }
    if (!alternatives_.left_out.empty())
      out_ += wrapped("alternatives: " + alternatives_.left_out, "  ", "  ");
  }

  void times() {
    out_ += "\n  explored in " + fixed(plan_.times.exploration_ms, 1) + " ms, predicted in " +
            fixed(plan_.times.prediction_ms, 1) + " ms\n";
    out_ += "  rates and latencies exclude the transfers between host and cards\n";
  }

  const Plan& plan_;
  const Alternatives& alternatives_;
  bool colour_;
  std::string out_;
};

}  // namespace

std::string terminal(const Plan& plan, bool colour, const Alternatives& alternatives) {
  return Page(plan, colour, alternatives).run();
}

}  // namespace millrace::compiler::report
