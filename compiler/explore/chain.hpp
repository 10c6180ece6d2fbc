// The layers of a problem in their order, with the tensors that go from one to later ones: what cuts are
// judged by. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"
#include "compiler/explore/problem.hpp"

namespace millrace::compiler::explore {

/// A tensor that goes from one layer to later ones.
struct Edge {
  std::uint32_t tensor = 0;
  std::size_t from = 0;
  std::vector<std::size_t> readers;  // layers, ascending, each once
  std::size_t last() const { return readers.back(); }
};

struct Chain {
  std::vector<Layer> layers;
  std::vector<std::size_t> layer_of;  // operation -> layer; layers.size() on the host
  std::vector<Edge> edges;
  std::vector<std::uint64_t> cost_before;  // of layers 0..i-1
  std::vector<std::uint64_t> live_bytes;   // of tensors that cross a cut before layer i
  std::vector<std::size_t> farthest;       // last layer that reads anything made before layer i

  std::size_t size() const { return layers.size(); }
  std::uint64_t cost(std::size_t begin, std::size_t end) const {
    return cost_before[end] - cost_before[begin];
  }
};

Chain make_chain(const Problem& problem);

/// Whether each layer of a stage reads the one before it: pieces in a row then need cards joined in a row.
bool reads_the_one_before(const Chain& chain);

/// A tensor of an earlier stage that the same place needs again: it would have to leave and come back. Null
/// where there is none.
const Edge* returning(const Chain& chain, const std::vector<std::uint32_t>& place_of_layer);

/// Parts by stage, then place; largest cost and crossing bytes.
Solution make_parts(const Problem& problem, const Chain& chain,
                    const std::vector<std::uint32_t>& place_of_layer, std::vector<std::uint32_t> card);

std::string plural(std::size_t n, const std::string& word);

/// What solve() refuses of targets and cables as they were given.
Status check_given(const Problem& problem);

/// What solve() refuses of a number of layers and of partitions: nothing for a card to do, more pieces than
/// layers or cards.
Status check_layers(const Problem& problem, std::size_t layers);

}  // namespace millrace::compiler::explore
