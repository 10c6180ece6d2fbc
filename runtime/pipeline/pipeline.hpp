// Frames in flight across the cards of one deployment.
//
//   submit(frame) -> queue (bounded) -> slot (preallocated buffers on every card port) -> host stages ->
//   ingress runs
//                 -> cards -> egress runs -> host stages -> frame.on_complete
//
// A frame in: the model's own tensors (usually float32). A frame out: the same. Order of completion is the
// order in which frames got their slots. A card that dies fails the frames in flight with kUnavailable,
// within 10 ms, and is brought back by the pipeline itself with back-off; meanwhile submit() answers
// kUnavailable.
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

/// Where one frame's time went; zero where it did not get so far.
struct FrameTimes {
  std::chrono::nanoseconds queue{0};    // waiting for a slot
  std::chrono::nanoseconds input{0};    // host stages before the cards, copies in
  std::chrono::nanoseconds compute{0};  // first ingress start to last egress completion
  std::chrono::nanoseconds output{0};   // copies out, host stages after the cards
};

/// Of a frame: what waits with a lower one goes first.
inline constexpr std::uint8_t kFirstPriority = 1, kUsualPriority = 5, kLastPriority = 10;

/// One inference. Owned by the caller; must stay alive and unmoved from submit() until on_complete has been
/// called.
struct Frame {
  std::vector<std::span<const std::byte>> inputs;  // model.inputs order, exactly signature.bytes() each
  std::vector<std::span<std::byte>> outputs;       // model.outputs order, exactly signature.bytes() each
  Clock::time_point deadline = Clock::time_point::max();

  // Where frames wait for a slot: kFirstPriority to kLastPriority, and, among equals, whose turn it is. Who
  // the client is only the caller knows.
  std::uint8_t priority = kUsualPriority;
  std::uint64_t client = 0;

  /// Called exactly once for every frame that submit() accepted, on a pipeline thread (or inside submit(),
  /// cancel() or stop() of any caller); must not block or throw.
  void (*on_complete)(Frame& frame, void* context) = nullptr;
  void* context = nullptr;
  void* passage = nullptr;  // what a Successor (dispatcher.hpp) needs to know of the frame

  // Written by the pipeline before on_complete:
  // ok; kDeadlineExceeded, kUnavailable (card lost, shutting down), kCancelled, kResourceExhausted (made way
  // for a more urgent frame, or for one of a client that had fewer waiting)
  Status status;
  FrameTimes times;
};

struct PipelineOptions {
  std::uint32_t slots = 8;            // frames in flight on the cards; >= 1
  std::uint32_t queue_capacity = 64;  // frames waiting for a slot, in a Dispatcher
  std::chrono::milliseconds restart_backoff_initial{10};
  std::chrono::milliseconds restart_backoff_maximum{5000};
  // The longest the cards may take from one frame to the next, and for the oldest whose deadline has passed;
  // then frames fail with kUnavailable, and a card that does not give its runs back is loaded again. To be
  // longer than any card needs for a frame.
  std::chrono::milliseconds stuck_after{10000};
  std::chrono::milliseconds stuck_after_deadline{2000};
  // Told each time a card of the cluster (its name) was programmed; on any thread, several at once.
  std::function<void(const std::string& card)> on_programmed = {};
};

enum class CardState { kLoading, kUp, kLost };

struct CardStatus {
  std::string endpoint, card, image;
  CardState state = CardState::kLoading;
  std::uint64_t restarts = 0;
  std::uint64_t programmed = 0;  // times an image was loaded on it
  std::uint64_t parameters = 0;  // times a partition of it was given parameters
  std::uint64_t frames = 0;      // computed since load
  double busy_seconds = 0;
  card::Sensors sensors{};
  bool answers = true;        // false: it does not; what it counts and feels is from an earlier look
  std::uint32_t replica = 0;  // it belongs to
};

struct LinkStatus {
  std::string channel;  // name
  std::string producer_card, consumer_card;
  std::uint64_t packets = 0, bytes = 0, stalls = 0;
  bool up = false;
  std::uint64_t errors = 0;  // times a card reported the link down, or what came on it as no frame of ours
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

/// Told when a pipeline could take a frame again, or takes none any more.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void changed() = 0;  // any thread; may call the pipeline, must not block or throw
};

