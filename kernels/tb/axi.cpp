#include "kernels/tb/axi.hpp"

namespace millrace::kernels::tb {

namespace {
constexpr std::uint64_t kSlaveError = 2;
}

StableUntilTaken::StableUntilTaken(Ports& ports, const std::string& channel, std::vector<std::string> payload)
    : name_(channel), valid_(ports.at(channel + "valid")), ready_(ports.at(channel + "ready")) {
  for (const std::string& name : payload) payload_.push_back(ports.at(channel + name));
}

void StableUntilTaken::sample(const Report& report) {
  const bool valid = valid_.get() != 0;
  std::vector<Beat> now;
  for (const Port& port : payload_) now.push_back(port.read());
  if (waiting_ && !valid) report(name_ + ": valid fell before it was taken");
  if (waiting_ && valid && now != held_) report(name_ + ": changed while it waited");
  waiting_ = valid && ready_.get() == 0;
  held_ = std::move(now);
}

RegisterMaster::RegisterMaster(Ports& ports, const std::string& prefix, Rng& rng, Report report)
    : ports_(ports),
      prefix_(prefix + "_"),
      rng_(rng),
      report_(std::move(report)),
      write_response_(ports, prefix_ + "b", {"resp"}),
      read_response_(ports, prefix_ + "r", {"resp", "data"}) {}

void RegisterMaster::write(std::uint32_t address, std::uint32_t data, std::function<void()> then) {
  accesses_.push_back({true, address, data, [then = std::move(then)](std::uint32_t) {
                         if (then) then();
                       }});
}

void RegisterMaster::read(std::uint32_t address, std::function<void(std::uint32_t)> then) {
  accesses_.push_back({false, address, 0, std::move(then)});
}

void RegisterMaster::reset() {
  accesses_.clear();
  address_offered_ = address_taken_ = data_offered_ = data_taken_ = false;
  write_response_.reset();
  read_response_.reset();
}

void RegisterMaster::drive() {
  const bool some = !accesses_.empty();
  const bool writing = some && accesses_.front().is_write;
  address_offered_ = address_offered_ || (some && !address_taken_ && rng_.chance(0.6));
  data_offered_ = data_offered_ || (writing && !data_taken_ && rng_.chance(0.6));
  port("awvalid").set(writing && address_offered_);
  port("arvalid").set(some && !writing && address_offered_);
  port("wvalid").set(data_offered_);
  port("awaddr").set(some ? accesses_.front().address : 0xfff);
  port("araddr").set(some ? accesses_.front().address : 0xfff);
  port("wdata").set(some ? accesses_.front().data : 0xdeadbeef);
  port("wstrb").set(0xf);
  port("bready").set(rng_.chance(0.6));
  port("rready").set(rng_.chance(0.6));
}

void RegisterMaster::sample() {
  write_response_.sample(report_);
  read_response_.sample(report_);
  const bool writing = !accesses_.empty() && accesses_.front().is_write;
  const auto fires = [this](const char* valid, const char* ready) {
    return port(valid).get() != 0 && port(ready).get() != 0;
  };
  const bool b = fires("bvalid", "bready"), r = fires("rvalid", "rready");
  if (port("bvalid").get() != 0 && !(writing && address_taken_ && data_taken_))
    report_(prefix_ + "b: a response nobody asked for");
  if (port("rvalid").get() != 0 && (writing || !address_taken_))
    report_(prefix_ + "r: a response nobody asked for");
  if (fires("awvalid", "awready") || fires("arvalid", "arready")) {
    address_taken_ = true;
    address_offered_ = false;
  }
  if (fires("wvalid", "wready")) {
    data_taken_ = true;
    data_offered_ = false;
  }
  if (b || r) {
    if (port(b ? "bresp" : "rresp").get() != 0) report_(prefix_ + ": a response but OKAY");
    const std::uint32_t data = b ? 0 : static_cast<std::uint32_t>(port("rdata").get());
    const auto then = std::move(accesses_.front().then);
    accesses_.pop_front();
    address_taken_ = data_taken_ = false;
    if (then) then(data);
  }
}

Memory::Memory(Ports& ports, const std::string& prefix, std::uint64_t base, std::size_t bytes,
               unsigned longest_burst, Rng& rng, Report report)
    : ports_(ports),
      prefix_(prefix),
      reads_it_(ports.contains(prefix + "arvalid")),
      writes_it_(ports.contains(prefix + "awvalid")),
      base_(base),
      content_(bytes),
      word_bytes_(ports.at(prefix + (writes_it_ ? "wdata" : "rdata")).bits / 8),
      longest_(longest_burst),
      rng_(rng),
      report_(std::move(report)) {
  if (reads_it_) rules_.emplace_back(ports, prefix + "ar", std::vector<std::string>{"addr", "len"});
  if (!writes_it_) return;
  rules_.emplace_back(ports, prefix + "aw", std::vector<std::string>{"addr", "len"});
  rules_.emplace_back(ports, prefix + "w", std::vector<std::string>{"data", "last"});
}

void Memory::check_burst(const char* channel, std::uint64_t address, unsigned words) {
  const std::uint64_t end = address + std::uint64_t{words} * word_bytes_;
  if (address % word_bytes_ != 0) report_(std::string(channel) + ": not aligned to a word");
  if (address / 4096 != (end - 1) / 4096) report_(std::string(channel) + ": a burst across 4 KiB");
  if (words > longest_) report_(std::string(channel) + ": a burst too long");
  if (address < base_ || end > base_ + content_.size())
    report_(std::string(channel) + ": outside the buffers");
}

void Memory::reset() {
  reads_.clear();
  writes_.clear();
  written_.clear();
  incoming_.clear();
  responses_ = 0;
  reading_ = responding_ = false;
  for (auto& rule : rules_) rule.reset();
}

void Memory::drive() {
  if (writes_it_) drive_writes();
  if (reads_it_) drive_reads();
}

void Memory::drive_writes() {
  port("awready").set(rng_.chance(pace));
  port("wready").set(rng_.chance(pace));
  responding_ = responding_ || (responses_ > 0 && rng_.chance(pace));
  port("bvalid").set(responding_);
  port("bresp").set(failing ? kSlaveError : 0);
}

void Memory::drive_reads() {
  port("arready").set(rng_.chance(pace));
  reading_ = reading_ || (!reads_.empty() && rng_.chance(pace));
  port("rvalid").set(reading_);
  port("rresp").set(failing ? kSlaveError : 0);
  Beat word(word_bytes_ * 8);
  if (reading_) {
    const Burst& burst = reads_.front();
    for (unsigned i = 0; i < word_bytes_; ++i) word.set(i * 8, 8, content_.at(offset(burst.address) + i));
    port("rlast").set(burst.words == 1);
  } else {
    for (unsigned i = 0; i < word_bytes_; ++i)
      word.set(i * 8, 8, static_cast<std::uint64_t>(rng_.between(0, 255)));
  }
  port("rdata").write(0, word);
}

bool Memory::fires(const std::string& channel) const {
  return ports_.at(prefix_ + channel + "valid").get() != 0 &&
         ports_.at(prefix_ + channel + "ready").get() != 0;
}

void Memory::sample() {
  for (auto& rule : rules_) rule.sample(report_);
  if (reads_it_ && fires("r")) {
    reading_ = false;
    reads_.front().address += word_bytes_;
    if (--reads_.front().words == 0) reads_.pop_front();
  }
  if (reads_it_ && fires("ar")) {
    reads_.push_back({port("araddr").get(), static_cast<unsigned>(port("arlen").get()) + 1});
    check_burst("axi_ar", reads_.back().address, reads_.back().words);
  }
  if (writes_it_) sample_writes();
}

void Memory::sample_writes() {
  if (fires("b")) {
    responding_ = false;
    --responses_;
  }
  if (fires("aw")) {
    writes_.push_back({port("awaddr").get(), static_cast<unsigned>(port("awlen").get()) + 1});
    check_burst("axi_aw", writes_.back().address, writes_.back().words);
  }
  if (fires("w")) {
    incoming_.push_back(port("wdata").read());
    if (port("wlast").get() != 0) {
      written_.push_back(std::move(incoming_));
      incoming_.clear();
    }
  }
  while (!writes_.empty() && !written_.empty()) {
    if (written_.front().size() != writes_.front().words)
      report_("axi_w: last is not on the burst's last word");
    std::size_t at = offset(writes_.front().address);
    for (const Beat& word : written_.front()) {
      for (unsigned i = 0; i < word_bytes_ && at < content_.size(); ++i)
        content_[at++] = static_cast<std::uint8_t>(word.get(i * 8, 8));
    }
    writes_.pop_front();
    written_.pop_front();
    ++responses_;
  }
}

}  // namespace millrace::kernels::tb
