#include "runtime/rtl/link_model.hpp"

namespace millrace::runtime::rtl {

void LinkChannel::take(std::uint64_t bits, double now, double latency) {
  read_ += bits;
  for (; freed_ < arrived_ && end_of_previous(freed_ + 1) <= read_; ++freed_)
    returns_.push_back(now + latency);
}

bool CableDirection::advance(double now) {
  bool moved = false;
  for (LinkChannel* channel : channels_) {
    for (; !channel->arrivals_.empty() && channel->arrivals_.front() <= now; moved = true) {
      channel->arrivals_.pop_front();
      ++channel->arrived_;
    }
    for (; !channel->returns_.empty() && channel->returns_.front() <= now; moved = true) {
      channel->returns_.pop_front();
      ++channel->returned_;
    }
  }
  // Several packets may end within one cycle of a slow clock.
  while (sending_ != nullptr && free_at_ <= now) {
    sending_->arrivals_.push_back(free_at_ + model_.latency_cycles);
    ++sending_->sent_;
    sending_ = nullptr;
    moved = true;
    begin_packet(free_at_);
  }
  if (sending_ == nullptr) moved |= begin_packet(now);
  return moved;
}

bool CableDirection::begin_packet(double at) {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    LinkChannel& channel = *channels_[(next_ + i) % channels_.size()];
    if (!channel.is_whole(channel.sent_)) continue;
    if (channel.sent_ - channel.returned_ >= channel.credits_) {
      ++channel.starved_;
      continue;
    }
    const std::uint64_t payload =
        channel.end_of_previous(channel.sent_ + 1) - channel.begin_of(channel.sent_);
    const double bits = static_cast<double>(packet_bytes_on_wire((payload + 7) / 8)) * 8;
    const double duration = bits / model_.bits_per_cycle;
    next_ = (next_ + i + 1) % channels_.size();
    sending_ = &channel;
    free_at_ = at + duration;
    busy_ += duration;
    return true;
  }
  return false;
}

}  // namespace millrace::runtime::rtl
