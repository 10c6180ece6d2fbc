// Runs inferences ("frames") on the cards of one deployment, many at a time.
//
//   submit(frame) -> queue of the Dispatcher -> slot (preallocated buffers on every card port) -> host stages
//                 -> ingress runs -> cards -> egress runs -> host stages -> frame.on_complete
//
// A frame has the model's own tensors (usually float32) as inputs and outputs. Frames complete in the order
// in which they got their slots (a slot is the room for one frame on the cards). If a card dies, frames in
// flight fail with kUnavailable within 10 ms. Then the pipeline reloads the card with back-off; meanwhile
// submit() returns kUnavailable.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::pipeline {

using Clock = std::chrono::steady_clock;

/// How long each phase of a frame took; zero for a phase that the frame did not reach.
struct FrameTimes {
  std::chrono::nanoseconds queue{0};    // waiting for a slot
  std::chrono::nanoseconds input{0};    // host stages before the cards, and copies to the cards
  std::chrono::nanoseconds compute{0};  // from the first ingress start to the last egress completion
  std::chrono::nanoseconds output{0};   // copies from the cards, and host stages after the cards
};

/// Priorities of frames: a waiting frame with a lower number goes first.
inline constexpr std::uint8_t kFirstPriority = 1, kUsualPriority = 5, kLastPriority = 10;

/// One inference. Owned by the caller; must stay alive and unmoved from submit() until on_complete has been called.
struct Frame {
  std::vector<std::span<const std::byte>> inputs;  // in model.inputs order, signature.bytes() bytes each
  std::vector<std::span<std::byte>> outputs;       // in model.outputs order, signature.bytes() bytes each
  Clock::time_point deadline = Clock::time_point::max();

  // Waiting frames are ordered by priority; within one priority, clients take turns. `client` is any number
  // by which the caller identifies a client.
  std::uint8_t priority = kUsualPriority;
  std::uint64_t client = 0;

  /// Called exactly once for every frame that submit() accepted: on a pipeline thread, or inside another thread's call
  /// of submit(), cancel() or stop(). Must not block or throw.
  void (*on_complete)(Frame& frame, void* context) = nullptr;
  void* context = nullptr;
  void* passage = nullptr;  // data that a Successor (dispatcher.hpp) stores about the frame
  bool handed_over =
      false;  // set by a Dispatcher that accepted the frame, so that even a full queue accepts it

  // Set by the pipeline before on_complete. Errors: kDeadlineExceeded, kUnavailable (a card was lost, or the
  // pipeline stops), kCancelled, kResourceExhausted (displaced by a more urgent frame, or by a frame of a
  // client with fewer waiting frames).
  Status status;
  FrameTimes times;
};

struct PipelineOptions {
  std::uint32_t slots = 8;            // most frames on the cards at a time; at least 1
  std::uint32_t queue_capacity = 64;  // most frames that wait for a slot, in a Dispatcher
  std::chrono::milliseconds restart_backoff_initial{10};
  std::chrono::milliseconds restart_backoff_maximum{5000};
  // The longest time between two results, and between a frame's deadline and its result. After that time, frames fail
  // with kUnavailable and a hanging card is loaded again. Must be longer than any card needs for a frame.
  std::chrono::milliseconds stuck_after{10000};
  std::chrono::milliseconds stuck_after_deadline{2000};
  // Whether cards that were just loaded must compute the deployment's known frame, before clients' frames are accepted.
  bool check_known_answer = false;
  // Called with a card's name whenever the card was programmed. The call may come from any thread, and from several
  // threads at once.
  std::function<void(const std::string& card)> on_programmed = {};
};

enum class CardState { kLoading, kUp, kLost };

struct CardStatus {
  std::string endpoint, card, image;
  CardState state = CardState::kLoading;
  std::uint64_t restarts = 0;
  std::uint64_t programmed = 0;  // how often an image was programmed on the card
  std::array<std::uint64_t, card::kResetSteps>
      resets{};                  // how often recovery reset the card, by card::ResetStep
  std::uint64_t parameters = 0;  // how often parameters were written to its partitions
  std::uint64_t frames = 0;      // frames computed since the image was loaded
  double busy_seconds = 0;
  card::Sensors sensors{};
  bool answers = true;        // false: the card hangs, and its figures are from an earlier reading
  std::uint32_t replica = 0;  // the replica to which the card belongs
};

