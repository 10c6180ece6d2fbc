// What a plan is asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"
#include "compiler/front/read_model.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler {

/// A block that is built as several, each with a part of its output channels.
struct Split {
  std::string block;
  std::uint32_t parts = 2;
  bool operator==(const Split&) const = default;
};

/// Which plans are played clock by clock.
enum class Play : std::uint8_t {
  kNone,
  kWhereQuick,  // if playing takes less than a second
  kAll,         // even if playing takes minutes; compile() needs it
};

struct PlanOptions : ModelOptions {
  std::filesystem::path cluster;
  std::optional<std::uint32_t> partitions;  // cards of each replica, exactly; default: chosen
  std::optional<std::uint32_t> replicas;    // pipelines, each on cards of its own; default: chosen
  explore::Targets targets;
  explore::Shares shares = explore::kDefaultShares;
  std::optional<kernels::Placement> weights;  // of every block that has weights; default: chosen
  // Read only if `weights` is not given. True: the weights are in the images, and are streamed from the
  // card's memory only if the model does not fit, or reaches its target only with layers split. False: each
  // layer's weights are placed where that is best.
  bool baked_first = true;
  std::filesystem::path plan;            // a plan file that is followed instead of a search
  bool no_host = false;                  // refuse a plan in which the host does more than convert
  std::vector<std::string> host_blocks;  // names of blocks to run on the host
  std::optional<double> host_seconds;  // the time of each host block between cards; default: the catalogue's
  std::filesystem::path generator_plugin;                            // a program that offers candidates too
  std::chrono::milliseconds plugin_time = std::chrono::seconds(30);  // each of its calls may take
  Play play = Play::kWhereQuick;
  std::vector<Split> splits;  // asked for; others are made if a layer does not fit or limits the rate
};

/// Whether the options ask for figures: targets, an objective other than the default, or a plan file.
bool needs_prediction(const PlanOptions& options);

}  // namespace millrace::compiler