/// The way of one frame that came to its end.
struct FrameRecord {
  std::uint64_t sequence = 0;  // of its replica
  std::uint32_t slot = 0, epoch = 0;
  Clock::time_point submitted;  // taken by submit()
  Clock::time_point staged;     // got its slot
  Clock::time_point started;    // copied in, host stages before the cards done: the cards have it
  Clock::time_point computed;   // the last result came
  Clock::time_point done;       // copied out, host stages after the cards done
  std::uint32_t replica = 0;
};

class Pipeline {
 public:
  /// Binds the deployment's endpoints to cards of the cluster, those that hold an endpoint's image already
  /// before others; loads the images, all cards at once; writes the link tables and starts. A card that holds
  /// its image already is not programmed. The backend must have been selected (runtime/emulator/backend.hpp).
  /// Blocks until every card is up. Errors name the endpoint and what it needs: kDoesNotFit where no binding
  /// exists (cards of other pipelines of this process are not free), kEnvironment where XRT fails, kNotFound
  /// and kCorrupt for images, kInvalidInput for options out of range (slots 1..1024, queue at most 2^20,
  /// back-off and stuck_* at least 1 ms). `copies`: that many pipelines are to be opened, this one first: its
  /// cards are chosen so that there are some for the others too.
  static Result<std::unique_ptr<Pipeline>> open(std::shared_ptr<const plan::LoadedDeployment> deployment,
                                                const plan::Cluster& cluster, const PipelineOptions& options,
                                                std::uint32_t copies = 1);
  virtual ~Pipeline() = default;  // as stop(0)

  /// Whether open() would find images, a schedule and free cards for so many copies; the same errors.
  /// `also_free`: names of cards to be taken for free although they are in use. Touches no card.
  static Status check(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster,
                      const PipelineOptions& options, const std::vector<std::string>& also_free,
                      std::uint32_t copies = 1);

  virtual const plan::Deployment& deployment() const = 0;

  /// Never blocks on a card. On failure the frame is not taken and on_complete is not called: kInvalidInput
  /// (number or size of tensors), kResourceExhausted (no free slot; of a Dispatcher: its queue is full),
  /// kUnavailable (card lost, stopping), kDeadlineExceeded (already past). Any thread.
  virtual Status submit(Frame& frame) = 0;

  /// Takes a waiting frame back (its client went away): it completes with kCancelled. A frame already on the
  /// cards completes as usual. Any thread.
  virtual void cancel(Frame& frame) = 0;

  /// submit() and wait. Any thread but a pipeline's own.
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

  /// The watcher must live until stop() has returned; one, set once.
  virtual void watch(Watcher*) {}

  /// Whether every card is up and frames are taken. Reads no register, takes no lock, waits for no card: for
  /// health checks. Any thread.
  virtual bool ready() const = 0;

  /// How long after a refusal a frame may come again with some hope: until the next try to bring a lost card
  /// back, or as long as those that wait will take at the pace of late. Waits for no card. Any thread.
  virtual std::chrono::milliseconds retry_after() { return std::chrono::seconds(1); }

  /// A snapshot; has card registers read, so not for the hot path. Waits a quarter of a second for a card
  /// that hangs; what it counted is then as it was seen last. Any thread.
  virtual PipelineStatus status() = 0;

  /// The last frames that succeeded, oldest first, at most 1,024; not quite all of them under load. Any
  /// thread.
  virtual std::vector<FrameRecord> recent_frames() { return {}; }

  /// Another pipeline over the same deployment, from the bytes this one was opened with, whatever became of
  /// its directory since; as open(). To be stopped first where there are no other cards. kUnsupported where
  /// there is no such thing.
  virtual Result<std::unique_ptr<Pipeline>> open_again() const {
    return Error(ErrorCode::kUnsupported, "this pipeline cannot be opened again");
  }

  /// Refuses new frames, completes accepted ones for at most `bound`, fails the rest with kUnavailable and
  /// releases the cards (hanging ones within the driver's patience, 5 s where emulated). Idempotent; a call
  /// while another waits shortens that wait where its bound ends earlier, and may return before it.
  virtual void stop(std::chrono::milliseconds bound) = 0;
};

}  // namespace millrace::runtime::pipeline
