// The deployment: the directory that `compile` writes and `serve` reads. Its deployment.json is the protobuf
// JSON of deployment.proto, and these structs are its C++ form. README.md describes the directory.
//
// A plan names logical endpoints, not cards. The binding chooses a card for each endpoint when the deployment
// is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::plan {

inline constexpr std::uint32_t kSchemaVersion = 1;
inline constexpr std::uint32_t kMostReplicas = 64;

/// Bytes of one element of an Open Inference Protocol datatype: 4 for "FP32"; 0 for BYTES and unknown types.
std::uint64_t datatype_bytes(const std::string& datatype);

/// A tensor as clients see it: the ONNX graph's own name, type and shape (batch axis included, always 1).
struct TensorSignature {
  std::string name;
  std::string datatype;  // Open Inference Protocol: "FP32", "UINT8", …
  std::vector<std::int64_t> shape;
  std::uint64_t elements() const;  // 0 if an axis is below 1 or the product overflows
  std::uint64_t bytes() const;     // elements * datatype_bytes()
  bool operator==(const TensorSignature&) const = default;
};

/// How a picture or raw samples become the model's input: x = (sample - mean[c]) * scale[c]. From
/// millrace.yaml.
struct Preprocessing {
  std::string layout;        // "NCHW", "NHWC"; "" if the input is not a picture
  std::vector<float> scale;  // empty (1), one, or one a channel
  std::vector<float> mean;   // empty (0), one, or one a channel
  bool operator==(const Preprocessing&) const = default;
};

struct ModelInfo {
  std::string name;
  std::string source_digest;  // sha256 of the ONNX file
  std::string description;
  std::vector<TensorSignature> inputs;
  std::vector<TensorSignature> outputs;
  std::vector<std::string> labels;  // of the first output's last axis; may be empty
  Preprocessing preprocessing;
  bool operator==(const ModelInfo&) const = default;
};

enum class PartitionKind { kHost, kDataflow, kAie };

/// Where a tensor enters or leaves a partition. An output port with several channels is a fork: the producer
/// sends the tensor to each.
struct Port {
  std::string name;  // unique among the partition's ports; an identifier: "in0", "out0"
  std::string tensor;
  kernels::ElementType type;
  std::vector<std::uint32_t> shape;
  std::uint64_t elements() const;  // 0 if there is no axis, an axis is 0, or the product overflows
  std::uint64_t storage_bytes() const;
  bool operator==(const Port&) const = default;
};

/// What explore expected of a partition; reports only.
struct Prediction {
  Resources resources;
  std::uint64_t interval_cycles = 0;
  std::uint64_t latency_cycles = 0;
  std::uint64_t multiply_accumulates = 0;
  bool operator==(const Prediction&) const = default;
};

/// A partition's parameters, outside of its image: parameters.hpp has the format.
struct ParameterFile {
  std::string file;  // relative: "weights/<sha256>.bin"
  std::string sha256;
  std::uint64_t bytes = 0;
  bool operator==(const ParameterFile&) const = default;
};

struct Partition {
  std::string name;  // an identifier
  PartitionKind kind = PartitionKind::kDataflow;
  std::string endpoint;
  std::string image;               // name of the image that holds it; empty for host partitions
  std::string region;              // "all" where the device has no named regions
  std::vector<Port> inputs;        // in the order of the program's inputs
  std::vector<Port> outputs;       // in the order of the program's outputs
  std::vector<std::string> nodes;  // ONNX nodes it computes
  std::string program_digest;      // sha256 of the serialised program or, with parameters, of its topology
  kernels::Program program;        // host partitions only; card partitions' programs are in their image
  Prediction prediction;
  std::optional<ParameterFile> parameters;  // of blocks that are not baked; on cards only
  bool operator==(const Partition&) const = default;
};

/// What one load programs.
struct Image {
  std::string name;
  std::string file;  // relative: "images/<name>.xclbin"
  std::string file_sha256;
  std::string content_digest;  // of what it computes; its uuid is the first 16 bytes, made a version-8 uuid
  std::string uuid;            // "xxxxxxxx-xxxx-8xxx-xxxx-xxxxxxxxxxxx"
  std::string device;          // kind it was built for
  std::vector<std::string> partitions;
  bool operator==(const Image&) const = default;
};

/// A logical place: the host, or a card of a kind.
struct Endpoint {
  std::string name;
  bool host = false;
  std::string device;  // required kind; empty for the host
  std::string image;
  bool operator==(const Endpoint&) const = default;
};

enum class Transport { kHost, kAurora, kUdp, kMpi };

/// One end of a channel. An empty partition means the model's own inputs or outputs (port = the tensor's
/// name).
struct PortRef {
  std::string partition;
  std::string port;
  bool operator==(const PortRef&) const = default;
};

