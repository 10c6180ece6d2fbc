// A discrete-event model of frames in pipelines: stations serve frames one after another, frames wait for stations and
// for credits. A pure function: equal inputs give equal results on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::compiler::queueing {

/// Something that serves one frame after another: a partition's hardware, one direction of a cable, a core of the host.
struct Station {
  std::string name;
};

/// One visit of a frame to a station.
struct Step {
  std::uint32_t station = 0;  // index into Network::stations
  double interval_seconds =
      0;  // the station takes its next frame this long after it took this one; at least 0
  double delay_seconds =
      0;  // from the moment when the station takes a frame until the frame is through; at least 0
  // A frame must have passed these steps of the same pipeline before this step takes it. Their indices are smaller than
  // this step's.
  std::vector<std::uint32_t> after;
  // The maximum number of frames that this step, but not yet every following step, has taken; 0: any number. A step
  // without a following step has no such limit.
  std::uint32_t credits = 0;
  double credit_seconds =
      0;  // from the moment when the last following step takes a frame until the credit is back
};

/// The steps of every frame of one pipeline.
struct Pipeline {
  std::vector<Step> steps;  // a step comes after all steps that it waits for
  std::uint32_t slots = 0;  // the most frames in the pipeline; 0: any number
};

/// Pipelines that share one queue of frames. A frame goes to the pipeline with the most free slots (the room
/// for one frame each); pipelines with equally many take turns. Pipelines may share stations.
struct Network {
  std::vector<Station> stations;
  std::vector<Pipeline> pipelines;
};

struct Load {
  // The rate of a Poisson process at which frames arrive. 0: all frames wait from the start.
  double frames_per_second = 0;
  std::uint64_t frames = 20'000;  // frames that are simulated
  std::uint64_t seed = 1;         // of the arrival times
};

/// Returns the times, in seconds, at which the frames of a load arrive.
std::vector<double> arrivals(const Load& load);

struct StationUse {
  double busy = 0;            // the fraction of time in which the station could not take another frame
  std::uint64_t frames = 0;   // frames that the station has taken
  std::uint64_t starved = 0;  // how often the station was free but its oldest frame had no credit
};

/// Measurements of the last nine tenths of the frames. The first tenth only fills the pipelines.
struct Observation {
  double frames_per_second = 0;  // the rate at which frames came out
  // Seconds from the arrival of a frame in the queue until it is through all steps.
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0;
  std::vector<StationUse> stations;  // as in the network
  double slots_in_use = 0;  // the mean fraction of the slots of all pipelines; 0 if they have no limit
};

/// Simulates the network under a load. The network must have a station, a pipeline, and a step in each pipeline.
Observation simulate(const Network& network, const Load& load);

/// Names what limits the rate of a network whose frames all waited from the start: the station that is busy nearly all
/// the time, the step that most often lacked credits, or the slots (the limit on the frames in a pipeline).
std::string bottleneck(const Network& network, const Observation& saturated);

}  // namespace millrace::compiler::queueing
