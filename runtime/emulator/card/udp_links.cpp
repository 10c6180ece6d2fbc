#include "runtime/emulator/card/udp_links.hpp"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/emulator/faults.hpp"

namespace millrace::runtime::emulator {

namespace {

// How often an idle thread reads the memory that host and cards share (the "fabric"): the host writes changed faults
// there, and a restarted neighbour writes its new port.
constexpr std::chrono::milliseconds kFabricPeriod{50};

}  // namespace

Result<std::unique_ptr<UdpEnd>> UdpEnd::open(Fabric& fabric, std::uint32_t cable, std::uint32_t end,
                                             Doorbell& doorbell) {
  UdpAddress& place = fabric.udp[cable][end];
  const auto local = fabric.cable[cable][end].card, peer = fabric.cable[cable][1 - end].card;
  const SocketAddress wanted{place.host.load(), static_cast<std::uint16_t>(place.given_port.load())};
  MILLRACE_ASSIGN(auto socket, link::UdpCable::open(wanted, static_cast<std::uint16_t>(local),
                                                    static_cast<std::uint16_t>(peer), 2 * cable + end + 1));
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer < 0)
    return Error(ErrorCode::kEnvironment, std::string("cannot create a timer: ") + std::strerror(errno));
  place.port.store(socket->address().port);
  return std::unique_ptr<UdpEnd>(new UdpEnd(fabric, cable, end, doorbell, std::move(socket), timer));
}

UdpEnd::UdpEnd(Fabric& fabric, std::uint32_t cable, std::uint32_t end, Doorbell& doorbell,
               std::unique_ptr<link::UdpCable> socket, int timer)
    : fabric_(fabric),
      cable_index_(cable),
      end_(end),
      doorbell_(doorbell),
      timer_(timer),
      cable_(std::move(socket)),
      thread_([this] { serve(); }) {}

UdpEnd::~UdpEnd() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    send(link::Clock::now());
  }
  thread_.join();
  ::close(timer_);
}

// The hot path begins here.
void UdpEnd::serve() {
  pollfd files[] = {{cable_->descriptor(), POLLIN, 0}, {timer_, POLLIN, 0}};
  for (;;) {
    const bool waited = poll(files, 2, -1) >= 0 || errno == EINTR;
    const int error = waited ? 0 : errno;
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (!waited || ((files[0].revents | files[1].revents) & POLLNVAL) != 0) {
      failure_ = std::string("poll: ") + std::strerror(waited ? EBADF : error);
      trouble_.store(true, std::memory_order_release);
      return ring(doorbell_);
    }
    std::uint64_t expired = 0;
    if ((files[1].revents & POLLIN) != 0 && read(timer_, &expired, sizeof expired) > 0)
      armed_ = link::Time::max();
    const link::Time now = link::Clock::now();
    const bool arrived = cable_->receive(now) > 0;
    send(now);
    if (arrived || expired > 0) ring(doorbell_);
  }
}

/// Sends what is due, and sets the timer to the next time at which something is due.
void UdpEnd::send(link::Time now) {
  read_fabric(now);
  cable_->send(now);
  trouble_.store(!failure_.empty() || cable_->end().has_trouble(), std::memory_order_release);
  const link::Time next = stopping_ ? now : std::min(cable_->next_time(), now + kFabricPeriod);
  if (armed_ <= next && armed_ > now) return;
  armed_ = next;
  const auto wait = std::max<std::chrono::nanoseconds>(next - now, std::chrono::nanoseconds(1));
  itimerspec setting{};
  setting.it_value.tv_sec = static_cast<time_t>(wait / std::chrono::seconds(1));
  setting.it_value.tv_nsec = static_cast<long>((wait % std::chrono::seconds(1)).count());
  timerfd_settime(timer_, 0, &setting, nullptr);
}
// The hot path ends here.

/// Reads from the shared memory (the "fabric") what other processes write there: the neighbour's address and the faults
/// of this direction.
void UdpEnd::read_fabric(link::Time now) {
  const UdpAddress& peer = fabric_.udp[cable_index_][1 - end_];
  const SocketAddress address{peer.host.load(std::memory_order_relaxed),
                              static_cast<std::uint16_t>(peer.port.load(std::memory_order_acquire))};
  if (address.port != 0 && cable_->peer() != address) cable_->set_peer(address);
  const CableFaults& faults = fabric_.faults[cable_index_][end_];
  const auto version = faults.version.load(std::memory_order_acquire);
  if (version == faults_version_ || version % 2 != 0) return;
  const link::Impairment impairment = read_faults(faults);
  if (faults.version.load(std::memory_order_acquire) != version) return;  // the host is writing
  faults_version_ = version;
  cable_->impairer().set(impairment, now);
}

