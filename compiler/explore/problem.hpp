// What there is to decide when a model is spread over cards: operations, tensors, cards and cables, as plain
// numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::explore {

struct Operation {
  std::string name;
  std::uint64_t cost = 0;     // multiplications and additions a frame; 0 on the host
  bool host = false;          // cannot, or should not, run on a card
  bool starts_layer = false;  // a convolution or fully connected block: a cut may stand before it
  std::vector<std::uint32_t> inputs, outputs;  // indices into Problem::tensors
};

struct Tensor {
  std::string name;
  std::uint64_t bytes = 0;  // packed, as a link carries it
};

struct Card {
  std::string name, device;
};

/// Operations form a DAG: each tensor has at most one producer (none: an input of the model), which stands
/// before its readers.
struct Problem {
  std::string model;
  std::vector<Operation> operations;
  std::vector<Tensor> tensors;
  std::string cluster;
  std::vector<Card> cards;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> cables;  // indices into cards
  std::optional<std::uint32_t> partitions;  // asked for: this many cards, no more, no fewer
};

/// Blocks that touch float32 go to the host, and with them permutes that only move what the host makes or
/// reads: the model's own layout is the host's business.
Problem make_problem(const kernels::Program& program, const runtime::plan::Cluster& cluster,
                     std::optional<std::uint32_t> partitions);

/// What is wrong with a problem as such (our bug): indices, order, producers. Empty where nothing is.
std::string check(const Problem& problem);

/// A run of operations that is not cut: one that starts a layer, with what follows it up to the next. What
/// stands before the first belongs to the first.
struct Layer {
  std::vector<std::uint32_t> operations;  // ascending
  std::uint32_t stage = 0;
  std::uint64_t cost = 0;
};

/// How often the frame has changed between host and cards when it reaches an operation: even on the host, odd
/// on cards. Operations of one stage never wait for a later one.
std::vector<std::uint32_t> stages(const Problem& problem);

/// The cards' operations as layers, by stage, then in the problem's order.
std::vector<Layer> layers(const Problem& problem);

}  // namespace millrace::compiler::explore
