// Says for each ONNX node of a model who can compute it, without searching for a plan: `millrace coverage`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::compiler::coverage {

/// Where a node runs. If the blocks that compute a node run in several places, the node gets the place that comes first
/// in this list.
enum class Place : std::uint8_t {
  kHardware,     // on a card: some generator makes hardware for its block
  kEmulated,     // on emulated cards only, or on the host with --host: an integer block without hardware
  kHost,         // on the host
  kCompileTime,  // nowhere, because nothing is left to compute: constants, moves without cost, removed nodes
  kNowhere,      // nobody can compute the node
  kUnknown,      // the node depends on the result of a node that runs nowhere, whose shape is not known
};

/// Returns the name in JSON of a place where a node can run: "hardware", "compile_time".
const char* to_string(Place place);

/// Which generators make hardware for a node's block.
struct Generators {
  bool folded = false;    // units that read weights from tables
  bool unrolled = false;  // circuits made of the weights
  bool streamed = false;  // folded, with weights read from the card's memory
  bool plugin = false;    // an external generator
  bool operator==(const Generators&) const = default;
};

struct NodeCoverage {
  std::string name, domain, type;  // of the ONNX node
  Place place = Place::kNowhere;
  Generators generators;                // only of nodes with Place::kHardware
  bool partly_host = false;             // hardware computes the node's sums, and the host the rest
  std::vector<std::string> blocks;      // that compute the node; the first is the one with the most work
  std::vector<std::string> fused_with;  // other nodes in the first of these blocks
  std::uint64_t multiply_accumulates = 0, weights = 0;
  std::string missing;  // why hardware, or anybody, does not compute the node; may be empty
  std::string rewrite;  // the nearest change of the model that helps; may be empty
};

struct Coverage {
  std::string model;
  std::string assumed;        // "int8": the model is a float model, and is covered as if it were quantised
  std::size_t constants = 0;  // number of Constant nodes, which `nodes` leaves out
  std::vector<NodeCoverage> nodes;    // in the file's order
  std::vector<std::string> problems;  // of the model as a whole: an output that no block gives
  double milliseconds = 0;

  /// Returns the number of nodes that nothing can compute, plus the nodes for which the coverage does not know whether
  /// anything can.
  std::size_t missing() const;
};

struct Options {
  std::filesystem::path model;
  std::filesystem::path cluster;               // optional; weights are streamed only if some card has memory
  std::vector<std::filesystem::path> plugins;  // optional
};

/// Reads a model and says who can compute each node. Returns an error only if the file as a whole cannot be read: it is no
/// ONNX model, it is inconsistent, or it has dynamic shapes.
Result<Coverage> cover(const Options& options);

/// Returns the coverage as a table of at most 110 columns. Nodes with the same operator that run in the same place, for
/// the same reason, share a line unless `all` is set.
std::string terminal(const Coverage& coverage, bool all);

/// Returns the coverage as one JSON object, which README.md describes.
std::string json(const Coverage& coverage);

/// A row of the table of shares: the nodes, multiplications and weights that one generator, or one place such as the
/// host, computes.
struct Share {
  std::string by;  // "folded", "hardware", "host", …
  std::uint64_t nodes = 0, multiply_accumulates = 0, weights = 0;
};

/// Returns the table of shares: a row for each generator, one for all hardware together, and one for each other place
/// where nodes run, such as the host. The last row, "combined", counts everything that runs. Nodes without work at run
/// time count in "compile_time" and "combined" only.
std::vector<Share> shares(const Coverage& coverage);

}  // namespace millrace::compiler::coverage
