// What a deployment or an xclbin holds, for people (an aligned table) and for programs (JSON, schema 1:
// compiler/README.md).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::cli {

/// The sums of a convolution or fully connected block.
struct Accumulator {
  std::string block, type;  // type: "int20", the smallest that holds every sum that can occur
};

/// What a program costs to hold and to run.
struct ProgramSummary {
  std::string partition, place;  // place: endpoint, or region in an xclbin
  std::string device;            // empty on the host
  std::uint64_t layers = 0;      // convolutions and fully connected blocks
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t weight_bytes = 0;  // packed, biases not counted
  std::vector<std::string> blocks, nodes;
  std::vector<Accumulator> accumulators;
};

/// A deployment with its images read; the programs of card partitions come from there.
struct Description {
  runtime::plan::Deployment plan;
  std::vector<ProgramSummary> partitions;  // the plan's order
  std::vector<std::uint64_t> image_bytes;  // the plan's order
};

/// Reads and checks every image. Errors name the file.
Result<Description> describe(const runtime::plan::LoadedDeployment& deployment);

/// `extra` are members to add at the end: ",\"key\":value", empty for none.
void print_table(const Description& description, std::ostream& out);
void print_json(const Description& description, const std::string& extra, std::ostream& out);

/// The same for one image: `bytes` are those of the xclbin.
struct ImageDescription {
  runtime::plan::XclbinView view;  // into the bytes given
  bool ours = false;               // has a record; else only the container is described
  runtime::plan::ImageRecord record;
  std::vector<ProgramSummary> partitions;  // empty where there is no EMULATION_DATA
};
Result<ImageDescription> describe_image(std::span<const std::byte> bytes);
void print_table(const ImageDescription& description, std::ostream& out);
void print_json(const ImageDescription& description, std::ostream& out);

}  // namespace millrace::cli
