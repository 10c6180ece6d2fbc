// The deployment: a directory that `compile` writes and `serve` reads. Its deployment.json is the protobuf
// JSON of deployment.proto; these structs are the same data in C++. README.md describes the directory.
//
// A plan names logical endpoints, not cards. When a deployment is loaded, a card of the cluster is chosen for
// each endpoint. This choice is called the binding.
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

/// Returns the bytes of an element in an Open Inference Protocol datatype: 4 for "FP32", 0 for BYTES and unknown types.
std::uint64_t datatype_bytes(const std::string& datatype);

/// A tensor as clients see it: name, type and shape of the ONNX graph (with the batch axis, always 1).
struct TensorSignature {
  std::string name;
  std::string datatype;  // an Open Inference Protocol datatype: "FP32", "UINT8", …
  std::vector<std::int64_t> shape;
  std::uint64_t elements() const;  // 0 if an axis is below 1 or the product overflows
  std::uint64_t bytes() const;     // elements * datatype_bytes()
  bool operator==(const TensorSignature&) const = default;
};

/// How a picture or raw samples are converted to the model's input: x = (sample - mean[c]) * scale[c] for channel c.
/// Read from millrace.yaml.
struct Preprocessing {
  std::string layout;        // "NCHW", "NHWC"; "" if the input is not a picture
  std::vector<float> scale;  // one value, one for each channel, or empty (1)
  std::vector<float> mean;   // one value, one for each channel, or empty (0)
  bool operator==(const Preprocessing&) const = default;
};

struct ModelInfo {
  std::string name;
  std::string source_digest;  // sha256 of the ONNX file
  std::string description;
  std::vector<TensorSignature> inputs;
  std::vector<TensorSignature> outputs;
  std::vector<std::string> labels;  // names of the classes on the first output's last axis; may be empty
  Preprocessing preprocessing;
  bool operator==(const ModelInfo&) const = default;
};

enum class PartitionKind { kHost, kDataflow, kAie };

/// An input or output of a partition. An output port with several channels is a fork: the producer sends the
/// tensor on each channel.
struct Port {
  std::string name;  // unique identifier among the partition's ports: "in0", "out0"
  std::string tensor;
  kernels::ElementType type;
  std::vector<std::uint32_t> shape;
  std::uint64_t elements() const;  // 0 if there is no axis, an axis is 0, or the product overflows
  std::uint64_t storage_bytes() const;
  bool operator==(const Port&) const = default;
};

/// The performance that the compiler's exploration predicted for a partition. Used only in reports.
struct Prediction {
  Resources resources;
  std::uint64_t interval_cycles = 0;
  std::uint64_t latency_cycles = 0;
  std::uint64_t multiply_accumulates = 0;
  bool operator==(const Prediction&) const = default;
};

/// A file with those parameters of a partition that its image lacks. parameters.hpp describes the format.
struct ParameterFile {
  std::string file;  // relative to the deployment: "weights/<sha256>.bin"
  std::string sha256;
  std::uint64_t bytes = 0;
  bool operator==(const ParameterFile&) const = default;
};

struct Partition {
  std::string name;  // an identifier, unique in the plan
  PartitionKind kind = PartitionKind::kDataflow;
  std::string endpoint;
  std::string image;               // name of the image with this partition; empty for host partitions
  std::string region;              // "all" if the device has no named regions
  std::vector<Port> inputs;        // in the order of the program's inputs
  std::vector<Port> outputs;       // in the order of the program's outputs
  std::vector<std::string> nodes;  // the ONNX nodes that the partition computes
  std::string program_digest;      // sha256 of the serialised program or, with parameters, of its topology
  kernels::Program program;        // for host partitions only; images contain the programs of card partitions
  Prediction prediction;
  std::optional<ParameterFile> parameters;  // parameters of card partitions that are not built into the image
  bool operator==(const Partition&) const = default;
};

/// An FPGA image: the content that is programmed onto a card in one load.
struct Image {
  std::string name;
  std::string file;  // relative to the deployment: "images/<name>.xclbin"
  std::string file_sha256;
  std::string content_digest;  // digest of what the image computes
  std::string uuid;            // "xxxxxxxx-xxxx-8xxx-xxxx-xxxxxxxxxxxx", see uuid_from_digest()
  std::string device;          // the kind of device for which the image was built
  std::vector<std::string> partitions;
  bool operator==(const Image&) const = default;
};

/// A logical host or card of a plan. The binding (made when the deployment is loaded) assigns a real host or
/// card to it.
struct Endpoint {
  std::string name;
  bool host = false;
  std::string device;  // the required kind of device; empty for the host
  std::string image;
  bool operator==(const Endpoint&) const = default;
};

enum class Transport { kHost, kAurora, kUdp, kMpi };

/// Whether the tensors of a channel pass through the memory of hosts. The card that sends then has an egress unit for
/// the channel, and the card that receives has an ingress unit. All other transports are links between two cards.
constexpr bool passes_hosts(Transport transport) {
  return transport == Transport::kHost || transport == Transport::kMpi;
}

/// One end of a channel. An empty partition means the model's own inputs or outputs; `port` is then the tensor's name.
struct PortRef {
  std::string partition;
  std::string port;
  bool operator==(const PortRef&) const = default;
};

/// A part of the producer's tensor: `count` groups of `unit` elements. Group i has the consecutive elements from
/// (offset + i * stride) * unit on. The whole tensor is {0, elements, 1, 1}.
struct Slice {
  std::uint64_t offset = 0, count = 0, stride = 1, unit = 1;
  bool operator==(const Slice&) const = default;
};

