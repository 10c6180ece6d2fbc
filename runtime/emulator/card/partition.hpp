// A partition at work: free-running dataflow from its input ports through its program, or the simulation of
// its SystemVerilog, to its output ports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "runtime/rtl/executor.hpp"

namespace millrace::runtime::emulator {

/// The card's memory by device address, for bounds.
class MemoryView {
 public:
  MemoryView(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  void lay_out(std::span<const ImageHeader::Bank> banks) { banks_.assign(banks.begin(), banks.end()); }
  /// Null where [address, address + bytes) is not inside one bank.
  std::byte* at(std::uint64_t address, std::uint64_t bytes) const;
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::uint64_t bytes_;
  std::vector<ImageHeader::Bank> banks_;
};

/// What partitions need of the card they are on.
struct CardServices {
  MemoryView& memory;
  Completions& completions;
  std::uint32_t epoch = 0;
  std::uint64_t frames = 0;
  std::uint64_t busy_nanoseconds = 0;
  bool rtl = false;  // partitions are simulated; constant
};

class Partition {
 public:
  /// Exactly one of them is set; both live as long as the partition.
  struct Channel {
    CommandQueue* unit = nullptr;  // ingress or egress
    LinkPort* link = nullptr;
  };

  /// Of a partition some of whose parameters are not in the image.
  struct Parameters {
    std::string topology;          // program digest of the image's partition
    CommandQueue* unit = nullptr;  // whose runs bring them; null: all are in the image
  };

  /// `inputs`: one a program input; `outputs`: for each program output the channels that carry it.
  /// `simulation`: of the program's SystemVerilog, to be used in place of kernels/fast; may be null.
  Partition(const kernels::Program& program, CardServices& services, std::vector<Channel> inputs,
            std::vector<std::vector<Channel>> outputs, Parameters parameters,
            std::unique_ptr<rtl::Executor> simulation);

  /// Moves whatever can move: at most one frame through the program, or some milliseconds of its simulation.
  /// True where something did.
  bool advance();
  /// Drops what belongs to an epoch other than the card's.
  void flush();
  /// Why the simulation lost a frame; empty where it did not.
  std::string take_fault() { return std::exchange(fault_, std::string()); }

 private:
  struct Input {
    kernels::ElementType type;
    std::vector<std::byte> frame;  // storage form
    std::vector<std::byte> wire;   // packed form; empty where it is the same
    Channel channel;
    FrameKey key;
    std::uint64_t received = 0;  // bytes of wire form so far
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
    std::uint64_t took = 0;  // nanoseconds of compute; of a simulation cycles
    std::uint64_t ready_at = 0;
    std::span<const std::byte> wire_form() const { return wire.empty() ? std::span(frame) : std::span(wire); }
  };

  bool take_parameters();
  Status use_parameters(const Command& run);
  Status continue_loading();
  void drop_frames(bool all);
  bool take_in(Input& input);
  bool take_from_host(Input& input);
  bool take_from_link(Input& input);
  bool hand_on(Output& output);
  bool hand_to_host(Output& output, Exit& exit);
  void deliver(const Output& output, const Command& run, plan::abi::FrameStatus status);
  bool compute();
  bool join(FrameKey& key);
  void run_program(const FrameKey& key);
  void continue_simulation();
  void fill_outputs(const FrameKey& key, std::uint64_t took);

  CardServices& services_;
  Parameters parameters_;
  bool ready_ = true;                                // has its parameters
  std::optional<Command> loading_;                   // the run whose parameters go into the simulation
  std::optional<kernels::fast::Executor> executor_;  // one of the two
  std::unique_ptr<rtl::Executor> simulation_;
  bool simulating_ = false;
  FrameKey simulated_;  // the frame that is being simulated
  std::string fault_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<const std::byte*> input_frames_;
  std::vector<std::byte*> output_frames_;
  std::uint64_t usual_nanoseconds_ = 0;  // running mean of compute time
};

}  // namespace millrace::runtime::emulator
