#include "runtime/pipeline/schedule.hpp"

#include <algorithm>
#include <set>

#include "runtime/pipeline/binding.hpp"

namespace millrace::runtime::pipeline {

namespace {

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

Error contradiction(const std::string& message) {
  return Error(ErrorCode::kInvalidInput, message + "; compile the deployment again");
}

class Deriver {
 public:
  Deriver(const plan::Deployment& deployment, const std::map<std::string, plan::ImageRecord>& records)
      : deployment_(deployment), records_(records) {}

  Result<Schedule> run() {
    for (const plan::TensorSignature& input : deployment_.model.inputs) {
      add_value({"", input.name}, input.bytes(), false);
    }
    for (std::uint32_t index = 0; index < deployment_.partitions.size(); ++index) {
      const plan::Partition& partition = deployment_.partitions[index];
      if (partition.kind == plan::PartitionKind::kHost) {
        MILLRACE_TRY(add_stage(index));
      } else {
        MILLRACE_TRY(add_card_ports(partition));
      }
    }
    MILLRACE_TRY(add_outputs());
    order_tasks();
    if (schedule_.tasks.back().waits == 0) {
      return Error(ErrorCode::kUnsupported,
                   "model " + quoted(deployment_.model.name) +
                       " runs on the host alone, but a pipeline needs at least one partition on a card");
    }
    return std::move(schedule_);
  }

 private:
  using Key = std::pair<std::string, std::string>;  // (partition, port)

  std::uint32_t add_value(const Key& key, std::uint64_t bytes, bool late) {
    const auto index = static_cast<std::uint32_t>(schedule_.value_bytes.size());
    values_[key] = index;
    schedule_.value_bytes.push_back(bytes);
    late_.push_back(late);
    return index;
  }

  // Returns the value (a tensor in host memory) of the only channel that ends at this port of the partition.
  Result<std::uint32_t> incoming(const std::string& partition, const std::string& port,
                                 std::uint64_t bytes) const {
    const std::string where =
        partition.empty() ? "output " + quoted(port) : "port " + quoted(partition + "." + port);
    const plan::Channel* found = nullptr;
    for (const plan::Channel& channel : deployment_.channels) {
      if (channel.consumer.partition != partition || channel.consumer.port != port) continue;
      if (found != nullptr) {
        return Error(ErrorCode::kUnsupported, where + " is fed by channels " + quoted(found->name) + " and " +
                                                  quoted(channel.name) +
                                                  "; joining slices on the host is not supported yet");
      }
      found = &channel;
    }
    const auto value =
        found == nullptr ? values_.end() : values_.find({found->producer.partition, found->producer.port});
    if (value == values_.end() || is_link(*found))
      return contradiction(where + " has no channel that delivers a value from the host");
    if (found->slice.stride != 1 || found->slice.offset != 0 ||
        found->frame_bytes != schedule_.value_bytes[value->second]) {
      return Error(ErrorCode::kUnsupported, "channel " + quoted(found->name) +
                                                " carries a slice; the host supports only whole tensors");
    }
    if (found->frame_bytes != bytes) {
      return contradiction(where + " takes " + std::to_string(bytes) + " bytes, channel " +
                           quoted(found->name) + " brings " + std::to_string(found->frame_bytes));
    }
    return value->second;
  }

  Status add_stage(std::uint32_t index) {
    const plan::Partition& partition = deployment_.partitions[index];
    Schedule::HostStage stage;
    stage.partition = index;
    bool late = false;
    for (std::size_t i = 0; i < partition.inputs.size(); ++i) {
      const plan::Port& port = partition.inputs[i];
      const std::uint64_t bytes = partition.program.tensors[partition.program.inputs[i]].storage_bytes();
      MILLRACE_ASSIGN(const std::uint32_t value, incoming(partition.name, port.name, bytes));
      stage.inputs.push_back(value);
      late = late || late_[value];
    }
    for (std::size_t i = 0; i < partition.outputs.size(); ++i) {
      const std::uint64_t bytes = partition.program.tensors[partition.program.outputs[i]].storage_bytes();
      stage.outputs.push_back(add_value({partition.name, partition.outputs[i].name}, bytes, late));
    }
    schedule_.tasks.push_back(
        {Schedule::TaskKind::kStage, static_cast<std::uint32_t>(schedule_.stages.size()), 0});
    schedule_.stages.push_back(std::move(stage));
    return {};
  }

