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
  std::string block, type;  // type: such as "int20", the smallest type that holds every possible sum
};

/// A partition's program: its size, and how much it computes per frame.
struct ProgramSummary {
  std::string partition, place;  // place: where it runs, an endpoint or, in an xclbin, a region
  std::string device;            // empty on the host
  std::uint64_t layers = 0;      // number of convolutions and fully connected blocks
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t weight_bytes = 0;  // as stored (packed), without biases
  std::vector<std::string> blocks, nodes;
  std::vector<Accumulator> accumulators;
};

/// A deployment and a summary of its programs. The programs of card partitions come from the FPGA images.
struct Description {
  runtime::plan::Deployment plan;
  std::vector<ProgramSummary> partitions;  // in the plan's order
  std::vector<std::uint64_t> image_bytes;  // in the plan's order
};

/// Reads and checks every FPGA image of the deployment. An error names the image's file.
Result<Description> describe(const runtime::plan::LoadedDeployment& deployment);

/// Prints a deployment as a table or as JSON. `extra` is empty or has the form ",\"key\":value" and is
/// appended to the JSON object's members.
void print_table(const Description& description, std::ostream& out);
void print_json(const Description& description, const std::string& extra, std::ostream& out);

/// The content of one xclbin file.
struct ImageDescription {
  runtime::plan::XclbinView view;  // refers to the bytes passed to describe_image()
  bool ours = false;  // the xclbin has a Millrace record; if not, only its sections are described
  runtime::plan::ImageRecord record;
  std::vector<ProgramSummary> partitions;  // empty if the xclbin has no EMULATION_DATA
};
Result<ImageDescription> describe_image(std::span<const std::byte> bytes);
void print_table(const ImageDescription& description, std::ostream& out);
void print_json(const ImageDescription& description, std::ostream& out);

}  // namespace millrace::cli
