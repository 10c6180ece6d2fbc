#include "runtime/plan/deployment.hpp"

#include <algorithm>
#include <limits>

#include "runtime/base/digest.hpp"
#include "runtime/plan/deployment.pb.h"
#include "runtime/plan/proto.hpp"

namespace millrace::runtime::plan {

static void fields(Fields& io, TensorSignature& tensor) {
  io(tensor.name, tensor.datatype, tensor.shape);
}

static void fields(Fields& io, Preprocessing& preprocessing) {
  io(preprocessing.layout, preprocessing.scale, preprocessing.mean);
}

static void fields(Fields& io, ModelInfo& model) {
  io(model.name, model.source_digest, model.description, model.inputs, model.outputs, model.labels,
     model.preprocessing);
}

static void fields(Fields& io, Endpoint& endpoint) {
  io(endpoint.name, endpoint.host, endpoint.device, endpoint.image);
}

static void fields(Fields& io, Image& image) {
  io(image.name, image.file, image.file_sha256, image.content_digest, image.uuid, image.device,
     image.partitions);
}

static void fields(Fields& io, Port& port) {
  io(port.name, port.tensor, port.type, port.shape);
}

static void fields(Fields& io, Resources& resources) {
  io(resources.lut, resources.lutram, resources.ff, resources.dsp, resources.bram36, resources.uram);
}

static void fields(Fields& io, Prediction& prediction) {
  io(prediction.resources, prediction.interval_cycles, prediction.latency_cycles,
     prediction.multiply_accumulates);
}

static void fields(Fields& io, ParameterFile& parameters) {
  io(parameters.file, parameters.sha256, parameters.bytes);
}

/// Lists a partition's fields except its program, which is a separate file (program_proto.cpp).
static void fields(Fields& io, Partition& partition) {
  io(partition.name, partition.kind, partition.endpoint, partition.image, partition.region, partition.inputs,
     partition.outputs, partition.nodes, partition.program_digest);
  io.skip("program");
  io(partition.prediction, partition.parameters);
}

static void fields(Fields& io, PortRef& end) {
  io(end.partition, end.port);
}

static void fields(Fields& io, Slice& slice) {
  io(slice.offset, slice.count, slice.stride, slice.unit);
}

static void fields(Fields& io, Channel& channel) {
  io(channel.id, channel.name, channel.producer, channel.consumer, channel.transport, channel.type,
     channel.slice, channel.frame_bytes, channel.packet_bytes, channel.credits);
}

static void fields(Fields& io, CommunicationStep& step) {
  io(step.action, step.channel, step.bytes);
}

static void fields(Fields& io, PortPlan& plan) {
  io(plan.endpoint, plan.partition, plan.port, plan.steps);
}

static void fields(Fields& io, KnownAnswer::Input& input) {
  io(input.lowest, input.highest, input.step);
}

static void fields(Fields& io, KnownAnswer::Result& result) {
  io(result.port, result.sha256);
}

static void fields(Fields& io, KnownAnswer& known) {
  io(known.seed, known.inputs, known.results);
}

static void fields(Fields& io, Deployment& deployment) {
  io(deployment.schema_version, deployment.generator, deployment.model, deployment.endpoints,
     deployment.images, deployment.partitions, deployment.channels, deployment.communication,
     deployment.digest);
  io.unless(1U, deployment.replicas);
  io(deployment.known_answer);
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
      return Error(ErrorCode::kInvalidInput,
                   where + ": a host partition must contain its program, and a card's partition must not");
    if (!host) continue;
    auto program = from_proto(partition.program());
    if (!program.ok()) return program.error().within(where);
    out.partitions[i].program = std::move(program).value();
  }
  return out;
}

}  // namespace millrace::runtime::plan
