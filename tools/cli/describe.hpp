// Describes the content of a deployment or an xclbin, as aligned tables or as JSON (schema 1, specified in
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

/// The accumulator of a convolution or fully connected block.
struct Accumulator {
  std::string block, type;  // type: for example "int20", the smallest that holds every possible sum
};

/// The size of a program and the work of running it.
struct ProgramSummary {
  std::string partition, place;  // place: the endpoint; in an xclbin, the region
  std::string device;            // empty on the host
  std::uint64_t layers = 0;      // convolutions and fully connected blocks
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t weight_bytes = 0;  // packed, biases not counted
  std::vector<std::string> blocks, nodes;
  std::vector<Accumulator> accumulators;
};

/// A deployment and a summary of its programs. The programs of card partitions are read from the images.
struct Description {
  runtime::plan::Deployment plan;
  std::vector<ProgramSummary> partitions;  // in the plan's order
  std::vector<std::uint64_t> image_bytes;  // in the plan's order
};

/// Reads and checks every image. An error names the file.
Result<Description> describe(const runtime::plan::LoadedDeployment& deployment);

/// `extra` is appended to the JSON object's members: ",\"key\":value", or empty.
void print_table(const Description& description, std::ostream& out);
void print_json(const Description& description, const std::string& extra, std::ostream& out);

/// The description of one xclbin.
struct ImageDescription {
  runtime::plan::XclbinView view;  // refers to the bytes given to describe_image()
  bool ours = false;  // the xclbin has a Millrace record; if not, only its sections are described
  runtime::plan::ImageRecord record;
  std::vector<ProgramSummary> partitions;  // empty if the xclbin has no EMULATION_DATA
};
Result<ImageDescription> describe_image(std::span<const std::byte> bytes);
void print_table(const ImageDescription& description, std::ostream& out);
void print_json(const ImageDescription& description, std::ostream& out);

}  // namespace millrace::cli
