#include "tests/unit/pipeline/plans.hpp"

#include <algorithm>
#include <stdexcept>

#include "runtime/plan/image_abi.hpp"

namespace millrace::tests {

using namespace runtime::plan;

namespace {

constexpr kernels::ElementType kInt16{kernels::ElementType::Kind::kSigned, 16};
constexpr std::uint64_t kBytes = PlanBuilder::kElements * 2;
constexpr std::int32_t kLowest = -32768, kHighest = 32767;

kernels::Program adding_program(const std::string& name, std::size_t inputs, int constant) {
  kernels::Program program;
  program.name = name;
  kernels::Block block;
  block.name = "add";
  const auto tensor = [&](const std::string& tensor_name) {
    kernels::Tensor made;
    made.name = tensor_name;
    made.type = kInt16;
    made.shape = {1, 1, PlanBuilder::kElements};
    program.tensors.push_back(made);
    return static_cast<kernels::TensorIndex>(program.tensors.size() - 1);
  };
  for (std::size_t i = 0; i < inputs; ++i) block.inputs.push_back(tensor("in" + std::to_string(i)));
  program.inputs = block.inputs;
  block.outputs = {tensor("out0")};
  program.outputs = block.outputs;
  if (inputs == 1) {
    kernels::Rescale rescale;
    rescale.requantise.multiplier = {1};
    rescale.requantise.offset = {constant};
    rescale.requantise.shift = {0};
    rescale.requantise.lowest = kLowest;
    rescale.requantise.highest = kHighest;
    block.operation = rescale;
  } else {
    kernels::Add add;
    add.offset = constant;
    add.lowest = kLowest;
    add.highest = kHighest;
    block.operation = add;
  }
  program.blocks.push_back(block);
  if (const std::string wrong = kernels::validate(program); !wrong.empty()) throw std::logic_error(wrong);
  return program;
}

TensorSignature signature(const std::string& name) {
  return {name, "INT16", {1, PlanBuilder::kElements}};
}

}  // namespace

PlanBuilder& PlanBuilder::input(const std::string& name) {
  plan_.deployment.model.name = "test";
  plan_.deployment.model.inputs.push_back(signature(name));
  return *this;
}

PlanBuilder& PlanBuilder::host(const std::string& name, const std::vector<std::string>& from, int constant) {
  partition(name, from, constant, true, "host");
  return *this;
}

PlanBuilder& PlanBuilder::card(const std::string& name, const std::vector<std::string>& from, int constant,
                               const std::string& endpoint) {
  partition(name, from, constant, false, endpoint.empty() ? "on_" + name : endpoint);
  return *this;
}

PlanBuilder& PlanBuilder::output(const std::string& name, const std::string& from) {
  plan_.deployment.model.outputs.push_back(signature(name));
  connect(from, {"", name});
  return *this;
}

bool PlanBuilder::on_card(const std::string& name) const {
  const Partition* const found = plan_.deployment.find_partition(name);
  return found != nullptr && found->kind != PartitionKind::kHost;
}

const std::string& PlanBuilder::endpoint_of(const std::string& name) const {
  return plan_.deployment.find_partition(name)->endpoint;
}

void PlanBuilder::partition(const std::string& name, const std::vector<std::string>& from, int constant,
                            bool on_host, const std::string& endpoint) {
  Deployment& d = plan_.deployment;
  if (d.find_endpoint(endpoint) == nullptr) {
    d.endpoints.push_back({endpoint, on_host, on_host ? "" : "test", on_host ? "" : "image_" + endpoint});
    if (!on_host) {
      Image image;
      image.name = "image_" + endpoint;
      image.device = "test";
      d.images.push_back(image);
    }
  }
  Partition made;
  made.name = name;
  made.kind = on_host ? PartitionKind::kHost : PartitionKind::kDataflow;
  made.endpoint = endpoint;
  made.image = on_host ? "" : "image_" + endpoint;
  made.region = on_host ? "" : "all";
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string port = "in" + std::to_string(i);
    made.inputs.push_back({port, port, kInt16, {1, 1, kElements}});
  }
  made.outputs.push_back({"out0", "out0", kInt16, {1, 1, kElements}});
  plan_.programs[name] = adding_program(name, from.size(), constant);
  if (on_host) made.program = plan_.programs[name];
  if (!on_host) {
    auto& images = d.images;
    const auto image =
        std::find_if(images.begin(), images.end(), [&](const Image& i) { return i.name == made.image; });
    image->partitions.push_back(name);
  }
  d.partitions.push_back(made);
  for (std::size_t i = 0; i < from.size(); ++i) connect(from[i], {name, "in" + std::to_string(i)});
}

