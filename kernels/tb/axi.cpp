#include "kernels/tb/axi.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace millrace::kernels::tb {

namespace {
constexpr std::uint64_t kSlaveError = 2;
constexpr std::uint32_t kAllBytes = 0xf;
constexpr std::uint32_t kWindow = 0x1000;  // bytes of the registers of one unit
constexpr std::uint32_t kNoRegister = 0xffc;
constexpr std::uint32_t kStop = 0x1c;
}  // namespace

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

void RegisterMaster::push_write(std::uint32_t address, std::uint32_t data, std::uint32_t strobes,
                                std::function<void()> then) {
  accesses_.push_back({true, address, data, strobes, [then = std::move(then)](std::uint32_t) {
                         if (then) then();
                       }});
}

/// Adds a write without the low byte. Such a write changes no bit of a control register or of a register that takes
/// whole words only; all bytes of an argument are written afterwards. The supervisor's stop register treats any write
/// as a stop, so that register gets no such write.
void RegisterMaster::push_decoy(std::uint32_t address) {
  if (address % kWindow == kStop || !rng_.chance(0.2)) return;
  push_write(address, static_cast<std::uint32_t>(rng_.between(0, 0xffffffff)),
             static_cast<std::uint32_t>(rng_.between(0, 7)) * 2);
}

void RegisterMaster::write(std::uint32_t address, std::uint32_t data, std::function<void()> then) {
  push_decoy(address);
  push_write(address, data, kAllBytes, std::move(then));
}

void RegisterMaster::write_argument(std::uint32_t address, std::uint32_t data, std::function<void()> then) {
  push_decoy(address);
  const auto learn = [this, address, data, then = std::move(then)] {
    arguments_[address] = data;
    if (then) then();
  };
  arguments_.erase(address);
  if (rng_.chance(0.5)) return push_write(address, data, kAllBytes, learn);
  const auto first = static_cast<std::uint32_t>(rng_.between(0, kAllBytes));
  for (const std::uint32_t strobes : {first, kAllBytes & ~first}) {
    std::uint32_t bytes =
        static_cast<std::uint32_t>(rng_.between(0, 0xffffffff));  // noise in unwritten bytes
    for (unsigned b = 0; b < 4; ++b) {
      const std::uint32_t mask = 0xffu << (8 * b);
      if ((strobes >> b & 1u) != 0) bytes = (bytes & ~mask) | (data & mask);
    }
    if (strobes == first)
      push_write(address, bytes, strobes);
    else
      push_write(address, bytes, strobes, learn);
  }
}

void RegisterMaster::read(std::uint32_t address, std::function<void(std::uint32_t)> then) {
  accesses_.push_back({false, address, 0, 0, std::move(then)});
}

void RegisterMaster::reset() {
  accesses_.clear();
  arguments_.clear();
  writing_ = reading_ = {};
  first_under_way_ = false;
  write_response_.reset();
  read_response_.reset();
}

/// Returns an access that no bench asked for. It runs during an access of the bench in the other direction.
RegisterMaster::Access RegisterMaster::unasked(bool is_write) {
  Access access{is_write, kNoRegister, static_cast<std::uint32_t>(rng_.between(0, 0xffffffff)), 0, {}, false};
  if (is_write) {
    if (!arguments_.empty()) access.address = arguments_.begin()->first;
    access.then = [](std::uint32_t) {};
    return access;
  }
  std::uint32_t want = 0;
  if (!arguments_.empty() && rng_.chance(0.7)) {
    const auto nth = rng_.between(0, static_cast<std::int64_t>(arguments_.size()) - 1);
    const auto& [address, value] = *std::next(arguments_.begin(), nth);
    // While a register is being written, it may read as the old or the new value.
    const bool written = std::any_of(accesses_.begin(), accesses_.end(), [at = address](const Access& a) {
      return a.is_write && a.address == at;
    });
    if (!written) {
      access.address = address;
      want = value;
    }
  }
  access.then = [this, want, address = access.address](std::uint32_t got) {
    const auto now = arguments_.find(address);  // absent or changed if the register was written meanwhile
    const bool may_be = address == kNoRegister ? got == 0 : now == arguments_.end() || got == now->second;
    if (got != want && !may_be)
      report_(prefix_ + "r: register " + std::to_string(address) + " reads as " + std::to_string(got));
  };
  return access;
}

void RegisterMaster::launch() {
  if (accesses_.empty()) return;
  if (!first_under_way_) {
    Direction& direction = accesses_.front().is_write ? writing_ : reading_;
    if (!direction.access) {
      direction.access = accesses_.front();
      first_under_way_ = true;
    }
  }
  const bool first_writes = accesses_.front().is_write;
  Direction& other = first_writes ? reading_ : writing_;
  if (first_under_way_ && !other.access && rng_.chance(0.1)) other.access = unasked(!first_writes);
}

void RegisterMaster::drive() {
  launch();
  for (Direction* direction : {&writing_, &reading_}) {
    const bool some = direction->access.has_value();
    const bool data = some && direction->access->is_write;
    direction->address_offered =
        direction->address_offered || (some && !direction->address_taken && rng_.chance(0.6));
    direction->data_offered = direction->data_offered || (data && !direction->data_taken && rng_.chance(0.6));
  }
  port("awvalid").set(writing_.address_offered);
  port("wvalid").set(writing_.data_offered);
  port("arvalid").set(reading_.address_offered);
  port("awaddr").set(writing_.access ? writing_.access->address : kNoRegister);
  port("wdata").set(writing_.access ? writing_.access->data : 0xdeadbeef);
  port("wstrb").set(writing_.access ? writing_.access->strobes : kAllBytes);
  port("araddr").set(reading_.access ? reading_.access->address : kNoRegister);
  port("bready").set(rng_.chance(0.6));
  port("rready").set(rng_.chance(0.6));
}

void RegisterMaster::complete(Direction& direction) {
  const bool write = direction.access->is_write;
  if (port(write ? "bresp" : "rresp").get() != 0) report_(prefix_ + ": a response other than OKAY");
  const std::uint32_t data = write ? 0 : static_cast<std::uint32_t>(port("rdata").get());
  const Access access = std::move(*direction.access);
  direction = {};
  if (access.asked) {
    accesses_.pop_front();
    first_under_way_ = false;
  }
  if (access.then) access.then(data);
}

void RegisterMaster::sample() {
  write_response_.sample(report_);
  read_response_.sample(report_);
  if (writing_.access && reading_.access) ++overlapped_;
  const bool b = fires("bvalid", "bready"), r = fires("rvalid", "rready");
  const bool b_due = writing_.address_taken && writing_.data_taken, r_due = reading_.address_taken;
  const bool b_offered = port("bvalid").get() != 0, r_offered = port("rvalid").get() != 0;
  if (b_offered && !b_due) report_(prefix_ + "b: a response without a request");
  if (r_offered && !r_due) report_(prefix_ + "r: a response without a request");
  if (fires("awvalid", "awready")) {
    writing_.address_taken = true;
    writing_.address_offered = false;
  }
  if (fires("wvalid", "wready")) {
    writing_.data_taken = true;
    writing_.data_offered = false;
  }
  if (fires("arvalid", "arready")) {
    reading_.address_taken = true;
    reading_.address_offered = false;
  }
  if (b && b_due) complete(writing_);
  if (r && r_due) complete(reading_);
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
  port("rresp").set(failing || failing_reads ? kSlaveError : 0);
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
      report_("axi_w: the signal last is not set on the burst's last word");
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
