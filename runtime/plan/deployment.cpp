#include "runtime/plan/deployment.hpp"

#include <algorithm>
#include <limits>

#include "runtime/base/digest.hpp"
#include "runtime/plan/deployment.pb.h"
#include "runtime/plan/proto.hpp"

namespace millrace::runtime::plan {
namespace {

template <class Field, class Values>
void copy(const Values& values, Field& field) {
  for (const auto& value : values) *field.Add() = value;
}

Error unknown(const std::string& where, const char* what) {
  return Error(ErrorCode::kInvalidInput, "deployment.json: " + where + ": unknown or missing " + what);
}

// Model.
// ------------------------------------------------------------------------------------------------------------

void to_proto(const TensorSignature& in, proto::TensorSignature& out) {
  out.set_name(in.name);
  out.set_datatype(in.datatype);
  copy(in.shape, *out.mutable_shape());
}

TensorSignature read(const proto::TensorSignature& in) {
  return {in.name(), in.datatype(), {in.shape().begin(), in.shape().end()}};
}

void to_proto(const ModelInfo& in, proto::ModelInfo& out) {
  out.set_name(in.name);
  out.set_source_digest(in.source_digest);
  out.set_description(in.description);
  for (const auto& tensor : in.inputs) to_proto(tensor, *out.add_inputs());
  for (const auto& tensor : in.outputs) to_proto(tensor, *out.add_outputs());
  copy(in.labels, *out.mutable_labels());
  auto& preprocessing = *out.mutable_preprocessing();
  preprocessing.set_layout(in.preprocessing.layout);
  copy(in.preprocessing.scale, *preprocessing.mutable_scale());
  copy(in.preprocessing.mean, *preprocessing.mutable_mean());
}

ModelInfo read(const proto::ModelInfo& in) {
  ModelInfo out;
  out.name = in.name();
  out.source_digest = in.source_digest();
  out.description = in.description();
  for (const auto& tensor : in.inputs()) out.inputs.push_back(read(tensor));
  for (const auto& tensor : in.outputs()) out.outputs.push_back(read(tensor));
  out.labels.assign(in.labels().begin(), in.labels().end());
  out.preprocessing.layout = in.preprocessing().layout();
  out.preprocessing.scale.assign(in.preprocessing().scale().begin(), in.preprocessing().scale().end());
  out.preprocessing.mean.assign(in.preprocessing().mean().begin(), in.preprocessing().mean().end());
  return out;
}

// Partitions.
// -------------------------------------------------------------------------------------------------------

void to_proto(const Port& in, proto::Port& out) {
  out.set_name(in.name);
  out.set_tensor(in.tensor);
  plan::to_proto(in.type, *out.mutable_type());
  copy(in.shape, *out.mutable_shape());
}

Result<Port> read(const proto::Port& in, const std::string& where) {
  Port out;
  out.name = in.name();
  out.tensor = in.tensor();
  MILLRACE_ASSIGN(out.type,
                  from_proto(in.type(), "deployment.json: " + where + ", port '" + in.name() + "': type"));
  out.shape.assign(in.shape().begin(), in.shape().end());
  return out;
}

void to_proto(const Prediction& in, proto::Prediction& out) {
  auto& resources = *out.mutable_resources();
  resources.set_lut(in.resources.lut);
  resources.set_lutram(in.resources.lutram);
  resources.set_ff(in.resources.ff);
  resources.set_dsp(in.resources.dsp);
  resources.set_bram36(in.resources.bram36);
  resources.set_uram(in.resources.uram);
  out.set_interval_cycles(in.interval_cycles);
  out.set_latency_cycles(in.latency_cycles);
  out.set_multiply_accumulates(in.multiply_accumulates);
}

Prediction read(const proto::Prediction& in) {
  const auto& r = in.resources();
  Prediction out;
  out.resources = {r.lut(), r.lutram(), r.ff(), r.dsp(), r.bram36(), r.uram()};
  out.interval_cycles = in.interval_cycles();
  out.latency_cycles = in.latency_cycles();
  out.multiply_accumulates = in.multiply_accumulates();
  return out;
}

void to_proto(const Partition& in, proto::Partition& out) {
  out.set_name(in.name);
  switch (in.kind) {
    case PartitionKind::kHost:
      out.set_kind(proto::Partition::HOST);
      break;
    case PartitionKind::kDataflow:
      out.set_kind(proto::Partition::DATAFLOW);
      break;
    case PartitionKind::kAie:
      out.set_kind(proto::Partition::AIE);
      break;
  }
  out.set_endpoint(in.endpoint);
  out.set_image(in.image);
  out.set_region(in.region);
  for (const auto& port : in.inputs) to_proto(port, *out.add_inputs());
  for (const auto& port : in.outputs) to_proto(port, *out.add_outputs());
  copy(in.nodes, *out.mutable_nodes());
  out.set_program_digest(in.program_digest);
  if (in.kind == PartitionKind::kHost) plan::to_proto(in.program, *out.mutable_program());
  to_proto(in.prediction, *out.mutable_prediction());
  if (in.parameters) {
    auto& parameters = *out.mutable_parameters();
    parameters.set_file(in.parameters->file);
    parameters.set_sha256(in.parameters->sha256);
    parameters.set_bytes(in.parameters->bytes);
  }
}

Result<Partition> read(const proto::Partition& in) {
  const std::string where = "partition '" + in.name() + "'";
  Partition out;
  out.name = in.name();
  switch (in.kind()) {
    case proto::Partition::HOST:
      out.kind = PartitionKind::kHost;
      break;
    case proto::Partition::DATAFLOW:
      out.kind = PartitionKind::kDataflow;
      break;
    case proto::Partition::AIE:
      out.kind = PartitionKind::kAie;
      break;
    default:
      return unknown(where, "kind");
  }
  out.endpoint = in.endpoint();
  out.image = in.image();
  out.region = in.region();
  for (const auto& port : in.inputs()) {
    MILLRACE_ASSIGN(out.inputs.emplace_back(), read(port, where));
  }
  for (const auto& port : in.outputs()) {
    MILLRACE_ASSIGN(out.outputs.emplace_back(), read(port, where));
  }
  out.nodes.assign(in.nodes().begin(), in.nodes().end());
  out.program_digest = in.program_digest();
  if (in.has_program() != (out.kind == PartitionKind::kHost))
    return Error(ErrorCode::kInvalidInput,
                 "deployment.json: " + where + ": a host partition, and only one, holds its program");
  if (in.has_program()) {
    auto program = from_proto(in.program());
    if (!program.ok()) return program.error().within("deployment.json: " + where);
    out.program = std::move(program).value();
  }
  out.prediction = read(in.prediction());
  if (in.has_parameters())
    out.parameters = ParameterFile{in.parameters().file(), in.parameters().sha256(), in.parameters().bytes()};
  return out;
}

// Channels.
// ---------------------------------------------------------------------------------------------------------

void to_proto(const Channel& in, proto::Channel& out) {
  out.set_id(in.id);
  out.set_name(in.name);
  out.mutable_producer()->set_partition(in.producer.partition);
  out.mutable_producer()->set_port(in.producer.port);
  out.mutable_consumer()->set_partition(in.consumer.partition);
  out.mutable_consumer()->set_port(in.consumer.port);
  switch (in.transport) {
    case Transport::kHost:
      out.set_transport(proto::Channel::HOST);
      break;
    case Transport::kAurora:
      out.set_transport(proto::Channel::AURORA);
      break;
    case Transport::kUdp:
      out.set_transport(proto::Channel::UDP);
      break;
    case Transport::kMpi:
      out.set_transport(proto::Channel::MPI);
      break;
  }
  plan::to_proto(in.type, *out.mutable_type());
  auto& slice = *out.mutable_slice();
  slice.set_offset(in.slice.offset);
  slice.set_count(in.slice.count);
  slice.set_stride(in.slice.stride);
  slice.set_unit(in.slice.unit);
  out.set_frame_bytes(in.frame_bytes);
  out.set_packet_bytes(in.packet_bytes);
  out.set_credits(in.credits);
}

Result<Channel> read(const proto::Channel& in) {
  const std::string where = "channel '" + in.name() + "'";
  Channel out;
  out.id = in.id();
  out.name = in.name();
  out.producer = {in.producer().partition(), in.producer().port()};
  out.consumer = {in.consumer().partition(), in.consumer().port()};
  switch (in.transport()) {
    case proto::Channel::HOST:
      out.transport = Transport::kHost;
      break;
    case proto::Channel::AURORA:
      out.transport = Transport::kAurora;
      break;
    case proto::Channel::UDP:
      out.transport = Transport::kUdp;
      break;
    case proto::Channel::MPI:
      out.transport = Transport::kMpi;
      break;
    default:
      return unknown(where, "transport");
  }
  MILLRACE_ASSIGN(out.type, from_proto(in.type(), "deployment.json: " + where + ": type"));
  out.slice = {in.slice().offset(), in.slice().count(), in.slice().stride(), in.slice().unit()};
  out.frame_bytes = in.frame_bytes();
  out.packet_bytes = in.packet_bytes();
  out.credits = in.credits();
  return out;
}

void to_proto(const PortPlan& in, proto::PortPlan& out) {
  out.set_endpoint(in.endpoint);
  out.set_partition(in.partition);
  out.set_port(in.port);
  for (const auto& step : in.steps) {
    auto& s = *out.add_steps();
    s.set_action(step.action == Action::kSend ? proto::CommunicationStep::SEND
                                              : proto::CommunicationStep::RECEIVE);
    s.set_channel(step.channel);
    s.set_bytes(step.bytes);
  }
}

Result<PortPlan> read(const proto::PortPlan& in) {
  PortPlan out{in.endpoint(), in.partition(), in.port(), {}};
  for (const auto& step : in.steps()) {
    if (step.action() != proto::CommunicationStep::SEND && step.action() != proto::CommunicationStep::RECEIVE)
      return unknown("communication of " + in.partition() + "." + in.port(), "action");
    out.steps.push_back({step.action() == proto::CommunicationStep::SEND ? Action::kSend : Action::kReceive,
                         step.channel(), step.bytes()});
  }
  return out;
}

void to_proto(const Deployment& in, proto::Deployment& out) {
  out.set_schema_version(in.schema_version);
  if (in.replicas != 1) out.set_replicas(in.replicas);
  out.set_generator(in.generator);
  to_proto(in.model, *out.mutable_model());
  for (const auto& endpoint : in.endpoints) {
    auto& e = *out.add_endpoints();
    e.set_name(endpoint.name);
    e.set_host(endpoint.host);
    e.set_device(endpoint.device);
    e.set_image(endpoint.image);
  }
  for (const auto& image : in.images) {
    auto& i = *out.add_images();
    i.set_name(image.name);
    i.set_file(image.file);
    i.set_file_sha256(image.file_sha256);
    i.set_content_digest(image.content_digest);
    i.set_uuid(image.uuid);
    i.set_device(image.device);
    copy(image.partitions, *i.mutable_partitions());
  }
  for (const auto& partition : in.partitions) to_proto(partition, *out.add_partitions());
  for (const auto& channel : in.channels) to_proto(channel, *out.add_channels());
  for (const auto& plan : in.communication) to_proto(plan, *out.add_communication());
  out.set_digest(in.digest);
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

const Partition* Deployment::find_partition(const std::string& name) const {
  const auto found =
      std::find_if(partitions.begin(), partitions.end(), [&](const auto& p) { return p.name == name; });
  return found == partitions.end() ? nullptr : &*found;
}

const Image* Deployment::find_image(const std::string& name) const {
  const auto found =
      std::find_if(images.begin(), images.end(), [&](const auto& i) { return i.name == name; });
  return found == images.end() ? nullptr : &*found;
}

const Endpoint* Deployment::find_endpoint(const std::string& name) const {
  const auto found =
      std::find_if(endpoints.begin(), endpoints.end(), [&](const auto& e) { return e.name == name; });
  return found == endpoints.end() ? nullptr : &*found;
}

std::string to_json(const Deployment& deployment) {
  proto::Deployment message;
  to_proto(deployment, message);
  return to_canonical_json(message);
}

std::string compute_digest(const Deployment& deployment) {
  proto::Deployment message;
  to_proto(deployment, message);
  message.clear_digest();
  return sha256_hex(to_canonical_json(message));
}

Result<Deployment> parse_deployment(const std::string& json) {
  proto::SchemaProbe probe;
  MILLRACE_TRY(from_json(json, probe, "deployment.json", true));
  MILLRACE_TRY(check_schema(probe.schema_version(), "deployment.json"));
  proto::Deployment in;
  MILLRACE_TRY(from_json(json, in, "deployment.json"));
  Deployment out;
  out.schema_version = in.schema_version();
  if (in.has_replicas()) out.replicas = in.replicas();
  out.generator = in.generator();
  out.model = read(in.model());
  for (const auto& e : in.endpoints()) out.endpoints.push_back({e.name(), e.host(), e.device(), e.image()});
  for (const auto& i : in.images())
    out.images.push_back({i.name(),
                          i.file(),
                          i.file_sha256(),
                          i.content_digest(),
                          i.uuid(),
                          i.device(),
                          {i.partitions().begin(), i.partitions().end()}});
  for (const auto& partition : in.partitions()) {
    MILLRACE_ASSIGN(out.partitions.emplace_back(), read(partition));
  }
  for (const auto& channel : in.channels()) {
    MILLRACE_ASSIGN(out.channels.emplace_back(), read(channel));
  }
  for (const auto& plan : in.communication()) {
    MILLRACE_ASSIGN(out.communication.emplace_back(), read(plan));
  }
  out.digest = in.digest();
  return out;
}

}  // namespace millrace::runtime::plan