void PlanBuilder::connect(const std::string& from, const PortRef& to) {
  Deployment& d = plan_.deployment;
  Channel channel;
  channel.id = static_cast<std::uint32_t>(d.channels.size());
  const bool model_input = d.find_partition(from) == nullptr;
  channel.producer = model_input ? PortRef{"", from} : PortRef{from, "out0"};
  channel.consumer = to;
  channel.name = from + "->" + (to.partition.empty() ? to.port : to.partition);
  channel.type = kInt16;
  channel.slice.count = kElements;
  channel.frame_bytes = kBytes;
  if (on_card(from) && on_card(to.partition) && endpoint_of(from) != endpoint_of(to.partition)) {
    channel.transport = Transport::kAurora;
    channel.packet_bytes = 8;
    channel.credits = 4;
  }
  d.channels.push_back(channel);
}

Plan PlanBuilder::build() {
  const Deployment& d = plan_.deployment;
  std::map<std::string, std::uint32_t> rows;  // by FPGA image: the number of rows used so far
  for (const Image& image : d.images) {
    ImageRecord& record = plan_.records[image.name];
    record.abi_version = abi::kAbiVersion;
    record.name = image.name;
    record.device = image.device;
    for (const std::string& name : image.partitions) {
      const Partition& partition = *d.find_partition(name);
      ImagePartition held;
      held.name = name;
      const auto add = [&](const std::string& port, PortKind kind) {
        ImagePort made;
        made.name = port;
        made.kind = kind;
        if (kind == PortKind::kIngress) made.compute_unit = "millrace_ingress:{" + name + "_" + port + "}";
        if (kind == PortKind::kEgress) made.compute_unit = "millrace_egress:{" + name + "_" + port + "}";
        if (made.compute_unit.empty()) made.link_index = rows[image.name]++;
        made.type = kInt16;
        made.elements = kElements;
        held.ports.push_back(made);
      };
      for (const Port& port : partition.inputs) {
        for (const Channel& channel : d.channels) {
          if (channel.consumer != PortRef{name, port.name}) continue;
          add(port.name, channel.transport == Transport::kHost ? PortKind::kIngress : PortKind::kLinkReceive);
        }
      }
      bool egress = false;
      for (const Channel& channel : d.channels) {
        if (channel.producer != PortRef{name, "out0"}) continue;
        if (channel.transport != Transport::kHost) {
          add("out0", PortKind::kLinkSend);
        } else if (!egress) {
          add("out0", PortKind::kEgress);
          egress = true;
        }
      }
      record.partitions.push_back(held);
    }
  }
  return std::move(plan_);
}

Cluster chain_cluster(std::uint32_t cards, const std::string& device) {
  Cluster cluster;
  cluster.name = "test-cluster";
  cluster.emulated = true;
  for (std::uint32_t i = 0; i < cards; ++i) {
    cluster.cards.push_back({"fpga" + std::to_string(i), device, ""});
    if (i > 0) add_cable(cluster, cluster.cards[i - 1].name, cluster.cards[i].name);
  }
  return cluster;
}

void add_cable(Cluster& cluster, const std::string& a, const std::string& b) {
  const auto free_connector = [&](const std::string& card) {
    std::uint32_t used = 0;
    for (const Cable& cable : cluster.cables)
      used += (cable.a.card == card ? 1U : 0U) + (cable.b.card == card ? 1U : 0U);
    return used;
  };
  cluster.cables.push_back({a + "-" + b, {a, free_connector(a)}, {b, free_connector(b)}, 100, 0});
}

}  // namespace millrace::tests