  Status add_card_ports(const plan::Partition& partition) {
    const auto endpoint = static_cast<std::uint32_t>(deployment_.find_endpoint(partition.endpoint) -
                                                     deployment_.endpoints.data());
    const auto& in_image = records_.at(partition.image).partitions;
    const auto held = std::find_if(in_image.begin(), in_image.end(),
                                   [&](const plan::ImagePartition& p) { return p.name == partition.name; });
    for (const plan::ImagePort& port : held->ports) {
      const std::uint64_t bytes = port.elements * port.type.storage_bytes();
      if (port.kind == plan::PortKind::kIngress) {
        MILLRACE_ASSIGN(const std::uint32_t value, incoming(partition.name, port.name, bytes));
        schedule_.tasks.push_back(
            {Schedule::TaskKind::kIngress, static_cast<std::uint32_t>(schedule_.ingresses.size()), 0});
        schedule_.ingresses.push_back({endpoint, port.compute_unit, bytes, value});
      } else if (port.kind == plan::PortKind::kEgress) {
        std::optional<std::uint32_t> value;
        if (const Key key{partition.name, port.name}; !values_.contains(key))
          value = add_value(key, bytes, true);
        schedule_.egresses.push_back(
            {endpoint, port.compute_unit, bytes, value, {partition.name, port.name}});
      }
    }
    return {};
  }

  Status add_outputs() {
    for (const plan::TensorSignature& output : deployment_.model.outputs) {
      MILLRACE_ASSIGN(const std::uint32_t value, incoming("", output.name, output.bytes()));
      schedule_.outputs.push_back(value);
    }
    schedule_.tasks.push_back({Schedule::TaskKind::kFinish, 0, 0});
    return {};
  }

  std::vector<std::uint32_t> inputs_of(const Schedule::Task& task) const {
    std::vector<std::uint32_t> inputs;
    switch (task.kind) {
      case Schedule::TaskKind::kStage:
        inputs = schedule_.stages[task.index].inputs;
        break;
      case Schedule::TaskKind::kIngress:
        inputs = {schedule_.ingresses[task.index].value};
        break;
      case Schedule::TaskKind::kFinish:
        inputs = schedule_.outputs;
        break;
    }
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    return inputs;
  }

  void order_tasks() {
    schedule_.readers.resize(schedule_.value_bytes.size());
    std::vector<std::uint32_t> early_ingresses;
    std::set<std::uint32_t> kept;
    for (std::uint32_t index = 0; index < schedule_.tasks.size(); ++index) {
      Schedule::Task& task = schedule_.tasks[index];
      const std::vector<std::uint32_t> inputs = inputs_of(task);
      for (const std::uint32_t value : inputs) {
        if (!late_[value]) continue;
        ++task.waits;
        schedule_.readers[value].push_back(index);
      }
      if (task.kind == Schedule::TaskKind::kFinish || task.waits > 0) {
        for (const std::uint32_t value : inputs) {
          if (value < deployment_.model.inputs.size()) kept.insert(value);
        }
      } else if (task.kind == Schedule::TaskKind::kStage) {
        schedule_.early.push_back(index);
      } else {
        early_ingresses.push_back(index);
      }
    }
    // Host stages that need no result of a card come before the starts of ingress runs, because a frame's first result
    // may arrive as soon as an ingress run has started.
    schedule_.early.insert(schedule_.early.end(), early_ingresses.begin(), early_ingresses.end());
    schedule_.kept_inputs.assign(kept.begin(), kept.end());
  }

  const plan::Deployment& deployment_;
  const std::map<std::string, plan::ImageRecord>& records_;
  std::map<Key, std::uint32_t> values_;
  std::vector<bool> late_;  // indexed by value
  Schedule schedule_;
};

}  // namespace

Result<Schedule> derive_schedule(const plan::Deployment& deployment,
                                 const std::map<std::string, plan::ImageRecord>& records) {
  return Deriver(deployment, records).run();
}

}  // namespace millrace::runtime::pipeline