struct LinkStatus {
  std::string channel;  // the channel's name
  std::string producer_card, consumer_card;
  std::uint64_t packets = 0, bytes = 0, stalls = 0;
  bool up = false;
  std::uint64_t errors = 0;  // how often a card reported a dead link or invalid data
  std::uint32_t replica = 0;
  std::uint64_t repeats = 0;  // packets sent again
  std::uint64_t damaged = 0;  // packets that either card dropped because of a wrong CRC, on the whole cable
  std::uint64_t dropped = 0;  // packets that either card dropped for another reason, on the whole cable
  std::string state{};  // "down", "training", "up", "degraded" or "lost"; empty if the cards do not answer
};

struct PipelineStatus {
  bool ready = false;  // all cards of at least one replica work, so submit() can succeed
  std::uint32_t in_flight = 0, queued = 0;
  std::uint32_t slots = 0, queue_capacity = 0;
  std::uint32_t epoch = 0;
  std::uint64_t completed = 0, failed = 0;
  // How often the replicas served again after a loss, and for how long they refused frames until then, summed up.
  std::uint64_t recoveries = 0;
  double recovery_seconds = 0;
  double bring_up_seconds =
      0;  // how long the slowest replica took to start: programming, cables and known frame
  std::vector<CardStatus> cards;
  std::vector<LinkStatus> links;
  std::uint32_t replicas = 1, replicas_ready = 0;
};

/// Opens the cards of a pipeline: XRT's cards or, in tests, fake ones.
struct CardSource {
  std::function<Result<std::unique_ptr<card::Card>>(const plan::ClusterCard& card, std::uint32_t index)> open;
  std::function<bool(const plan::ClusterCard& card, std::uint32_t index)> is_free;
  /// Returns the uuid of the image on the card, or an empty text if there is no image or its uuid is unknown.
  std::function<std::string(const plan::ClusterCard& card, std::uint32_t index)> image_uuid =
      [](const plan::ClusterCard&, std::uint32_t) { return std::string(); };
};

/// Opens XRT's devices by their PCIe addresses in the cluster or, without addresses, by position.
CardSource xrt_cards();

/// An object that is notified when a pipeline can take a frame again, and when it cannot take frames any more.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void changed() = 0;  // called on any thread; may call the pipeline; must not block or throw
};

/// The timeline of one frame that succeeded.
struct FrameRecord {
  std::uint64_t sequence = 0;  // number of the frame in its replica
  std::uint32_t slot = 0, epoch = 0;
  Clock::time_point submitted;  // when submit() accepted the frame
  Clock::time_point staged;     // when the frame was assigned its slot
  Clock::time_point started;    // when host stages before the cards and copies to the cards were done
  Clock::time_point computed;   // when the last result arrived on the host
  Clock::time_point done;       // when all outputs were copied and later host stages were done
  std::uint32_t replica = 0;
};

class Pipeline {
 public:
  /// Opens one pipeline without a queue: submit() refuses a frame if no slot is free (Dispatcher::open() adds the
  /// queue). Chooses cards of the cluster for the deployment's endpoints, loads all images at once, writes the link
  /// tables and starts. Cards that already hold their image are preferred and not programmed. The backend must have
  /// been selected (runtime/emulator/backend.hpp). Blocks until every card is up.
  ///
  /// `copies` is the number of pipelines that the caller opens for this deployment, including this one; cards are left
  /// for the others. Returns kDoesNotFit if no binding (choice of cards and cables) exists (cards of other pipelines of
  /// this process are not free), kEnvironment if XRT fails, and kInvalidInput for options out of range (slots 1..1024,
  /// queue at most 2^20, back-off and stuck_* at least 1 ms). Errors name the endpoint and its needs.
  static Result<std::unique_ptr<Pipeline>> open(std::shared_ptr<const plan::LoadedDeployment> deployment,
                                                const plan::Cluster& cluster, const PipelineOptions& options,
                                                std::uint32_t copies = 1,
                                                const CardSource& source = xrt_cards());
  virtual ~Pipeline() = default;  // calls stop(0)

