#include "runtime/pipeline/observer.hpp"

namespace millrace::runtime::pipeline {

Observer::Observer(Fleet& fleet) : fleet_(fleet) {
  for (std::uint32_t place = 0; place < fleet.size(); ++place)
    last_.cards.push_back(fleet.describe_card(place));
  for (std::uint32_t link = 0; link < fleet.links(); ++link) last_.links.push_back(fleet.describe_link(link));
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Observer::~Observer() {
  stop();
}

Observer::Figures Observer::read(std::chrono::milliseconds bound) {
  std::unique_lock lock(mutex_);
  // A reading that goes on began before this call and does not count.
  const std::uint64_t mine = begun_ + 1;
  wanted_ = mine;
  // A reading that has lasted longer than `bound` waits for a card that hangs. The next one would too.
  const bool hangs = begun_ != done_ && Clock::now() - began_ > bound;
  changed_.notify_all();
  if (!hangs)
    changed_.wait_for(lock, bound,
                      [&] { return done_ >= mine || thread_.get_stop_token().stop_requested(); });
  Figures figures = last_;
  if (done_ >= mine) return figures;
  // The number of times a card was programmed needs no access to the card.
  for (std::uint32_t place = 0; place < figures.cards.size(); ++place) {
    figures.cards[place].programmed = fleet_.describe_card(place).programmed;
  }
  return figures;
}

void Observer::begin_stop() {
  thread_.request_stop();
  changed_.notify_all();
}

void Observer::stop() {
  begin_stop();
  if (thread_.joinable()) thread_.join();
}

void Observer::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return wanted_ > begun_; })) {
    begun_ = wanted_;
    began_ = Clock::now();
    lock.unlock();
    observe(stop);
    lock.lock();
    done_ = begun_;
    changed_.notify_all();
  }
}

void Observer::observe(const std::stop_token& stop) {
  for (std::uint32_t place = 0; place < fleet_.size() && !stop.stop_requested(); ++place) {
    {
      const std::lock_guard lock(mutex_);
      last_.cards[place].answers = false;  // until it has answered
    }
    CardStatus card = fleet_.card_status(place);
    const std::lock_guard lock(mutex_);
    last_.cards[place] = std::move(card);
  }
  for (std::uint32_t link = 0; link < fleet_.links() && !stop.stop_requested(); ++link) {
    LinkStatus status = fleet_.link_status(link);
    const std::lock_guard lock(mutex_);
    last_.links[link] = std::move(status);
  }
}

}  // namespace millrace::runtime::pipeline