/// A connection between ports of two partitions, or between a partition and the model's inputs or outputs.
struct Channel {
  std::uint32_t id = 0;  // unique in the plan; used as the tag on a link
  std::string name;
  PortRef producer, consumer;
  Transport transport = Transport::kHost;  // kHost: through the host's memory
  kernels::ElementType type;
  Slice slice;                     // the whole tensor unless the channel carries a part
  std::uint64_t frame_bytes = 0;   // bytes of a frame: in packed form on links, in storage form for kHost
  std::uint32_t packet_bytes = 0;  // payload bytes of a packet; 0 for kHost
  std::uint32_t credits = 0;       // most packets in flight; 0 for kHost
  bool operator==(const Channel&) const = default;
};

enum class Action { kSend, kReceive };

struct CommunicationStep {
  Action action = Action::kSend;
  std::uint32_t channel = 0;
  std::uint64_t bytes = 0;
  bool operator==(const CommunicationStep&) const = default;
};

/// The sends and receives of one port for one frame, in order. A partition's ports run concurrently.
struct PortPlan {
  std::string endpoint, partition, port;
  std::vector<CommunicationStep> steps;
  bool operator==(const PortPlan&) const = default;
};

/// A frame and the results that working cards return for it. A pipeline computes the frame on cards that were just loaded,
/// before it accepts frames of clients (PipelineOptions::check_known_answer).
struct KnownAnswer {
  struct Input {
    // Each element is step * n, where n is a random integer in lowest..highest.
    std::int32_t lowest = 0, highest = 0;
    float step = 1;  // 1 for inputs of integers
    bool operator==(const Input&) const = default;
  };
  struct Result {
    PortRef port;        // an output of a partition on a card that the host reads
    std::string sha256;  // of the port's tensor in storage form
    bool operator==(const Result&) const = default;
  };
  std::uint64_t seed = 0;
  std::vector<Input> inputs;  // for each input of the model, in order
  std::vector<Result> results;
  bool operator==(const KnownAnswer&) const = default;
};

struct Deployment {
  std::uint32_t schema_version = kSchemaVersion;
  std::string generator;  // program that wrote the deployment: "millrace 0.1.0"
  ModelInfo model;
  std::vector<Endpoint> endpoints;
  std::vector<Image> images;
  std::vector<Partition> partitions;  // in topological order
  std::vector<Channel> channels;
  std::vector<PortPlan> communication;
  std::uint32_t replicas = 1;  // number of pipelines, each on different cards; 1..kMostReplicas
  std::optional<KnownAnswer> known_answer;
  std::string digest;  // sha256 over all members above; identifies the deployment
  bool operator==(const Deployment&) const = default;

  const Partition* find_partition(const std::string& name) const;
  const Image* find_image(const std::string& name) const;
  const Endpoint* find_endpoint(const std::string& name) const;
};

/// A deployment that was read from disk and checked, with everything that is loaded onto cards. So a lost card is
/// loaded again with the same bytes, even if the directory has changed meanwhile.
struct LoadedDeployment {
  std::filesystem::path directory;
  Deployment plan;
  std::map<std::string, std::vector<std::byte>> images;  // xclbin files, by the image's name
  std::map<std::string, ImageRecord> records;            // by the image's name
  // The parameter files (parameters.hpp) of those partitions that have one, by the partition's name.
  std::map<std::string, std::vector<std::byte>> parameters;
  std::map<std::string, std::vector<std::byte>> plugins;  // shared libraries of plugins, by their SHA-256
};

/// Loads a deployment; reads each file once. Checks the images' containers and records (descriptions of their
/// partitions) against the plan, but does not decode the programs in images. Returns kNotFound for a path without a
/// deployment, kCorrupt for wrong checksums and for contradictions between the parts, and kUnsupported for another
/// schema.
Result<LoadedDeployment> load_deployment(const std::filesystem::path& directory);

/// Checks that the parts of a plan are consistent. The error names the first inconsistent part.
Status validate(const Deployment& deployment);

/// Converts JSON to a plan and back. Order and indentation are fixed: equal plans give equal bytes.
Result<Deployment> parse_deployment(const std::string& json);
std::string to_json(const Deployment& deployment);

/// Computes the digest that identifies a plan.
std::string compute_digest(const Deployment& deployment);

/// The index file of a directory that several deployments of one model share (compiler/variants).
inline constexpr char kVariantsFile[] = "variants.json";

/// Checks whether `directory` may be replaced as a whole. It must be absent or empty, or hold only files of one
/// deployment (with `variants`: only variants of a deployment and their Makefile). The current directory and all of
/// `inputs` must be outside of it. Returns kInvalidInput if not, and kEnvironment if the directory cannot be read.
Status check_replaceable(const std::filesystem::path& directory,
                         const std::vector<std::filesystem::path>& inputs, bool variants = false);

/// Returns kInvalidInput if `directory` holds variants. For commands that need a single deployment.
Status check_no_variants(const std::filesystem::path& directory);

/// Writes either the whole directory or nothing: deployment.json, the files that `fill` adds (images/*.xclbin), and
/// CHECKSUMS. The plan must be valid and `directory` replaceable. Returns kInternal if `fill` writes files whose
/// digests differ from the plan's.
Status write_deployment(const Deployment& deployment, const std::filesystem::path& directory,
                        const std::function<Status(const std::filesystem::path&)>& fill);

/// Returns an emulated cluster for `replicas` replicas of a deployment, for commands without a cluster file. Each
/// replica has one card for each endpoint except the host, in the plan's order and with the endpoint's name; names of
/// the second replica end in "-2", and so on. Cables connect cards as their channels need; one cable has at most
/// abi::kMaxTags channels in each direction. A device has the memory of its image's banks. Returns kCorrupt if an
/// image lists its banks wrongly.
Result<Cluster> emulated_cluster_for(const LoadedDeployment& deployment, std::uint32_t replicas = 1);

}  // namespace millrace::runtime::plan
