// Benches of the modules that check and make the datagrams of UDP links. They use the datagrams of
// tests/vectors/link_datagrams, with random pauses on both sides. udp_link_bench.cpp tests whole links.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/tb/bench.hpp"

namespace millrace::kernels::tb {
namespace {

constexpr unsigned kBytes = 64;  // bytes of a beat

struct Vector {
  std::string name;
  bool good = false;
  std::vector<std::uint8_t> bytes;
};

/// Reads the file that MILLRACE_LINK_VECTORS names. In each line, the second word is the expected verdict, and the last
/// word is the datagram in hexadecimal digits.
std::vector<Vector> read_vectors() {
  const char* const path = std::getenv("MILLRACE_LINK_VECTORS");
  std::ifstream file(path == nullptr ? "" : path);
  if (!file)
    throw std::runtime_error("the environment variable MILLRACE_LINK_VECTORS names no file of test vectors");
  std::vector<Vector> vectors;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    Vector v;
    std::string verdict, hex;
    words >> v.name >> verdict;
    while (words >> hex) {
    }
    v.good = verdict == "none";
    for (std::size_t i = 0; hex != "-" && i < hex.size(); i += 2)
      v.bytes.push_back(static_cast<std::uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    if (!v.bytes.empty()) vectors.push_back(std::move(v));  // AXI-Stream has no packet without bytes
  }
  return vectors;
}

class UdpInRow {
 public:
  UdpInRow(const Parameters& parameters, std::map<std::string, Port>& ports, std::uint64_t seed)
      : clk(ports.at("clk")), parameters_(parameters), ports_(ports), rng_(seed), vectors_(read_vectors()) {}

  Port clk;
  int failures = 0;

  void drive(int cycle) {
    set("rst", cycle < 3);
    if (cycle < 3) return set("s_valid", false);
    if (cycle % 1000 == 0) pause_ = rng_.between(0, 2);
    if (!offers_ && rng_.chance(pause_ == 0 ? 1.0 : 0.6)) offer();
    set("s_valid", offers_);
    set("m_ready", rng_.chance(pause_ == 1 ? 0.3 : 1.0));
  }

  void sample() {
    const bool leaves = get("m_valid") && get("m_ready");
    if (leaves) take();
    if (get("s_valid") && get("s_ready")) offers_ = false;
  }

  void print() const {
    std::printf("  %-8s %s: %d datagrams, %zu of %zu vectors\n", parameters_.row().c_str(),
                failures == 0 ? "ok" : "FAILED", datagrams_, seen_.size(), vectors_.size());
  }
  bool worked() const { return seen_.size() == vectors_.size(); }

 private:
  struct Expected {
    Beat data;
    bool last = false, good = false;
    std::size_t vector = 0;
  };

  bool get(const char* port) const { return ports_.at(port).get() != 0; }
  void set(const char* port, bool on) const { ports_.at(port).set(on); }

  /// Offers the next beat of the current datagram, or the first beat of another datagram.
  void offer() {
    if (at_ == 0)
      current_ = static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(vectors_.size()) - 1));
    const Vector& v = vectors_[current_];
    Expected beat;
    beat.data = Beat(8 * kBytes);
    std::uint64_t keep = 0;
    for (unsigned i = 0; i < kBytes && at_ + i < v.bytes.size(); ++i) {
      beat.data.set(8 * i, 8, v.bytes[at_ + i]);
      keep |= std::uint64_t{1} << i;
    }
    at_ += kBytes;
    beat.last = at_ >= v.bytes.size();
    beat.good = v.good;
    beat.vector = current_;
    if (beat.last) at_ = 0;
    ports_.at("s_data").write(0, beat.data);
    ports_.at("s_keep").set(keep);
    set("s_last", beat.last);
    offers_ = true;
    expected_.push_back(std::move(beat));
  }

  void take() {
    if (expected_.empty()) return expect(false, "a beat came from nowhere", "");
    const Expected beat = std::move(expected_.front());
    expected_.pop_front();
    const std::string& name = vectors_[beat.vector].name;
    expect(ports_.at("m_data").read() == beat.data, "data", name);
    expect(get("m_last") == beat.last, "last", name);
    if (!beat.last) return;
    expect(get("m_good") == beat.good, "verdict", name);
    ++datagrams_;
    seen_.insert(beat.vector);
  }

  void expect(bool holds, const char* what, const std::string& vector) {
    if (!holds && ++failures <= 5)
      std::printf("  %s: %s of %s is wrong\n", parameters_.row().c_str(), what, vector.c_str());
  }

  const Parameters& parameters_;
  std::map<std::string, Port>& ports_;
  Rng rng_;
  const std::vector<Vector> vectors_;
  std::deque<Expected> expected_;
  std::size_t current_ = 0, at_ = 0;
  std::int64_t pause_ = 0;
  bool offers_ = false;
  int datagrams_ = 0;
  std::set<std::size_t> seen_;
};

/// Several sources offer the good datagrams of the vectors to mr_udp_out. The bytes that the module fills in are noise
/// at first. Each datagram that leaves must have the same bytes as the vector.
class UdpOutRow {
 public:
  UdpOutRow(const Parameters& parameters, std::map<std::string, Port>& ports, std::uint64_t seed)
      : clk(ports.at("clk")),
        parameters_(parameters),
        ports_(ports),
        rng_(seed),
        sources_(positive(parameters, "N")) {
    for (Vector& v : read_vectors())
      if (v.good && v.bytes.size() <= kBytes + positive(parameters, "MOST")) vectors_.push_back(std::move(v));
  }

