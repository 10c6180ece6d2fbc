#include "compiler/queueing/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <queue>
#include <random>

namespace millrace::compiler::queueing {
namespace {

constexpr double kNearlyAlways = 0.97;  // the busy fraction from which on a station limits the rate
constexpr double kOften = 0.05;         // the fraction of frames from which on missing credits limit the rate

enum class Kind : std::uint8_t {
  kThrough,
  kCredit,
  kFree,
  kArrival
};  // in the order of handling at one time

struct Event {
  double time = 0;
  std::uint64_t number = 0;  // events at the same time are handled in the order in which they were made
  Kind kind = Kind::kArrival;
  std::uint32_t pipeline = 0, step = 0;       // for kFree, `step` is the station
  bool operator<(const Event& other) const {  // std::priority_queue puts the largest first
    if (time != other.time) return time > other.time;
    if (kind != other.kind) return kind > other.kind;
    return number > other.number;
  }
};

/// The progress of a pipeline's frames through one step. Frames pass each step in order, so counters suffice.
struct Progress {
  std::uint64_t ready = 0;          // frames that may be taken as far as earlier steps are concerned
  std::uint64_t taken = 0;          // frames that the station has taken
  std::uint64_t through = 0;        // frames that are through
  std::uint64_t returned = 0;       // frames that all following steps have taken and whose credit is back
  std::vector<std::uint32_t> next;  // the steps that follow
};

struct Waiting {
  std::uint32_t pipeline = 0, step = 0;
};

struct ServedPipeline {
  std::vector<Progress> steps;
  std::deque<std::uint64_t> inside;  // numbers of the frames in the pipeline, the oldest first
  std::uint64_t entered = 0, finished = 0;
  std::vector<std::uint32_t> first, last;  // steps that wait for no step; steps for which no step waits
};

struct ServedStation {
  std::deque<Waiting> queue;
  double free_at = 0, busy = 0;
  StationUse use;
};

class Simulation {
 public:
  Simulation(const Network& network, const Load& load)
      : network_(network), load_(load), arrivals_(arrivals(load)), stations_(network.stations.size()) {
    for (const auto& pipeline : network.pipelines) {
      ServedPipeline& served = pipelines_.emplace_back();
      served.steps.resize(pipeline.steps.size());
      for (std::uint32_t s = 0; s < pipeline.steps.size(); ++s) {
        for (const auto before : pipeline.steps[s].after) served.steps[before].next.push_back(s);
        if (pipeline.steps[s].after.empty()) served.first.push_back(s);
      }
      for (std::uint32_t s = 0; s < pipeline.steps.size(); ++s)
        if (served.steps[s].next.empty()) served.last.push_back(s);
    }
    measured_from_ = load.frames / 10;
    latencies_.reserve(load.frames - measured_from_);
  }

  Observation run() {
    add_arrival();
    while (!events_.empty() && done_ < load_.frames) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      handle(event);
    }
    return observed();
  }

 private:
  void add(double time, Kind kind, std::uint32_t pipeline = 0, std::uint32_t step = 0) {
    events_.push({time, made_++, kind, pipeline, step});
  }

  void add_arrival() { add(arrivals_[arrived_], Kind::kArrival); }

  void handle(const Event& event) {
    switch (event.kind) {
      case Kind::kArrival:
        while (arrived_ < load_.frames && arrivals_[arrived_] <= now_) ++arrived_;
        if (arrived_ < load_.frames) add_arrival();
        dispatch();
        break;
      case Kind::kFree:
        serve(event.step);
        break;
      case Kind::kCredit:
        ++pipelines_[event.pipeline].steps[event.step].returned;
        serve(network_.pipelines[event.pipeline].steps[event.step].station);
        break;
      case Kind::kThrough:
        get_through(event.pipeline, event.step);
    }
  }

