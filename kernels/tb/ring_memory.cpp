#include "kernels/tb/ring_memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace::kernels::tb {

namespace {
constexpr std::uint64_t kMemoryPage = 4096, kErrorResponse = 2;
constexpr std::size_t kPart = 8;  // bytes that become visible at once
}  // namespace

RingMemory::RingMemory(Ports& ports, unsigned longest_burst, Rng& rng, Report report)
    : ports_(ports),
      rng_(rng),
      report_(std::move(report)),
      word_bytes_(ports.at("axi_wdata").bits / 8),
      longest_(longest_burst),
      reads_it_(ports.contains("axi_arvalid")) {
  rules_.emplace_back(ports, "axi_aw", std::vector<std::string>{"addr", "len"});
  rules_.emplace_back(ports, "axi_w", std::vector<std::string>{"data", "last"});
  if (reads_it_) rules_.emplace_back(ports, "axi_ar", std::vector<std::string>{"addr", "len"});
}

std::uint8_t& RingMemory::byte(std::uint64_t address) {
  auto& page = pages_[address / kMemoryPage];
  if (page.empty()) {
    page.resize(kMemoryPage);
    for (auto& noise : page) noise = static_cast<std::uint8_t>(rng_.between(0, 255));
  }
  return page[address % kMemoryPage];
}

void RingMemory::store(std::uint64_t address, const void* data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) byte(address + i) = static_cast<const std::uint8_t*>(data)[i];
}

void RingMemory::load(std::uint64_t address, void* data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) static_cast<std::uint8_t*>(data)[i] = byte(address + i);
}

std::uint64_t RingMemory::word(std::uint64_t address) {
  std::uint64_t value = 0;
  load(address, &value, sizeof value);
  return value;
}

void RingMemory::check(const char* channel, const Burst& burst) {
  const std::uint64_t end = burst.address + std::uint64_t{burst.words} * word_bytes_;
  if (burst.address % word_bytes_ != 0) report_(std::string(channel) + ": not aligned to a word");
  if (burst.address / kMemoryPage != (end - 1) / kMemoryPage)
    report_(std::string(channel) + ": a burst across 4 KiB");
  if (burst.words > longest_) report_(std::string(channel) + ": a burst too long");
}

void RingMemory::drive() {
  port("awready").set(rng_.chance(pace));
  port("wready").set(rng_.chance(pace));
  const auto next = std::find_if(writes_.begin(), writes_.end(), [](const Write& w) { return !w.answered; });
  const bool due = next != writes_.end() && (ordered || next->left == 0);
  responding_ = responding_ || (due && rng_.chance(pace));
  port("bvalid").set(responding_);
  port("bresp").set(responding_ && next->fails ? kErrorResponse : 0);
  if (reads_it_) drive_reads();
}

void RingMemory::drive_reads() {
  port("arready").set(rng_.chance(pace));
  reading_ = reading_ || (!reads_.empty() && rng_.chance(pace));
  port("rvalid").set(reading_);
  Beat word(word_bytes_ * 8);
  for (unsigned i = 0; i < word_bytes_; ++i) {
    const auto noise = static_cast<std::uint8_t>(rng_.between(0, 255));
    word.set(i * 8, 8, reading_ ? byte(reads_.front().address + i) : noise);
  }
  const bool fails = reading_ && read_fails && read_fails(reads_.front().address);
  port("rresp").set(fails ? kErrorResponse : 0);
  port("rlast").set(reading_ && reads_.front().words == 1);
  port("rdata").write(0, word);
}

void RingMemory::sample() {
  for (auto& rule : rules_) rule.sample(report_);
  if (reads_it_) sample_reads();
  sample_writes();
  make_visible();
}

void RingMemory::sample_reads() {
  if (fires("rvalid", "rready")) {
    reading_ = false;
    ++delivered_;
    reads_.front().address += word_bytes_;
    if (--reads_.front().words == 0) reads_.pop_front();
  }
  if (fires("arvalid", "arready")) {
    reads_.push_back({port("araddr").get(), static_cast<unsigned>(port("arlen").get()) + 1});
    check("axi_ar", reads_.back());
    if (read_asked) read_asked(reads_.back().address, reads_.back().words * word_bytes_);
  }
}

void RingMemory::sample_writes() {
  if (fires("bvalid", "bready")) {
    responding_ = false;
    --unanswered_;
    std::find_if(writes_.begin(), writes_.end(), [](const Write& w) { return !w.answered; })->answered = true;
  }
  if (fires("awvalid", "awready")) {
    addresses_.push_back({port("awaddr").get(), static_cast<unsigned>(port("awlen").get()) + 1});
    check("axi_aw", addresses_.back());
    if (write_asked) write_asked(addresses_.back().address, addresses_.back().words * word_bytes_);
    ++unanswered_;
  }
  if (fires("wvalid", "wready")) {
    const Beat word = port("wdata").read();
    for (unsigned i = 0; i < word_bytes_; ++i)
      incoming_.push_back(static_cast<std::uint8_t>(word.get(i * 8, 8)));
    if (port("wlast").get() != 0) bursts_.push_back(std::exchange(incoming_, {}));
  }
  while (!addresses_.empty() && !bursts_.empty()) {
    const Burst burst = addresses_.front();
    Write write{burst.address, std::move(bursts_.front()), {}, 0, false, false};
    addresses_.pop_front();
    bursts_.pop_front();
    if (write.data.size() != std::size_t{burst.words} * word_bytes_)
      report_("axi_w: the signal last is not set on the burst's last word");
    write.left = write.data.size() / kPart;
    write.shown.resize(write.left);
    write.fails = write_fails && write_fails(write.address);
    ++came_;
    if (write_came) write_came(write.address, write.data);
    writes_.push_back(std::move(write));
  }
}

void RingMemory::show(Write& write, std::size_t part) {
  if (write.shown[part]) return;
  write.shown[part] = true;
  // A write that fails may have had any effect. Here it has one in every second part.
  if (!write.fails || part % 2 == 0) store(write.address + part * kPart, &write.data[part * kPart], kPart);
  if (--write.left == 0) ++visible_;
}

void RingMemory::make_visible() {
  if (ordered) {
    for (auto& write : writes_) {
      while (write.left > 0 && rng_.chance(0.8)) show(write, write.shown.size() - write.left);
      if (write.left > 0) break;
    }
  } else {
    for (int i = 0; i < 4 && !writes_.empty(); ++i) {
      const auto pick = [this](std::size_t n) {
        return static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(n) - 1));
      };
      Write& write = writes_[pick(writes_.size())];
      if (write.left > 0) show(write, pick(write.shown.size()));
    }
  }
  while (!writes_.empty() && writes_.front().left == 0 && writes_.front().answered) writes_.pop_front();
}

}  // namespace millrace::kernels::tb