  Port clk;
  int failures = 0;

  void drive(int cycle) {
    set("rst", cycle < 3);
    if (cycle < 3) return ports_.at("s_valid").set(0);
    if (cycle % 1000 == 0) pause_ = rng_.between(0, 2);
    std::uint64_t valid = 0, last = 0;
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      Source& source = sources_[k];
      if (!source.offers && rng_.chance(pause_ == 0 ? 1.0 : 0.4)) offer(source, static_cast<unsigned>(k));
      if (!source.offers) continue;
      valid |= std::uint64_t{1} << k;
      if (source.at + kBytes >= vectors_[source.coming.back().vector].bytes.size())
        last |= std::uint64_t{1} << k;
    }
    ports_.at("s_valid").set(valid);
    ports_.at("s_last").set(last);
    set("m_ready", rng_.chance(pause_ == 1 ? 0.3 : 1.0));
  }

  void sample() {
    if (get("m_valid") && get("m_ready")) take();
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      Source& source = sources_[k];
      if (!source.offers || (ports_.at("s_ready").get() >> k & 1U) == 0) continue;
      source.offers = false;
      source.at += kBytes;
      if (source.at >= vectors_[source.coming.back().vector].bytes.size()) source.at = 0;
    }
  }

  void print() const {
    std::printf("  %-8s %s: %d datagrams, %zu of %zu vectors\n", parameters_.row().c_str(),
                failures == 0 ? "ok" : "FAILED", datagrams_, seen_.size(), vectors_.size());
  }
  bool worked() const { return seen_.size() == vectors_.size(); }

 private:
  struct Coming {
    std::size_t vector = 0;
    std::uint64_t destination = 0;
  };
  struct Source {
    std::deque<Coming> coming;  // datagrams that were begun and have not left
    std::size_t at = 0;         // byte of the last of them
    bool offers = false;
  };

  bool get(const char* port) const { return ports_.at(port).get() != 0; }
  void set(const char* port, bool on) const { ports_.at(port).set(on); }

  /// Offers the next beat of the source's datagram, or the first beat of another one. The low bits of a destination are
  /// the source's number.
  void offer(Source& source, unsigned k) {
    if (source.at == 0) {
      const auto vector = rng_.between(0, static_cast<std::int64_t>(vectors_.size()) - 1);
      const auto destination = static_cast<std::uint64_t>(rng_.between(0, 0x3fff)) * 4 + k;
      source.coming.push_back({static_cast<std::size_t>(vector), destination});
    }
    const auto& bytes = vectors_[source.coming.back().vector].bytes;
    Beat beat(8 * kBytes);
    for (unsigned i = 0; i < kBytes; ++i) {
      const bool filled_in = source.at == 0 && (i < 5 || i >= 56);
      const bool noise = filled_in || source.at + i >= bytes.size();
      beat.set(8 * i, 8, noise ? static_cast<std::uint64_t>(rng_.between(0, 255)) : bytes[source.at + i]);
    }
    ports_.at("s_data").write(8 * kBytes * k, beat);
    Beat destination(16);
    destination.set(0, 16, source.coming.back().destination);
    ports_.at("s_dest").write(16 * k, destination);
    source.offers = true;
  }

  void take() {
    const std::uint64_t destination = ports_.at("m_dest").get(), keep = ports_.at("m_keep").get();
    const Beat data = ports_.at("m_data").read();
    for (unsigned i = 0; i < kBytes && (keep >> i & 1U) != 0; ++i)
      leaving_.push_back(static_cast<std::uint8_t>(data.get(8 * i, 8)));
    if (leaving_.size() % kBytes != 0) expect(get("m_last"), "the end", "a datagram");
    if (!get("m_last")) return;
    const std::size_t k = destination % 4;
    if (k >= sources_.size() || sources_[k].coming.empty()) return expect(false, "destination", "a datagram");
    const Coming coming = sources_[k].coming.front();
    sources_[k].coming.pop_front();
    expect(coming.destination == destination, "destination", vectors_[coming.vector].name);
    expect(leaving_ == vectors_[coming.vector].bytes, "a byte", vectors_[coming.vector].name);
    leaving_.clear();
    ++datagrams_;
    seen_.insert(coming.vector);
  }

  void expect(bool holds, const char* what, const std::string& vector) {
    if (!holds && ++failures <= 5)
      std::printf("  %s: %s of %s is wrong\n", parameters_.row().c_str(), what, vector.c_str());
  }

  const Parameters& parameters_;
  std::map<std::string, Port>& ports_;
  Rng rng_;
  std::vector<Vector> vectors_;
  std::vector<Source> sources_;
  std::vector<std::uint8_t> leaving_;
  std::int64_t pause_ = 0;
  int datagrams_ = 0;
  std::set<std::size_t> seen_;
};

}  // namespace

void add_udp_bench(Benches& benches) {
  benches["mr_udp_in"] = [](std::uint64_t seed, int rounds) {
    return run_rows<UdpInRow>(seed, 20'000 * rounds);
  };
  benches["mr_udp_out"] = [](std::uint64_t seed, int rounds) {
    return run_rows<UdpOutRow>(seed, 20'000 * rounds);
  };
}

}  // namespace millrace::kernels::tb