  /// Gives waiting frames to pipelines that have a free slot (the room for one frame).
  void dispatch() {
    while (dispatched_ < arrived_) {
      std::uint64_t most = 0;
      std::size_t best = 0;
      for (std::size_t k = 0; k < pipelines_.size(); ++k) {
        const std::size_t p = (turn_ + k) % pipelines_.size();
        const std::uint64_t slots =
            network_.pipelines[p].slots == 0 ? std::uint64_t{1} << 62U : network_.pipelines[p].slots;
        const std::uint64_t room = slots - pipelines_[p].inside.size();
        if (room > most) best = p;
        most = std::max(most, room);
      }
      if (most == 0) return;
      ++turn_;
      ServedPipeline& pipeline = pipelines_[best];
      pipeline.inside.push_back(dispatched_++);
      ++pipeline.entered;
      count_inside(1);
      for (const auto s : pipeline.first) make_ready(static_cast<std::uint32_t>(best), s, pipeline.entered);
    }
  }

  /// Records that the first `ready` frames may be taken by a step.
  void make_ready(std::uint32_t p, std::uint32_t s, std::uint64_t ready) {
    Progress& progress = pipelines_[p].steps[s];
    const std::uint32_t station = network_.pipelines[p].steps[s].station;
    if (ready <= progress.ready) return;
    for (; progress.ready < ready; ++progress.ready) stations_[station].queue.push_back({p, s});
    serve(station);
  }

  bool has_credit(const Waiting& frame) const {
    const Step& step = network_.pipelines[frame.pipeline].steps[frame.step];
    const Progress& progress = pipelines_[frame.pipeline].steps[frame.step];
    return step.credits == 0 || progress.next.empty() || progress.taken - progress.returned < step.credits;
  }

  /// Lets a station take the frame that has waited longest among those that have credit.
  void serve(std::uint32_t index) {
    ServedStation& station = stations_[index];
    while (!station.queue.empty() && station.free_at <= now_) {
      const auto frame = std::find_if(station.queue.begin(), station.queue.end(),
                                      [&](const Waiting& waiting) { return has_credit(waiting); });
      if (frame != station.queue.begin()) ++station.use.starved;
      if (frame == station.queue.end()) return;
      const auto [p, s] = *frame;
      station.queue.erase(frame);
      const Step& step = network_.pipelines[p].steps[s];
      Progress& progress = pipelines_[p].steps[s];
      ++progress.taken;
      ++station.use.frames;
      station.busy += step.interval_seconds;
      station.free_at = now_ + step.interval_seconds;
      add(now_ + step.delay_seconds, Kind::kThrough, p, s);
      if (step.interval_seconds > 0) add(station.free_at, Kind::kFree, 0, index);
      for (const auto before : step.after) return_credit(p, before, progress.taken);
    }
  }

  /// Returns a credit if all steps after step s have taken `taken` frames.
  void return_credit(std::uint32_t p, std::uint32_t s, std::uint64_t taken) {
    const Step& step = network_.pipelines[p].steps[s];
    Progress& progress = pipelines_[p].steps[s];
    if (step.credits == 0) return;
    for (const auto next : progress.next)
      if (pipelines_[p].steps[next].taken < taken) return;
    add(now_ + step.credit_seconds, Kind::kCredit, p, s);
  }

  void get_through(std::uint32_t p, std::uint32_t s) {
    ServedPipeline& pipeline = pipelines_[p];
    ++pipeline.steps[s].through;
    for (const auto next : pipeline.steps[s].next) {
      std::uint64_t ready = std::numeric_limits<std::uint64_t>::max();
      for (const auto before : network_.pipelines[p].steps[next].after)
        ready = std::min(ready, pipeline.steps[before].through);
      make_ready(p, next, ready);
    }
    if (!pipeline.steps[s].next.empty()) return;
    std::uint64_t finished = std::numeric_limits<std::uint64_t>::max();
    for (const auto last : pipeline.last) finished = std::min(finished, pipeline.steps[last].through);
    for (; pipeline.finished < finished; ++pipeline.finished) finish(pipeline);
    dispatch();
  }

