// A running partition: a dataflow that computes frames when they arrive at its input ports, and sends results from its
// output ports. It computes with kernels/fast or by simulating the partition's SystemVerilog.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fast/executor.hpp"
#include "kernels/program/program.hpp"
#include "runtime/emulator/card/commands.hpp"
#include "runtime/emulator/card/link_port.hpp"
#include "runtime/emulator/card/pacer.hpp"
#include "runtime/rtl/executor.hpp"

namespace millrace::runtime::emulator {

/// The card's memory, accessed by device address and with bounds checks.
class MemoryView {
 public:
  MemoryView(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  void lay_out(std::span<const ImageHeader::Bank> banks) { banks_.assign(banks.begin(), banks.end()); }
  /// Returns the bytes in memory, or null if [address, address + bytes) is not inside one bank.
  std::byte* at(std::uint64_t address, std::uint64_t bytes) const;
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::uint64_t bytes_;
  std::vector<ImageHeader::Bank> banks_;
};

/// Objects that all partitions of a card share.
struct CardServices {
  MemoryView& memory;
  Completions& completions;
  std::byte* const fabric;
  const std::uint32_t card;  // the card's index
  const bool rtl;            // whether partitions are simulated
  UdpLinks& udp_links;
  const double pace;  // partitions take this many times their predicted time; 0: as fast as they can
  std::uint32_t epoch = 0;
  std::uint64_t frames = 0;
  std::uint64_t busy_nanoseconds = 0;
};

class Partition {
 public:
  /// The source of an input or the destination of an output. Exactly one pointer is set; both objects outlive
  /// the partition.
  struct Channel {
    CommandQueue* unit = nullptr;  // an ingress or egress unit
    LinkPort* link = nullptr;
  };

  /// Describes a partition some of whose parameters are not in the image.
  struct Parameters {
    std::string topology;          // digest of the program in the image
    CommandQueue* unit = nullptr;  // its runs load parameters; null if the image contains all
  };

  /// `inputs` has one channel for each program input; `outputs` has a list of channels for each program output. If
  /// `simulation` is set, the partition simulates its SystemVerilog instead of computing with kernels/fast. `pace` has
  /// the partition's predicted times.
  Partition(const kernels::Program& program, CardServices& services, std::vector<Channel> inputs,
            std::vector<std::vector<Channel>> outputs, Parameters parameters,
            std::unique_ptr<rtl::Executor> simulation, const plan::Pace& pace);

  /// Advances everything that can advance: at most one frame through the program, or some milliseconds of its
  /// simulation. Returns whether anything advanced.
  bool advance();
  /// Returns the time of the steady clock, in nanoseconds, at which the partition can next advance although nothing
  /// else happens. Returns the largest number if there is no such time. advance() determines the time.
  std::uint64_t wake_at() const { return wake_at_; }
  /// Drops all frames, or only frames whose epoch is not the card's epoch. (The host raises the card's epoch to discard
  /// frames.)
  void drop_frames(bool all);
  /// Returns why the simulation or the code of a plugin lost a frame, and clears the reason. Returns an empty text if
  /// no frame was lost.
  std::string take_fault() { return std::exchange(fault_, std::string()); }

 private:
  struct Input {
    kernels::ElementType type;
    std::vector<std::byte> frame;  // the frame in storage form
    std::vector<std::byte> wire;   // the frame in packed form; empty if it equals the storage form
    Channel channel;
    FrameKey key;
    std::uint64_t received = 0;  // bytes of the packed form received so far
    std::uint64_t arrived = 0;   // when the last packet of the frame arrived; set if the partition has a pace
    bool full = false;
    std::span<std::byte> landing() { return wire.empty() ? std::span(frame) : std::span(wire); }
  };
  struct Exit {
    Channel channel;
    std::uint64_t sent = 0;
    bool done = true;
  };
  struct Output {
    kernels::ElementType type;
    std::vector<std::byte> frame, wire;
    std::vector<Exit> exits;
    FrameKey key;
    bool full = false;
    std::uint64_t took = 0;  // compute time in nanoseconds, or in cycles if simulated
    std::uint64_t ready_at = 0;
    std::uint64_t left_at =
        0;  // when the hardware would have begun to send the last packet; 0 without a pace
    std::span<const std::byte> wire_form() const { return wire.empty() ? std::span(frame) : std::span(wire); }
  };

  bool take_parameters();
  Status use_parameters(const Command& run);
  Status continue_loading();
  bool take_from_host(Input& input);
  bool take_from_link(Input& input);
  bool hand_on(Output& output);
  bool hand_to_host(Output& output, Exit& exit);
  void deliver(const Output& output, const Command& run, plan::abi::FrameStatus status);
  bool compute();
  bool inputs_are_full() const;
  bool outputs_are_free() const;
  bool compute_at_pace();
  bool release_at_pace();
  bool join(FrameKey& key);
  void run_program(const FrameKey& key);
  void continue_simulation();
  void fill_outputs(const FrameKey& key, std::uint64_t took);

  CardServices& services_;
  Parameters parameters_;
  bool ready_ = true;                                // whether all parameters are loaded
  std::optional<Command> loading_;                   // the run whose parameters are being loaded
  std::optional<kernels::fast::Executor> executor_;  // either executor_ or simulation_ is set
  std::unique_ptr<rtl::Executor> simulation_;
  bool simulating_ = false;
  FrameKey simulated_;  // the frame that is being simulated
  std::string fault_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  Pacer pacer_;
  std::uint64_t outputs_free_at_ = 0;  // when the outputs became free; set if the partition has a pace
  std::uint64_t wake_at_ = 0;
  std::vector<const std::byte*> input_frames_;
  std::vector<std::byte*> output_frames_;
  std::uint64_t usual_nanoseconds_ = 0;  // running mean of the compute time
};

}  // namespace millrace::runtime::emulator
