// Frames in flight across the cards of one deployment.
//
//   submit(frame) -> queue of the Dispatcher -> slot (preallocated buffers on every card port) -> host stages
//                 -> ingress runs -> cards -> egress runs -> host stages -> frame.on_complete
//
// Frames carry the model's own tensors (usually float32), in and out. They complete in the order in which
// they got their slots. If a card dies, the frames in flight fail with kUnavailable within 10 ms. The
// pipeline then reloads the card with back-off; meanwhile submit() answers kUnavailable.
#pragma once

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

/// How long each phase of a frame took; zero for a phase that it did not reach.
struct FrameTimes {
  std::chrono::nanoseconds queue{0};    // waiting for a slot
  std::chrono::nanoseconds input{0};    // host stages before the cards, copies in
  std::chrono::nanoseconds compute{0};  // first ingress start to last egress completion
  std::chrono::nanoseconds output{0};   // copies out, host stages after the cards
};

/// Priorities of frames: a waiting frame with a lower number goes first.
inline constexpr std::uint8_t kFirstPriority = 1, kUsualPriority = 5, kLastPriority = 10;

/// One inference. Owned by the caller; must stay alive and unmoved from submit() until on_complete has been
/// called.
struct Frame {
  std::vector<std::span<const std::byte>> inputs;  // model.inputs order, exactly signature.bytes() each
  std::vector<std::span<std::byte>> outputs;       // model.outputs order, exactly signature.bytes() each
  Clock::time_point deadline = Clock::time_point::max();

  // The order among waiting frames: by priority, and within one priority each client in turn. `client` is any
  // number that the caller uses for one client.
  std::uint8_t priority = kUsualPriority;
  std::uint64_t client = 0;

  /// Called exactly once for every frame that submit() accepted, on a pipeline thread or inside submit(),
  /// cancel() or stop() of any caller. Must not block or throw.
  void (*on_complete)(Frame& frame, void* context) = nullptr;
  void* context = nullptr;
  void* passage = nullptr;  // what a Successor (dispatcher.hpp) needs to know of the frame
  bool handed_over =
      false;  // set by a Dispatcher that accepted the frame: a full queue takes it all the same

  // Written by the pipeline before on_complete. Errors: kDeadlineExceeded, kUnavailable (card lost,
  // stopping), kCancelled, kResourceExhausted (displaced by a more urgent frame, or by one of a client with
  // fewer waiting).
  Status status;
  FrameTimes times;
};

struct PipelineOptions {
  std::uint32_t slots = 8;            // frames in flight on the cards; >= 1
  std::uint32_t queue_capacity = 64;  // frames waiting for a slot, in a Dispatcher
  std::chrono::milliseconds restart_backoff_initial{10};
  std::chrono::milliseconds restart_backoff_maximum{5000};
  // The longest time between two results, and between a frame's deadline and its result. After that, frames
  // fail with kUnavailable and a card that hangs is loaded again. Must be longer than any card takes for a
  // frame.
  std::chrono::milliseconds stuck_after{10000};
  std::chrono::milliseconds stuck_after_deadline{2000};
  // Called with the name of a card each time it was programmed; on any thread, several at once.
  std::function<void(const std::string& card)> on_programmed = {};
};

enum class CardState { kLoading, kUp, kLost };

struct CardStatus {
  std::string endpoint, card, image;
  CardState state = CardState::kLoading;
  std::uint64_t restarts = 0;
  std::uint64_t programmed = 0;  // times an image was loaded on it
  std::uint64_t parameters = 0;  // times parameters were written to a partition on it
  std::uint64_t frames = 0;      // computed since load
  double busy_seconds = 0;
  card::Sensors sensors{};
  bool answers = true;        // false: the card hangs, and its figures are from an earlier reading
  std::uint32_t replica = 0;  // that the card belongs to
};

struct LinkStatus {
  std::string channel;  // name
  std::string producer_card, consumer_card;
  std::uint64_t packets = 0, bytes = 0, stalls = 0;
  bool up = false;
  std::uint64_t errors = 0;  // times a card reported the link down or data that was no frame
  std::uint32_t replica = 0;
};

struct PipelineStatus {
  bool ready = false;  // every card of a replica is up: submit() can succeed
  std::uint32_t in_flight = 0, queued = 0;
  std::uint32_t slots = 0, queue_capacity = 0;
  std::uint32_t epoch = 0;
  std::uint64_t completed = 0, failed = 0;
  std::vector<CardStatus> cards;
  std::vector<LinkStatus> links;
  std::uint32_t replicas = 1, replicas_ready = 0;
};

/// Opens cards: XRT's, or those of a test.
struct CardSource {
  std::function<Result<std::unique_ptr<card::Card>>(const plan::ClusterCard& card, std::uint32_t index)> open;
  std::function<bool(const plan::ClusterCard& card, std::uint32_t index)> is_free;
  /// Uuid of the image on the card; empty if it has none, or if that is not known.
  std::function<std::string(const plan::ClusterCard& card, std::uint32_t index)> image_uuid =
      [](const plan::ClusterCard&, std::uint32_t) { return std::string(); };
};

/// The cards of XRT: by PCIe address if the cluster gives one, else by position.
CardSource xrt_cards();

/// Hears when a pipeline can take a frame again, and when it cannot take frames any more.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void changed() = 0;  // any thread; may call the pipeline, must not block or throw
};

