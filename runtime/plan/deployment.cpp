#include "runtime/plan/deployment.hpp"

#include <algorithm>
#include <limits>

#include "runtime/base/digest.hpp"
#include "runtime/plan/deployment.pb.h"
#include "runtime/plan/fields.hpp"
#include "runtime/plan/proto.hpp"

namespace millrace::runtime::plan {
static void fields(Fields& io, TensorSignature& tensor) {
  io("name", tensor.name);
  io("datatype", tensor.datatype);
  io("shape", tensor.shape);
}

static void fields(Fields& io, Preprocessing& preprocessing) {
  io("layout", preprocessing.layout);
  io("scale", preprocessing.scale);
  io("mean", preprocessing.mean);
}

static void fields(Fields& io, ModelInfo& model) {
  io("name", model.name);
  io("source_digest", model.source_digest);
  io("description", model.description);
  io("inputs", model.inputs);
  io("outputs", model.outputs);
  io("labels", model.labels);
  io("preprocessing", model.preprocessing);
}

static void fields(Fields& io, Endpoint& endpoint) {
  io("name", endpoint.name);
  io("host", endpoint.host);
  io("device", endpoint.device);
  io("image", endpoint.image);
}

static void fields(Fields& io, Image& image) {
  io("name", image.name);
  io("file", image.file);
  io("file_sha256", image.file_sha256);
  io("content_digest", image.content_digest);
  io("uuid", image.uuid);
  io("device", image.device);
  io("partitions", image.partitions);
}

static void fields(Fields& io, Port& port) {
  io("name", port.name);
  io("tensor", port.tensor);
  io("type", port.type);
  io("shape", port.shape);
}

static void fields(Fields& io, Resources& resources) {
  io("lut", resources.lut);
  io("lutram", resources.lutram);
  io("ff", resources.ff);
  io("dsp", resources.dsp);
  io("bram36", resources.bram36);
  io("uram", resources.uram);
}

static void fields(Fields& io, Prediction& prediction) {
  io("resources", prediction.resources);
  io("interval_cycles", prediction.interval_cycles);
  io("latency_cycles", prediction.latency_cycles);
  io("multiply_accumulates", prediction.multiply_accumulates);
}

static void fields(Fields& io, ParameterFile& parameters) {
  io("file", parameters.file);
  io("sha256", parameters.sha256);
  io("bytes", parameters.bytes);
}

/// Without the program, which is a file of its own (program_proto.cpp).
static void fields(Fields& io, Partition& partition) {
  io("name", partition.name);
  io("kind", partition.kind);
  io("endpoint", partition.endpoint);
  io("image", partition.image);
  io("region", partition.region);
  io("inputs", partition.inputs);
  io("outputs", partition.outputs);
  io("nodes", partition.nodes);
  io("program_digest", partition.program_digest);
  io("prediction", partition.prediction);
  io("parameters", partition.parameters);
}

static void fields(Fields& io, PortRef& end) {
  io("partition", end.partition);
  io("port", end.port);
}

static void fields(Fields& io, Slice& slice) {
  io("offset", slice.offset);
  io("count", slice.count);
  io("stride", slice.stride);
  io("unit", slice.unit);
}

static void fields(Fields& io, Channel& channel) {
  io("id", channel.id);
  io("name", channel.name);
  io("producer", channel.producer);
  io("consumer", channel.consumer);
  io("transport", channel.transport);
  io("type", channel.type);
  io("slice", channel.slice);
  io("frame_bytes", channel.frame_bytes);
  io("packet_bytes", channel.packet_bytes);
  io("credits", channel.credits);
}

static void fields(Fields& io, CommunicationStep& step) {
  io("action", step.action);
  io("channel", step.channel);
  io("bytes", step.bytes);
}

static void fields(Fields& io, PortPlan& plan) {
  io("endpoint", plan.endpoint);
  io("partition", plan.partition);
  io("port", plan.port);
  io("steps", plan.steps);
}

static void fields(Fields& io, Deployment& deployment) {
  io("schema_version", deployment.schema_version);
  io.unless(1U, "replicas", deployment.replicas);
  io("generator", deployment.generator);
  io("model", deployment.model);
  io("endpoints", deployment.endpoints);
  io("images", deployment.images);
  io("partitions", deployment.partitions);
  io("channels", deployment.channels);
  io("communication", deployment.communication);
  io("digest", deployment.digest);
}

namespace {

proto::Deployment to_proto(const Deployment& deployment) {
  proto::Deployment out;
  write(deployment, out);
  for (std::size_t i = 0; i < deployment.partitions.size(); ++i)
    if (deployment.partitions[i].kind == PartitionKind::kHost)
      plan::to_proto(deployment.partitions[i].program,
                     *out.mutable_partitions(static_cast<int>(i))->mutable_program());
  return out;
}

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b ? 0 : a * b;
}

}  // namespace