  /// Checks whether open() would find a schedule, and free cards for all copies; returns the same errors. Cards named
  /// in `also_free` count as free although they are in use. Accesses no card.
  static Status check(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster,
                      const PipelineOptions& options, const std::vector<std::string>& also_free,
                      std::uint32_t copies = 1, const CardSource& source = xrt_cards());

  virtual const plan::Deployment& deployment() const = 0;

  /// Starts or queues a frame. Never blocks on a card. After an error, on_complete is not called: kInvalidInput (wrong
  /// number or size of tensors), kResourceExhausted (no slot is free; in a Dispatcher: its queue is full), kUnavailable
  /// (a card is lost, or the pipeline stops), kDeadlineExceeded (the deadline has passed). Any thread may call it.
  virtual Status submit(Frame& frame) = 0;

  /// Completes a waiting frame with kCancelled, because its client went away. A frame on the cards completes as usual.
  /// Any thread may call it.
  virtual void cancel(Frame& frame) = 0;

  /// Calls submit() and waits until the frame completes. Any thread except a pipeline's own may call it.
  Status infer(Frame& frame);

  // Functions for the dispatcher. The defaults are for a pipeline that has no slots (rooms for one frame each).

  /// Returns the error that submit() would return for the frame's tensors. Any thread may call it.
  virtual Status check_frame(const Frame&) const { return {}; }

  /// Returns how many frames could start now. Takes no more time than ready().
  virtual std::uint32_t room() const { return ready() ? 1 : 0; }

  /// Like submit(), but returns nothing if no slot (the room for one frame on the cards) is free; the watcher
  /// is notified when a slot becomes free. The second argument is the time when the frame was submitted. Any
  /// thread may call it.
  virtual std::optional<Status> offer(Frame& frame, Clock::time_point) { return submit(frame); }

  /// Returns why submit() refuses frames while ready() is false. Any thread may call it.
  virtual Error why_unavailable() const {
    return Error(ErrorCode::kUnavailable, "the pipeline accepts no frames");
  }

  /// Returns the recent mean time from one frame to the next, or 0 if unknown. Any thread may call it.
  virtual std::chrono::nanoseconds pace() { return std::chrono::nanoseconds(0); }

  /// Sets the only watcher. May be called only once. The watcher must live until stop() has returned.
  virtual void watch(Watcher*) {}

  /// Whether every card works and frames are accepted. For health checks: reads no register, takes no lock, waits for
  /// no card. Any thread may call it.
  virtual bool ready() const = 0;

  /// Returns how long a refused client should wait: until the next attempt to reload a lost card, or until
  /// all waiting frames have started, at the recent rate of frames. Waits for no card. Any thread may call
  /// it.
  virtual std::chrono::milliseconds retry_after() { return std::chrono::seconds(1); }

  /// Returns the current status. Reads card registers, so it is not for the hot path. Waits at most 250 ms for a card
  /// that hangs, and then returns the card's last known values. Any thread may call it.
  virtual PipelineStatus status() = 0;

  /// Returns the last 1,024 frames that succeeded, oldest first. Under load a few are missing. Any thread may call it.
  virtual std::vector<FrameRecord> recent_frames() { return {}; }

  /// Opens another pipeline for the same deployment, like open(). If no other cards are free, this pipeline must be
  /// stopped first. Returns kUnsupported if the pipeline cannot be opened again.
  virtual Result<std::unique_ptr<Pipeline>> open_again() const {
    return Error(ErrorCode::kUnsupported, "this pipeline cannot be opened again");
  }

  /// Refuses new frames, completes accepted frames for at most `bound`, fails the rest with kUnavailable and releases
  /// the cards (a hung card takes as long as the driver waits: 5 s if emulated). May be called again: if two calls
  /// overlap, both end by the earlier of their deadlines, and the second may return first.
  virtual void stop(std::chrono::milliseconds bound) = 0;
};

}  // namespace millrace::runtime::pipeline