/// The timeline of one frame that succeeded.
struct FrameRecord {
  std::uint64_t sequence = 0;  // of its replica
  std::uint32_t slot = 0, epoch = 0;
  Clock::time_point submitted;  // taken by submit()
  Clock::time_point staged;     // got its slot
  Clock::time_point started;    // the cards have it: copied in, host stages before the cards done
  Clock::time_point computed;   // the last result came
  Clock::time_point done;       // copied out, host stages after the cards done
  std::uint32_t replica = 0;
};

class Pipeline {
 public:
  /// Opens one pipeline without a queue: submit() refuses a frame if no slot is free (Dispatcher::open() adds
  /// the queue). Binds the deployment's endpoints to cards of the cluster, loads all images at once, writes
  /// the link tables and starts. Prefers cards that hold their image already, and does not program these. The
  /// backend must have been selected (runtime/emulator/backend.hpp). Blocks until every card is up.
  ///
  /// `copies`: how many pipelines the caller opens over this deployment, this one first. Cards are chosen so
  /// that the others find cards too. Errors name the endpoint and what it needs: kDoesNotFit if no binding exists (cards of other
  /// pipelines of this process are not free), kEnvironment if XRT fails, kInvalidInput for options out of
  /// range (slots 1..1024, queue at most 2^20, back-off and stuck_* at least 1 ms).
  static Result<std::unique_ptr<Pipeline>> open(std::shared_ptr<const plan::LoadedDeployment> deployment,
                                                const plan::Cluster& cluster, const PipelineOptions& options,
                                                std::uint32_t copies = 1,
                                                const CardSource& source = xrt_cards());
  virtual ~Pipeline() = default;  // as stop(0)

  /// Whether open() would find a schedule, and free cards for all copies; the same errors. Cards named in
  /// `also_free` count as free although they are in use. Accesses no card.
  static Status check(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster,
                      const PipelineOptions& options, const std::vector<std::string>& also_free,
                      std::uint32_t copies = 1, const CardSource& source = xrt_cards());

  virtual const plan::Deployment& deployment() const = 0;

  /// Never blocks on a card. On failure the frame is not taken and on_complete is not called: kInvalidInput
  /// (number or size of tensors), kResourceExhausted (no free slot; of a Dispatcher: its queue is full),
  /// kUnavailable (card lost, stopping), kDeadlineExceeded (already past). Any thread.
  virtual Status submit(Frame& frame) = 0;

  /// Completes a waiting frame with kCancelled, because its client went away. A frame on the cards completes
  /// as usual. Any thread.
  virtual void cancel(Frame& frame) = 0;

  /// submit(), and waits for completion. Any thread but a pipeline's own.
  Status infer(Frame& frame);

  // For the dispatcher. The defaults are those of a pipeline that has no slots.

  /// What submit() would say of the frame's tensors. Any thread.
  virtual Status check_frame(const Frame&) const { return {}; }

  /// How many frames could start now. As cheap as ready().
  virtual std::uint32_t room() const { return ready() ? 1 : 0; }

  /// As submit(), but nothing if no slot is free; the watcher is told when one is. `submitted`: when the
  /// frame came, for its times. Any thread.
  virtual std::optional<Status> offer(Frame& frame, Clock::time_point) { return submit(frame); }

  /// Why submit() refuses while ready() is false. Any thread.
  virtual Error why_unavailable() const {
    return Error(ErrorCode::kUnavailable, "the pipeline takes no frames");
  }

  /// The recent time from one frame to the next; 0 if unknown. Any thread.
  virtual std::chrono::nanoseconds pace() { return std::chrono::nanoseconds(0); }

  /// Sets the one watcher, once. It must live until stop() has returned.
  virtual void watch(Watcher*) {}

  /// Whether every card is up and frames are taken. For health checks: reads no register, takes no lock,
  /// waits for no card. Any thread.
  virtual bool ready() const = 0;

  /// When a refused frame may try again: after the next attempt to reload a lost card, or when the frames
  /// that wait have got slots at the recent pace. Waits for no card. Any thread.
  virtual std::chrono::milliseconds retry_after() { return std::chrono::seconds(1); }

  /// A snapshot. Reads card registers, so it is not for the hot path. Waits at most a quarter of a second for
  /// a card that hangs; its figures are then those read last. Any thread.
  virtual PipelineStatus status() = 0;

  /// The last frames that succeeded, oldest first, at most 1,024. Under load a few are missing. Any thread.
  virtual std::vector<FrameRecord> recent_frames() { return {}; }

  /// Opens another pipeline over the same deployment, as open(). Without other free cards, this pipeline must
  /// be stopped first. kUnsupported if it cannot be opened again.
  virtual Result<std::unique_ptr<Pipeline>> open_again() const {
    return Error(ErrorCode::kUnsupported, "this pipeline cannot be opened again");
  }

  /// Refuses new frames, completes accepted ones for at most `bound`, fails the rest with kUnavailable and
  /// releases the cards (a card that hangs takes as long as the driver waits: 5 s if emulated). Idempotent. A
  /// call while another one waits shortens its wait to the earlier bound, and may return before it.
  virtual void stop(std::chrono::milliseconds bound) = 0;
};

}  // namespace millrace::runtime::pipeline