std::uint64_t datatype_bytes(const std::string& datatype) {
  static constexpr struct {
    const char* name;
    std::uint64_t bytes;
  } kSizes[] = {{"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8},
                {"INT8", 1}, {"INT16", 2}, {"INT32", 4},  {"INT64", 8},  {"FP16", 2},
                {"FP32", 4}, {"FP64", 8},  {"BF16", 2}};
  for (const auto& [name, bytes] : kSizes)
    if (datatype == name) return bytes;
  return 0;
}

std::uint64_t TensorSignature::elements() const {
  std::uint64_t count = 1;
  for (const auto axis : shape) count = axis < 1 ? 0 : product(count, static_cast<std::uint64_t>(axis));
  return count;
}

std::uint64_t TensorSignature::bytes() const {
  return product(elements(), datatype_bytes(datatype));
}

std::uint64_t Port::elements() const {
  std::uint64_t count = shape.empty() ? 0 : 1;
  for (const auto axis : shape) count = product(count, axis);
  return count;
}

std::uint64_t Port::storage_bytes() const {
  return product(elements(), type.storage_bytes());
}

template <class T>
static const T* find_named(const std::vector<T>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const T& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const Partition* Deployment::find_partition(const std::string& name) const {
  return find_named(partitions, name);
}

const Image* Deployment::find_image(const std::string& name) const {
  return find_named(images, name);
}

const Endpoint* Deployment::find_endpoint(const std::string& name) const {
  return find_named(endpoints, name);
}

std::string to_json(const Deployment& deployment) {
  return to_canonical_json(to_proto(deployment));
}

std::string compute_digest(const Deployment& deployment) {
  proto::Deployment message = to_proto(deployment);
  message.clear_digest();
  return sha256_hex(to_canonical_json(message));
}

Result<Deployment> parse_deployment(const std::string& json) {
  proto::SchemaProbe probe;
  MILLRACE_TRY(from_json(json, probe, "deployment.json", true));
  MILLRACE_TRY(check_schema(probe.schema_version(), "deployment.json"));
  proto::Deployment in;
  MILLRACE_TRY(from_json(json, in, "deployment.json"));
  MILLRACE_ASSIGN(Deployment out, read<Deployment>(in, "deployment.json", ErrorCode::kInvalidInput));
  for (std::size_t i = 0; i < out.partitions.size(); ++i) {
    const proto::Partition& partition = in.partitions(static_cast<int>(i));
    const std::string where = "deployment.json: partition '" + partition.name() + "'";
    const bool host = out.partitions[i].kind == PartitionKind::kHost;
    if (partition.has_program() != host)
      return Error(ErrorCode::kInvalidInput, where + ": a host partition, and only one, holds its program");
    if (!host) continue;
    auto program = from_proto(partition.program());
    if (!program.ok()) return program.error().within(where);
    out.partitions[i].program = std::move(program).value();
  }
  return out;
}

}  // namespace millrace::runtime::plan