Result<std::shared_ptr<UdpEnd>> UdpLinks::find(std::uint32_t cable, std::uint32_t end) {
  auto& place = ends_[cable];
  // Close the old socket first, because it may have the address that the cluster file gives to this end.
  if (place != nullptr && place.use_count() == 1 && !place->failure().empty()) place.reset();
  if (place == nullptr) {
    MILLRACE_ASSIGN(auto opened, UdpEnd::open(fabric_, cable, end, fabric_.doorbell[card_]));
    place = std::move(opened);
  }
  return place;
}

// The hot path begins here.
std::uint32_t UdpChannel::send(std::uint32_t epoch, std::uint64_t sequence, std::span<const std::byte> frame,
                               std::uint64_t& sent) {
  return end_->with([&](link::CableEnd&, link::Time now) {
    sender_->set_epoch(epoch, now);
    std::uint32_t packets = 0;
    while (sent < frame.size() && sender_->credit() > 0) {
      const auto length = std::min<std::uint64_t>(packet_bytes_, frame.size() - sent);
      sender_->push(sequence, static_cast<std::uint32_t>(sent), sent + length == frame.size(),
                    frame.subspan(sent, length));
      sent += length;
      ++packets;
    }
    return packets;
  });
}

bool UdpChannel::take(PacketHeader& header) {
  return end_->look([&](link::CableEnd&, link::Time) {
    link::Packet packet;
    if (!receiver_->peek(packet)) return false;
    header = {packet.sequence,       packet.epoch,
              packet.offset,         static_cast<std::uint32_t>(packet.payload.size()),
              packet.last ? 1u : 0u, 0};
    std::memcpy(payload_.data(), packet.payload.data(), packet.payload.size());
    receiver_->take();
    return true;
  });
}
// The hot path ends here.

UdpChannel::UdpChannel(std::shared_ptr<UdpEnd> end, const Settings& s)
    : end_(std::move(end)), packet_bytes_(s.packet_bytes), payload_(s.sends ? 0 : s.packet_bytes) {
  end_->with([&](link::CableEnd& cable, link::Time now) {
    const auto tag = static_cast<std::uint8_t>(s.tag);
    if (s.sends) {
      sender_ = &cable.add_sender(tag, s.packet_bytes, s.credits, {});
      sender_->start(s.generation, s.epoch, now);
    } else {
      receiver_ = &cable.add_receiver(tag, s.packet_bytes, s.credits, {});
      receiver_->start(s.generation, s.epoch);
    }
  });
}

UdpChannel::~UdpChannel() {
  end_->with([&](link::CableEnd&, link::Time) { sender_ != nullptr ? sender_->stop() : receiver_->stop(); });
}

void UdpChannel::set_epoch(std::uint32_t epoch) {
  end_->with([&](link::CableEnd&, link::Time now) {
    sender_ != nullptr ? sender_->set_epoch(epoch, now) : receiver_->set_epoch(epoch);
  });
}

void UdpChannel::give_credit() {
  end_->with([](link::CableEnd&, link::Time) {});
}

UdpChannel::Report UdpChannel::report() {
  return end_->look([&](link::CableEnd& cable, link::Time now) {
    Report report;
    link::Drops drops = cable.drops();
    if (sender_ != nullptr) {
      report.state = sender_->state(now);
      report.violation = sender_->violation();
      report.repeats = sender_->counters().repeats;
      report.losses = sender_->counters().losses;
      drops += sender_->counters().drops;
    } else {
      report.state = receiver_->state(now);
      report.violation = receiver_->violation();
      drops += receiver_->counters().drops;
    }
    report.damaged = drops.damaged;
    report.dropped = drops.malformed + drops.address + drops.endpoint + drops.tag + drops.generation +
                     drops.epoch + drops.duplicate + drops.violation;
    return report;
  });
}

}  // namespace millrace::runtime::emulator