  void finish(ServedPipeline& pipeline) {
    const std::uint64_t frame = pipeline.inside.front();
    pipeline.inside.pop_front();
    count_inside(-1);
    ++done_;
    if (done_ == measured_from_) start_ = now_;
    if (frame >= measured_from_) latencies_.push_back(now_ - arrivals_[frame]);
  }

  void count_inside(double more) {
    occupied_ += inside_ * (now_ - counted_at_);
    counted_at_ = now_;
    inside_ += more;
  }

  Observation observed() {
    Observation out;
    std::sort(latencies_.begin(), latencies_.end());
    const auto at = [&](double share) {
      if (latencies_.empty()) return 0.0;
      const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(latencies_.size())));
      return latencies_[std::max<std::size_t>(rank, 1) - 1];
    };
    out.p50 = at(0.5);
    out.p90 = at(0.9);
    out.p99 = at(0.99);
    out.p999 = at(0.999);
    for (const double latency : latencies_) out.mean += latency / static_cast<double>(latencies_.size());
    if (now_ > start_) out.frames_per_second = static_cast<double>(done_ - measured_from_) / (now_ - start_);
    double slots = 0;
    for (const auto& pipeline : network_.pipelines) slots += pipeline.slots;
    if (slots > 0 && now_ > 0) out.slots_in_use = occupied_ / now_ / slots;
    for (auto& station : stations_) {
      station.use.busy = now_ > 0 ? std::min(1.0, station.busy / now_) : 0;
      out.stations.push_back(station.use);
    }
    return out;
  }

  const Network& network_;
  const Load& load_;
  std::vector<double> arrivals_;
  std::priority_queue<Event> events_;
  std::uint64_t made_ = 0;  // events so far
  double now_ = 0;
  std::vector<ServedPipeline> pipelines_;
  std::vector<ServedStation> stations_;
  std::uint64_t arrived_ = 0, dispatched_ = 0, done_ = 0;  // frames so far
  std::uint64_t measured_from_ = 0;
  std::size_t turn_ = 0;
  double start_ = 0;  // when the first frame that counts could come out
  double inside_ = 0, occupied_ = 0, counted_at_ = 0;
  std::vector<double> latencies_;
};

}  // namespace

std::vector<double> arrivals(const Load& load) {
  std::vector<double> times(load.frames, 0);
  if (load.frames_per_second == 0) return times;
  std::mt19937_64 random(load.seed);
  double now = 0;
  for (double& time : times) {
    // Do not use std::exponential_distribution, because its results may differ between standard libraries.
    const double uniform = (static_cast<double>(random() >> 11U) + 1) * 0x1p-53;
    time = now += -std::log(uniform) / load.frames_per_second;
  }
  return times;
}

Observation simulate(const Network& network, const Load& load) {
  return Simulation(network, load).run();
}

std::string bottleneck(const Network& network, const Observation& saturated) {
  const auto busiest =
      std::max_element(saturated.stations.begin(), saturated.stations.end(),
                       [](const StationUse& a, const StationUse& b) { return a.busy < b.busy; });
  const auto name = [&](auto station) {
    return network.stations[static_cast<std::size_t>(station - saturated.stations.begin())].name;
  };
  if (busiest->busy >= kNearlyAlways) return name(busiest);
  const auto starved =
      std::max_element(saturated.stations.begin(), saturated.stations.end(),
                       [](const StationUse& a, const StationUse& b) { return a.starved < b.starved; });
  if (static_cast<double>(starved->starved) > kOften * static_cast<double>(starved->frames))
    return "the credits of " + name(starved);
  return saturated.slots_in_use > 0 ? "the number of frames in flight (slots)" : name(busiest);
}

}  // namespace millrace::compiler::queueing
