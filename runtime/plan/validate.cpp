// Checks that the parts of a plan are consistent. Each check names the first inconsistent part. Files and digests are
// checked when the deployment is loaded.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <variant>

#include "kernels/program/packing.hpp"
#include "kernels/program/parameters.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/text.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/known_answer.hpp"
#include "runtime/plan/parameters.hpp"

namespace millrace::runtime::plan {
namespace {

constexpr std::uint64_t kMaxElements = (std::uint64_t{1} << 31U) - 1;

Error bad_deployment(const std::string& where, const std::string& why) {
  return Error(ErrorCode::kCorrupt, "deployment: " + where + ": " + why);
}

bool is_identifier(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= 128 && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Status check_tensors(const std::vector<TensorSignature>& tensors, const std::string& what) {
  if (tensors.empty()) return bad_deployment("model." + what, "there is none");
  std::set<std::string> names;
  for (const auto& tensor : tensors) {
    const std::string where = "model." + what + " '" + tensor.name + "'";
    if (tensor.name.empty() || !names.insert(tensor.name).second)
      return bad_deployment(where, "its name is empty or is used twice");
    if (datatype_bytes(tensor.datatype) == 0)
      return bad_deployment(where, "unknown datatype '" + tensor.datatype + "'");
    if (tensor.shape.empty() || tensor.shape.size() > 9 || tensor.elements() == 0 ||
        tensor.elements() > kMaxElements)
      return bad_deployment(
          where, "its shape must have 1 to 9 axes of length 1 or more, and fewer than 2^31 elements");
  }
  return {};
}

Status check_model(const ModelInfo& model) {
  if (!is_name(model.name))
    return bad_deployment("model.name", "'" + model.name + "' must be 1 to 128 of A-Z a-z 0-9 _ - .");
  MILLRACE_TRY(check_tensors(model.inputs, "inputs"));
  MILLRACE_TRY(check_tensors(model.outputs, "outputs"));
  const auto& p = model.preprocessing;
  if (!p.layout.empty() && p.layout != "NCHW" && p.layout != "NHWC")
    return bad_deployment("model.preprocessing.layout", "'" + p.layout + "' is neither NCHW nor NHWC");
  for (const auto* values : {&p.scale, &p.mean})
    if (!std::all_of(values->begin(), values->end(), [](float v) { return std::isfinite(v); }))
      return bad_deployment("model.preprocessing", "scale and mean must be finite");
  return {};
}

Status check_places(const Deployment& d) {
  std::set<std::string> names;
  std::map<std::string, std::string> holder;  // partition -> its image
  for (const auto& image : d.images) {
    const std::string where = "image '" + image.name + "'";
    if (!is_name(image.name) || !names.insert(image.name).second)
      return bad_deployment(where, "its name is malformed or is used twice");
    if (image.partitions.empty()) return bad_deployment(where, "holds no partition");
    for (const auto& name : image.partitions) {
      const Partition* partition = d.find_partition(name);
      if (partition == nullptr || partition->image != image.name)
        return bad_deployment(where, "partition '" + name + "' does not name this image");
      if (!holder.emplace(name, image.name).second)
        return bad_deployment(where, "partition '" + name + "' is used twice");
    }
  }
  names.clear();
  for (const auto& endpoint : d.endpoints) {
    const std::string where = "endpoint '" + endpoint.name + "'";
    if (!is_name(endpoint.name) || !names.insert(endpoint.name).second)
      return bad_deployment(where, "its name is malformed or is used twice");
    if (endpoint.host) {
      if (!endpoint.device.empty() || !endpoint.image.empty())
        return bad_deployment(where, "a host partition must have neither device nor image");
      continue;
    }
    const Image* image = d.find_image(endpoint.image);
    if (image == nullptr) return bad_deployment(where, "its image '" + endpoint.image + "' does not exist");
    if (!is_name(endpoint.device) || image->device != endpoint.device)
      return bad_deployment(
          where, "it needs device '" + endpoint.device + "', its image is for '" + image->device + "'");
  }
  for (const auto& partition : d.partitions)
    if (partition.kind != PartitionKind::kHost && !holder.contains(partition.name))
      return bad_deployment("partition '" + partition.name + "'", "no image holds it");
  return {};
}

Status check_ports(const std::vector<Port>& ports, const std::string& where, std::set<std::string>& names) {
  for (const auto& port : ports) {
    if (!is_identifier(port.name) || !names.insert(port.name).second)
      return bad_deployment(where, "port '" + port.name + "': its name is malformed or is used twice");
    if (port.elements() == 0 || port.elements() > kMaxElements || port.shape.size() > 8)
      return bad_deployment(
          where, "port '" + port.name +
                     "': its shape must have 1 to 8 axes of length 1 or more, and fewer than 2^31 elements");
  }
  return {};
}

Status check_host_program(const Partition& partition, const std::string& where) {
  const auto& program = partition.program;
  for (const auto& block : program.blocks)
    if (std::holds_alternative<kernels::PluginOperator>(block.operation))
      return bad_deployment(where,
                            "block '" + block.name + "' belongs to a plugin, but only cards can run plugins");
  if (const auto wrong = kernels::validate(program); !wrong.empty())
    return bad_deployment(where, "its program: " + wrong);
  if (program_digest(program) != partition.program_digest)
    return bad_deployment(where, "program_digest does not match its program");
  if (kernels::has_parameters(program))
    return bad_deployment(
        where,
        "its program has parameters that are loaded at runtime, but only cards support such parameters");
  const auto matches = [&](const std::vector<Port>& ports, const std::vector<kernels::TensorIndex>& tensors) {
    return std::equal(ports.begin(), ports.end(), tensors.begin(), tensors.end(),
                      [&](const Port& port, kernels::TensorIndex index) {
                        const auto& tensor = program.tensors[index];
                        return port.type == tensor.type && port.shape == tensor.shape;
                      });
  };
  if (!matches(partition.inputs, program.inputs) || !matches(partition.outputs, program.outputs))
    return bad_deployment(where, "its ports do not match its program's inputs and outputs");
  return {};
}

Status check_partitions(const Deployment& d) {
  std::set<std::string> names;
  if (d.partitions.empty()) return bad_deployment("partitions", "there is none");
  for (const auto& partition : d.partitions) {
    const std::string where = "partition '" + partition.name + "'";
    if (!is_identifier(partition.name) || !names.insert(partition.name).second)
      return bad_deployment(where, "its name is malformed or is used twice");
    if (partition.kind == PartitionKind::kAie)
      return Error(ErrorCode::kUnsupported,
                   "deployment: " + where + ": partitions of kind AIE are not supported yet");
    const Endpoint* endpoint = d.find_endpoint(partition.endpoint);
    const bool host = partition.kind == PartitionKind::kHost;
    if (endpoint == nullptr || endpoint->host != host)
      return bad_deployment(where,
                            "endpoint '" + partition.endpoint + "' does not exist or is of another kind");
    if (endpoint->image != partition.image)
      return bad_deployment(where, "its image '" + partition.image + "' is not its endpoint's");
    if (!host && partition.region.empty()) return bad_deployment(where, "region is empty");
    if (partition.outputs.empty()) return bad_deployment(where, "it has no output");
    std::set<std::string> ports;
    MILLRACE_TRY(check_ports(partition.inputs, where, ports));
    MILLRACE_TRY(check_ports(partition.outputs, where, ports));
    if (host) MILLRACE_TRY(check_host_program(partition, where));
    if (!partition.parameters) continue;
    const ParameterFile& parameters = *partition.parameters;
    if (host) return bad_deployment(where, "parameters are for partitions on cards only");
    if (parameters.file != parameter_file_name(parameters.sha256))
      return bad_deployment(where, "parameters.file '" + parameters.file + "' is not " +
                                       parameter_file_name(parameters.sha256));
    if (parameters.bytes == 0 || parameters.bytes > kMaxParameterBytes)
      return bad_deployment(where, "parameters.bytes is " + std::to_string(parameters.bytes) + ", not 1 to " +
                                       std::to_string(kMaxParameterBytes));
  }
  return {};
}

struct End {
  std::size_t position = 0;            // partition's position; 0: model inputs; last + 1: outputs
  const Endpoint* endpoint = nullptr;  // null for the model's inputs and outputs
  const Port* port = nullptr;
  const TensorSignature* tensor = nullptr;
  bool on_host() const { return endpoint == nullptr || endpoint->host; }
};

class ChannelChecker {
 public:
  explicit ChannelChecker(const Deployment& d) : d_(d) {}

  Status check() {
    std::set<std::uint32_t> ids;
    std::set<std::string> names;
    for (const auto& channel : d_.channels) {
      const std::string where = "channel '" + channel.name + "'";
      if (channel.name.empty() || !names.insert(channel.name).second)
        return bad_deployment(where, "its name is empty or is used twice");
      if (!ids.insert(channel.id).second)
        return bad_deployment(where, "its id " + std::to_string(channel.id) + " is used twice");
      MILLRACE_TRY(check(channel, where));
    }
    return check_all_joined();
  }

 private:
  Result<End> end(const PortRef& ref, bool produces, const std::string& where) const {
    End found;
    const std::string side = produces ? "producer" : "consumer";
    if (ref.partition.empty()) {
      const auto& tensors = produces ? d_.model.inputs : d_.model.outputs;
      for (const auto& tensor : tensors)
        if (tensor.name == ref.port) found.tensor = &tensor;
      if (found.tensor == nullptr)
        return bad_deployment(where, side + ": the model has no such tensor '" + ref.port + "'");
      found.position = produces ? 0 : d_.partitions.size() + 1;
      return found;
    }
    for (std::size_t i = 0; i < d_.partitions.size(); ++i) {
      const auto& partition = d_.partitions[i];
      if (partition.name != ref.partition) continue;
      found.position = i + 1;
      found.endpoint = d_.find_endpoint(partition.endpoint);
      for (const auto& port : produces ? partition.outputs : partition.inputs)
        if (port.name == ref.port) found.port = &port;
    }
    if (found.port == nullptr)
      return bad_deployment(where, side + ": there is no port '" + ref.partition + "." + ref.port + "'");
    return found;
  }

  Status check(const Channel& channel, const std::string& where) {
    MILLRACE_ASSIGN(const End from, end(channel.producer, true, where));
    MILLRACE_ASSIGN(const End to, end(channel.consumer, false, where));
    if (from.position >= to.position) return bad_deployment(where, "partitions are not in topological order");
    for (const auto* port : {from.port, to.port})
      if (port != nullptr && port->type != channel.type)
        return bad_deployment(where, "its type is not that of port '" + port->name + "'");

    const std::uint64_t whole = from.port != nullptr ? from.port->elements()
                                : to.port != nullptr ? to.port->elements()
                                                     : 0;
    if (whole == 0)
      return bad_deployment(
          where, "connects the model's input directly to its output, without a partition between them");
    MILLRACE_ASSIGN(const std::uint64_t carried, carried_elements(channel.slice, whole, where));
    const std::uint64_t storage = carried * channel.type.storage_bytes();
    for (const auto* tensor : {from.tensor, to.tensor})
      if (tensor != nullptr && tensor->bytes() != storage)
        return bad_deployment(where, "carries " + std::to_string(storage) + " bytes, but the model's '" +
                                         tensor->name + "' has " + std::to_string(tensor->bytes()));
    received_[{channel.consumer.partition, channel.consumer.port}] += carried;
    sent_.insert({channel.producer.partition, channel.producer.port});
    return check_transport(channel, from, to, carried, where);
  }

  static Result<std::uint64_t> carried_elements(const Slice& slice, std::uint64_t whole,
                                                const std::string& where) {
    const bool sane = slice.count >= 1 && slice.unit >= 1 && slice.stride >= 1 && slice.count <= whole &&
                      slice.unit <= whole && slice.stride <= whole && slice.offset < whole &&
                      slice.count * slice.unit <= whole &&
                      (slice.offset + (slice.count - 1) * slice.stride + 1) * slice.unit <= whole;
    if (!sane) return bad_deployment(where, "its slice reaches outside the producer's tensor");
    return slice.count * slice.unit;
  }

  static Status check_transport(const Channel& channel, const End& from, const End& to, std::uint64_t carried,
                                const std::string& where) {
    const bool host = channel.transport == Transport::kHost;
    if (host != (from.on_host() || to.on_host()))
      return bad_deployment(where, host ? "joins two cards, so its transport cannot be HOST"
                                        : "has an end on the host, so its transport must be HOST");
    if (!host && from.endpoint == to.endpoint)
      return bad_deployment(where, "both ends are on endpoint '" + from.endpoint->name + "'");
    const bool in_memory = passes_hosts(channel.transport);
    const std::uint64_t bytes =
        in_memory ? carried * channel.type.storage_bytes() : kernels::packed_bytes(channel.type, carried);
    if (channel.frame_bytes != bytes)
      return bad_deployment(where, "frame_bytes is " + std::to_string(channel.frame_bytes) +
                                       ", its elements take " + std::to_string(bytes));
    if (in_memory != (channel.packet_bytes == 0) || in_memory != (channel.credits == 0))
      return bad_deployment(where, in_memory
                                       ? "packet_bytes and credits must be 0 for the transports HOST and MPI"
                                       : "packet_bytes and credits must be above 0");
    // The limits below are those of the format of link datagrams (runtime/link/README.md).
    constexpr std::uint32_t kMostUdpPayload = 65'443, kMostUdpCredits = 65'536;
    if (channel.transport == Transport::kUdp &&
        (channel.packet_bytes > kMostUdpPayload || channel.credits > kMostUdpCredits))
      return bad_deployment(where, "packet_bytes and credits must be at most " +
                                       std::to_string(kMostUdpPayload) + " and " +
                                       std::to_string(kMostUdpCredits) + " for UDP");
    return {};
  }

  Status check_all_joined() const {
    for (const auto& partition : d_.partitions) {
      const std::string where = "partition '" + partition.name + "'";
      for (const auto& port : partition.inputs) {
        const auto found = received_.find({partition.name, port.name});
        if (found == received_.end() || found->second != port.elements())
          return bad_deployment(
              where, "port '" + port.name + "': the channels do not deliver exactly the tensor of this port");
      }
      for (const auto& port : partition.outputs)
        if (!sent_.contains({partition.name, port.name}))
          return bad_deployment(where, "port '" + port.name + "': no channel receives its tensor");
    }
    for (const auto& tensor : d_.model.outputs) {
      const auto count = std::count_if(d_.channels.begin(), d_.channels.end(), [&](const auto& c) {
        return c.consumer.partition.empty() && c.consumer.port == tensor.name;
      });
      if (count != 1)
        return bad_deployment("model output '" + tensor.name + "'",
                              std::to_string(count) + " channels deliver this output, but exactly one must");
    }
    return {};
  }

  const Deployment& d_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> received_;
  std::set<std::pair<std::string, std::string>> sent_;
};

/// Checks that the sends and receives of the ports match the ends of all channels, except the model's inputs and
/// outputs.
Status check_communication(const Deployment& d) {
  // The key of the map consists of partition, port, channel, and whether the port sends (or receives).
  std::map<std::tuple<std::string, std::string, std::uint32_t, bool>, const Channel*> missing;
  for (const auto& channel : d.channels)
    for (const bool send : {true, false}) {
      const PortRef& end = send ? channel.producer : channel.consumer;
      if (!end.partition.empty()) missing[{end.partition, end.port, channel.id, send}] = &channel;
    }
  for (const auto& plan : d.communication) {
    const std::string where = "communication of " + plan.partition + "." + plan.port;
    const Partition* partition = d.find_partition(plan.partition);
    if (partition == nullptr || partition->endpoint != plan.endpoint)
      return bad_deployment(where, "no such partition on endpoint '" + plan.endpoint + "'");
    for (const auto& step : plan.steps) {
      const bool send = step.action == Action::kSend;
      const std::string id = "channel " + std::to_string(step.channel);
      const std::string done = send ? "sent" : "received";
      const auto found = missing.find({plan.partition, plan.port, step.channel, send});
      if (found == missing.end())
        return bad_deployment(where, id + " is not " + done + " here, or is " + done + " twice");
      if (step.bytes != found->second->frame_bytes)
        return bad_deployment(where,
                              id + ": the step's field 'bytes' differs from the channel's frame_bytes");
      missing.erase(found);
    }
  }
  if (missing.empty()) return {};
  const auto& [end, channel] = *missing.begin();
  return bad_deployment("channel '" + channel->name + "'",
                        std::get<bool>(end) ? "no port sends it" : "no port receives it");
}

Status check_known_answer(const Deployment& deployment) {
  if (!deployment.known_answer) return {};
  const KnownAnswer& known = *deployment.known_answer;
  if (known.inputs.size() != deployment.model.inputs.size())
    return bad_deployment("known_answer.inputs", "the model has another number of inputs");
  for (std::size_t i = 0; i < known.inputs.size(); ++i) {
    const std::string where = "known_answer.inputs[" + std::to_string(i) + "]";
    if (!has_known_inputs(deployment.model.inputs[i].datatype))
      return bad_deployment(where, "the model's input is " + deployment.model.inputs[i].datatype);
    if (known.inputs[i].lowest > known.inputs[i].highest || !std::isfinite(known.inputs[i].step))
      return bad_deployment(where, "lowest must not be above highest, and step must be finite");
  }
  if (known.results.empty()) return bad_deployment("known_answer.results", "there is none");
  for (const KnownAnswer::Result& result : known.results) {
    if (!is_sha256_hex(result.sha256))
      return bad_deployment("known_answer.results", "'" + result.sha256 + "' is no SHA-256 digest");
    const bool read =
        std::any_of(deployment.channels.begin(), deployment.channels.end(), [&](const Channel& channel) {
          return channel.producer == result.port && passes_hosts(channel.transport);
        });
    const Partition* const partition = deployment.find_partition(result.port.partition);
    if (!read || partition == nullptr || partition->kind == PartitionKind::kHost)
      return bad_deployment("known_answer.results", "no card sends '" + result.port.partition + "." +
                                                        result.port.port + "' to the host");
  }
  return {};
}

}  // namespace

Status validate(const Deployment& deployment) {
  if (deployment.schema_version != kSchemaVersion)
    return bad_deployment("schema_version", "is not " + std::to_string(kSchemaVersion));
  if (deployment.replicas == 0 || deployment.replicas > kMostReplicas)
    return bad_deployment(
        "replicas", std::to_string(deployment.replicas) + " is not in 1 to " + std::to_string(kMostReplicas));
  MILLRACE_TRY(check_model(deployment.model));
  MILLRACE_TRY(check_partitions(deployment));
  MILLRACE_TRY(check_places(deployment));
  MILLRACE_TRY(ChannelChecker(deployment).check());
  MILLRACE_TRY(check_communication(deployment));
  MILLRACE_TRY(check_known_answer(deployment));
  if (deployment.digest != compute_digest(deployment))
    return bad_deployment("digest", "does not match the plan; it was altered");
  return {};
}

}  // namespace millrace::runtime::plan