/// Elements offset, offset + stride, … (count of them, in units of `unit` consecutive elements) of the
/// producer's tensor. The whole tensor is {0, elements, 1, 1}.
struct Slice {
  std::uint64_t offset = 0, count = 0, stride = 1, unit = 1;
  bool operator==(const Slice&) const = default;
};

/// One edge of the graph of partitions.
struct Channel {
  std::uint32_t id = 0;  // unique; the tag on a link
  std::string name;
  PortRef producer, consumer;
  Transport transport = Transport::kHost;  // kHost: through the host's memory
  kernels::ElementType type;
  Slice slice;                     // whole tensor unless a split
  std::uint64_t frame_bytes = 0;   // on the wire: packed on links, storage form for kHost
  std::uint32_t packet_bytes = 0;  // payload of a packet; 0 for kHost
  std::uint32_t credits = 0;       // packets in flight; 0 for kHost
  bool operator==(const Channel&) const = default;
};

enum class Action { kSend, kReceive };

struct CommunicationStep {
  Action action = Action::kSend;
  std::uint32_t channel = 0;
  std::uint64_t bytes = 0;
  bool operator==(const CommunicationStep&) const = default;
};

/// What one port does for one frame, in order; ports of a partition run concurrently.
struct PortPlan {
  std::string endpoint, partition, port;
  std::vector<CommunicationStep> steps;
  bool operator==(const PortPlan&) const = default;
};

struct Deployment {
  std::uint32_t schema_version = kSchemaVersion;
  std::string generator;  // "millrace 0.1.0"
  ModelInfo model;
  std::vector<Endpoint> endpoints;
  std::vector<Image> images;
  std::vector<Partition> partitions;  // topological order of the graph of partitions
  std::vector<Channel> channels;
  std::vector<PortPlan> communication;
  std::uint32_t replicas = 1;  // pipelines it was compiled for, each on cards of its own; 1..kMostReplicas
  std::string digest;          // sha256 over all the above; identity of the deployment
  bool operator==(const Deployment&) const = default;

  const Partition* find_partition(const std::string& name) const;
  const Image* find_image(const std::string& name) const;
  const Endpoint* find_endpoint(const std::string& name) const;
};

/// A deployment that was read from disk and checked, with all that cards are loaded with. So a lost card gets
/// the same bytes again, even if the directory has changed meanwhile.
struct LoadedDeployment {
  std::filesystem::path directory;
  Deployment plan;
  std::map<std::string, std::vector<std::byte>> images;  // xclbins, by the image's name
  std::map<std::string, ImageRecord> records;            // likewise
  // By the partition's name, for partitions with parameters outside their image; parameters.hpp.
  std::map<std::string, std::vector<std::byte>> parameters;
};

/// Reads each file once. kNotFound (no such directory, not a deployment), kCorrupt (a checksum or a reference
/// between the parts is wrong), kUnsupported (another schema). Checks the images' containers and records
/// against the plan; does not decode the images' programs.
Result<LoadedDeployment> load_deployment(const std::filesystem::path& directory);

/// Checks that the parts of a plan fit together. The error names the first part that does not.
Status validate(const Deployment& deployment);

/// Bytes -> plan and back; the JSON is canonical (stable order, two spaces), so equal plans give equal bytes.
Result<Deployment> parse_deployment(const std::string& json);
std::string to_json(const Deployment& deployment);

/// Computes the plan's digest.
std::string compute_digest(const Deployment& deployment);

/// Several deployments of one model may be side by side in a directory (compiler/variants), with this index.
inline constexpr char kVariantsFile[] = "variants.json";

/// Whether a deployment, or a directory of variants, may replace `directory`. The directory must be absent,
/// empty, or the same without other files, and must neither be nor contain the current directory or one of
/// `inputs`. A directory of variants may hold a Makefile. kInvalidInput; kEnvironment if it cannot be read.
Status check_replaceable(const std::filesystem::path& directory,
                         const std::vector<std::filesystem::path>& inputs, bool variants = false);

/// kInvalidInput if `directory` holds variants; for commands that need one deployment.
Status check_no_variants(const std::filesystem::path& directory);

/// Writes `directory` whole or not at all: deployment.json, the files that `fill` adds (images/*.xclbin),
/// CHECKSUMS. The plan must be valid and `directory` replaceable. kInternal if `fill` writes files with other
/// digests than the plan's.
Status write_deployment(const Deployment& deployment, const std::filesystem::path& directory,
                        const std::function<Status(const std::filesystem::path&)>& fill);

/// An emulated cluster for some replicas of a deployment, for commands without a cluster file. Each replica
/// has one card for each endpoint that is not a host, in the plan's order and named after it; the second
/// replica's names end in "-2", and so on. Cables join cards as their channels need; one cable carries at most
/// abi::kMaxTags channels each way. Devices have as much memory as the banks of their images together. kCorrupt
/// if an image lists its banks wrongly.
Result<Cluster> emulated_cluster_for(const LoadedDeployment& deployment, std::uint32_t replicas = 1);

}  // namespace millrace::runtime::plan
