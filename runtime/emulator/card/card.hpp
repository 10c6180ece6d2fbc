// An emulated card: one event loop that takes commands, answers calls and runs partitions.
#pragma once

#include <memory>
#include <string>

#include "runtime/emulator/card/image.hpp"
#include "runtime/emulator/shared_memory.hpp"

namespace millrace::runtime::emulator {

/// One thread.
class Card {
 public:
  /// `image` is the descriptor to which the host writes images.
  Card(SharedMemory control, SharedMemory memory, SharedMemory fabric, int image);
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  /// Serves until the process ends.
  [[noreturn]] void run();

 private:
  ControlBlock& control() const { return control_memory_.as<ControlBlock>(); }
  bool step();
  void sleep(std::uint32_t rung);
  bool take_commands();
  void take_command(const Command& command);
  bool answer_call();
  std::int32_t load(std::string& why);
  std::int32_t abort(std::uint32_t slot);
  std::int32_t read_register(std::uint32_t unit, std::uint32_t offset, std::uint32_t& value) const;
  std::int32_t write_register(std::uint32_t unit, std::uint32_t offset, std::uint32_t value);
  bool is_control(std::uint32_t unit) const;
  void drop_image();
  void set_epoch(std::uint32_t epoch);
  void collect_faults();
  void report(plan::abi::FaultCode code, std::uint32_t link, const std::string& detail);
  bool tell_supervisor();

  // Constant after construction.
  SharedMemory control_memory_, fabric_memory_, memory_;
  const int image_file_;
  Doorbell& doorbell_;
  const std::uint64_t spin_nanoseconds_;

  MemoryView memory_view_;
  Completions completions_;
  CardServices services_;
  std::unique_ptr<LoadedImage> image_;
  plan::abi::FaultReport fault_;  // kNone: nothing to report
  std::uint64_t taken_ = 0;
  std::uint32_t answered_ = 0;
};

}  // namespace millrace::runtime::emulator
