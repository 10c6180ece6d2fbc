#include "compiler/emit/deployment.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/emit/container.hpp"
#include "compiler/emit/known_answer.hpp"
#include "compiler/emit/rtl/rtl.hpp"
#include "compiler/emit/vitis/vitis.hpp"
#include "compiler/planning/host_ports.hpp"
#include "kernels/program/parameters.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/image_abi.hpp"
#include "runtime/plan/pace.hpp"
#include "runtime/plan/parameters.hpp"

namespace millrace::compiler::emit {
namespace {

using namespace runtime::plan;
using explore::operator+=;

constexpr char kGenerator[] = "millrace " MILLRACE_VERSION;
constexpr char kHostEndpoint[] = "host";
constexpr std::uint64_t kMostPlayedCycles = 200'000;  // the longest latency that predict_passages() simulates

std::string numbered(const char* stem, std::size_t number) {
  return stem + std::to_string(number);
}

std::vector<Port> ports_of(const kernels::Program& program, const std::vector<kernels::TensorIndex>& indices,
                           const char* stem) {
  std::vector<Port> ports;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto& tensor = program.tensors[indices[i]];
    ports.push_back({numbered(stem, i), tensor.name, tensor.type, tensor.shape});
  }
  return ports;
}

/// Makes the partitions of the plan and their programs.
class DeploymentWriter {
 public:
  DeploymentWriter(const kernels::Program& program, const explore::Solution& solution, const Cluster& cluster,
                   const ModelInfo& model, const Designs& designs, std::optional<double> frames_per_second)
      : program_(program),
        solution_(solution),
        cluster_(cluster),
        designs_(designs),
        frames_per_second_(frames_per_second) {
    out_.plan.generator = kGenerator;
    out_.plan.model = model;
    out_.plan.replicas = static_cast<std::uint32_t>(solution.replicas());
  }

  Result<Artifacts> outline() {
    MILLRACE_TRY(add_communication(partition_programs(program_, solution_)));
    return std::move(out_);
  }

  Result<Artifacts> build() {
    const auto programs = partition_programs(program_, solution_);
    MILLRACE_TRY(add_communication(programs));
    MILLRACE_TRY(predict_passages(programs));
    predict_paces(programs);
    for (std::size_t place = 0; place < solution_.card.size(); ++place) MILLRACE_TRY(add_image(place));
    MILLRACE_TRY(add_vitis());
    MILLRACE_TRY(check_communication(out_.plan, cluster_, out_.binding, frames_per_second_));
    out_.plan.digest = compute_digest(out_.plan);
    if (const auto status = validate(out_.plan); !status.ok())
      return Error(ErrorCode::kInternal, "the new plan is inconsistent: " + status.error().message());
    out_.plan.known_answer = known_answer_of(out_.plan, programs_);
    out_.plan.digest = compute_digest(out_.plan);
    return std::move(out_);
  }

 private:
  const Device& device(std::size_t place) const {
    return cluster_.device_of(cluster_.cards[solution_.card[place]]);
  }

  Status add_communication(const std::vector<kernels::Program>& programs) {
    add_endpoints();
    add_partitions(programs);
    return plan_communication(out_.plan, cluster_, out_.binding);
  }

  void add_endpoints() {
    const bool host = std::any_of(solution_.parts.begin(), solution_.parts.end(),
                                  [](const auto& part) { return part.host; });
    if (host) out_.plan.endpoints.push_back({kHostEndpoint, true, "", ""});
    for (std::size_t place = 0; place < solution_.card.size(); ++place) {
      out_.plan.endpoints.push_back(
          {numbered("card", place), false, device(place).name, numbered("image", place)});
      out_.binding[numbered("card", place)] = cluster_.cards[solution_.card[place]].name;
    }
  }

  void add_partitions(const std::vector<kernels::Program>& programs) {
    for (std::size_t i = 0; i < solution_.parts.size(); ++i) {
      const auto& part = solution_.parts[i];
      Partition partition;
      if (part.host) {
        partition.kind = PartitionKind::kHost;
        partition.endpoint = kHostEndpoint;
      } else {
        partition.kind = PartitionKind::kDataflow;
        partition.endpoint = numbered("card", part.place);
        partition.image = numbered("image", part.place);
        partition.region = device(part.place).regions.front().name;
      }
      const kernels::Program& program = programs[i];
      partition.name = program.name;
      partition.inputs = ports_of(program, program.inputs, "in");
      partition.outputs = ports_of(program, program.outputs, "out");
      for (const auto& block : program.blocks) {
        for (const auto& node : block.nodes)
          if (std::find(partition.nodes.begin(), partition.nodes.end(), node) == partition.nodes.end())
            partition.nodes.push_back(node);
        partition.prediction.multiply_accumulates += kernels::multiply_accumulates(program, block);
      }
      if (const auto design = designs_.find(partition.name); design != designs_.end()) {
        partition.prediction.resources = design->second.cost.resources();
        partition.prediction.interval_cycles = design->second.interval_cycles;
        partition.prediction.latency_cycles = design->second.latency_cycles;
      }
      partition.program_digest = program_digest(kernels::topology_of(program));
      if (part.host) partition.program = program;
      programs_[partition.name] = program;
      out_.plan.partitions.push_back(std::move(partition));
    }
  }

  /// Writes the file with those parameters of a partition that the FPGA image does not contain.
  void add_parameters(const kernels::Program& program, const Rtl& rtl, Partition& partition) {
    std::vector<std::byte> bytes = encode_parameters(program, rtl.load, rtl.streamed);
    const std::string sha256 = sha256_hex(bytes);
    partition.parameters = ParameterFile{parameter_file_name(sha256), sha256, bytes.size()};
    out_.files[partition.parameters->file] = std::move(bytes);
  }

  /// Simulates how the first frame passes through several cards. Skips the simulation if a partition without a design
  /// exists, or if a partition's predicted latency exceeds kMostPlayedCycles.
  Status predict_passages(const std::vector<kernels::Program>& programs) {
    if (solution_.card.size() < 2) return {};
    for (std::size_t i = 0; i < programs.size(); ++i) {
      if (solution_.parts[i].host) continue;
      const auto design = designs_.find(programs[i].name);
      if (design == designs_.end() || design->second.latency_cycles > kMostPlayedCycles) return {};
    }
    MILLRACE_ASSIGN(const auto all, passages(programs, solution_, cluster_, designs_));
    for (std::size_t i = 0; i < programs.size(); ++i) {
      last_outputs_.push_back(all[i].last_output);
      if (!solution_.parts[i].host)
        passages_[programs[i].name] = static_cast<std::uint64_t>(
            std::llround(all[i].last_output * device(solution_.parts[i].place).clock_mhz * 1e6));
    }
    return {};
  }

  /// Computes the times with which emulated cards can keep the pace of the hardware. If the passage of a frame was not
  /// simulated, a partition's delay is its whole latency, as if it began when its input is complete.
  void predict_paces(const std::vector<kernels::Program>& programs) {
    std::vector<double> delays;
    if (!last_outputs_.empty()) delays = tails(programs, solution_, cluster_, last_outputs_);
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const auto design = designs_.find(programs[i].name);
      if (solution_.parts[i].host || design == designs_.end()) continue;
      const double nanoseconds_a_cycle = 1e3 / device(solution_.parts[i].place).clock_mhz;
      const auto rounded = [](double value) { return static_cast<std::uint64_t>(std::llround(value)); };
      const double interval = static_cast<double>(design->second.interval_cycles) * nanoseconds_a_cycle;
      const double delay = delays.empty()
                               ? static_cast<double>(design->second.latency_cycles) * nanoseconds_a_cycle
                               : delays[i] * 1e9;
      paces_[programs[i].name] = {std::max<std::uint64_t>(1, rounded(interval)), rounded(delay)};
    }
  }

  /// Adds to an FPGA image one port for each communication channel of a partition's port. `links` counts the rows of
  /// the image's link table.
  void add_ports(const Partition& partition, const Port& port, bool input, std::uint32_t& links,
                 ImagePartition& out) {
    std::size_t copy = 0;
    for (const auto& channel : out_.plan.channels) {
      if ((input ? channel.consumer : channel.producer) != PortRef{partition.name, port.name}) continue;
      ImagePort made;
      made.name = port.name;
      made.type = port.type;
      made.elements = port.elements();
      if (runtime::plan::passes_hosts(channel.transport)) {
        made.kind = input ? PortKind::kIngress : PortKind::kEgress;
        made.compute_unit =
            compute_unit(input ? abi::kIngressKernel : abi::kEgressKernel, partition.name, port.name, copy++);
      } else {
        made.kind = input ? PortKind::kLinkReceive : PortKind::kLinkSend;
        rooms_[links] = {channel.packet_bytes, channel.credits, channel.transport == Transport::kUdp};
        made.link_index = links++;
      }
      out.ports.push_back(std::move(made));
    }
  }

  /// Counts the cables between card number `place` and the cards that it exchanges messages with.
  std::uint64_t cables_of(std::size_t place) const {
    const std::string own = numbered("card", place);
    std::set<std::string> others;
    for (const auto& channel : out_.plan.channels) {
      if (runtime::plan::passes_hosts(channel.transport)) continue;
      const auto& from = out_.plan.find_partition(channel.producer.partition)->endpoint;
      const auto& to = out_.plan.find_partition(channel.consumer.partition)->endpoint;
      if (from == own) others.insert(out_.binding.at(to));
      if (to == own) others.insert(out_.binding.at(from));
    }
    const std::string& card = out_.binding.at(own);
    return static_cast<std::uint64_t>(
        std::count_if(cluster_.cables.begin(), cluster_.cables.end(), [&](const Cable& cable) {
          return (cable.a.card == card && others.contains(cable.b.card)) ||
                 (cable.b.card == card && others.contains(cable.a.card));
        }));
  }

  /// Returns the resources of the first `count` regions that the dataflow may use. Deducts from the first region what
  /// cables and the loader use, and what the shell uses beyond the share in the device file.
  static runtime::plan::Resources available_in(const Device& device, std::size_t count, std::uint64_t cables,
                                               const runtime::plan::Resources& loader,
                                               const runtime::plan::Resources& shell) {
    explore::Amounts taken = explore::amounts(loader), sum{};
    taken += explore::less(explore::amounts(shell), own_shell(device));
    for (std::uint64_t cable = 0; cable < cables; ++cable) taken += explore::amounts(device.link);
    const auto regions = explore::region_budgets(device, explore::kWholeRegion);
    for (std::size_t r = 0; r < std::min(count, regions.size()); ++r)
      sum += r == 0 ? explore::less(regions[r].available, taken) : regions[r].available;
    return explore::resources(sum);
  }

  /// Returns the instances of the dataflow in each region, or nothing if all of them are in the first region.
  static std::vector<PlacedInstances> placement(const generators::Design& design, const Device& device) {
    std::vector<PlacedInstances> placed;
    if (design.regions.empty()) return placed;
    for (const auto& region : device.regions) placed.push_back({region.name, {}});
    for (std::size_t u = 0; u < design.netlist.units.size(); ++u)
      if (const auto& unit = design.netlist.units[u]; unit.wiring == generators::Wiring::kNone)
        placed[design.regions[u]].instances.push_back(unit.instance.name);
    return placed;
  }

  void add_files(const std::string& folder, const std::map<std::string, std::string>& files) {
    for (const auto& [path, content] : files) {
      const auto bytes = std::as_bytes(std::span(content));
      out_.files[folder + path].assign(bytes.begin(), bytes.end());
    }
  }

  /// Writes a partition's SystemVerilog and the partition's entry in the record, by which its FPGA image describes
  /// itself.
  Result<Rtl> add_rtl(const generators::Design& design, const kernels::Program& program, std::size_t place,
                      ImagePartition& made) {
    const Device& device = this->device(place);
    RtlOptions options;
    options.device = device;
    options.generator = kGenerator;
    const auto& regions = design.regions;
    const std::size_t used = regions.empty() ? 1 : *std::max_element(regions.begin(), regions.end()) + 1;
    options.available =
        available_in(device, used, cables_of(place), design.loader.resources(), design.shell.resources());
    options.links = rooms_;
    if (const auto passage = passages_.find(made.name); passage != passages_.end())
      options.passage_cycles = passage->second;
    MILLRACE_ASSIGN(Rtl rtl, emit_rtl(design, program, made.ports, options));
    made.interval_cycles = design.interval_cycles;
    made.latency_cycles = design.latency_cycles;
    made.rtl_digest = rtl.digest;
    tops_[made.name] = rtl.top;
    add_files("rtl/" + made.name + "/", rtl.files);
    return rtl;
  }

  Status add_image(std::size_t place) {
    Image image;
    image.name = numbered("image", place);
    image.file = "images/" + image.name + ".xclbin";
    image.device = device(place).name;
    EmulationData data;
    data.record.abi_version = abi::kAbiVersion;
    data.record.name = image.name;
    data.record.device = image.device;
    data.record.clock_mhz = device(place).clock_mhz;
    const bool receives =
        std::any_of(out_.plan.channels.begin(), out_.plan.channels.end(), [&](const Channel& channel) {
          const Partition* const reader = out_.plan.find_partition(channel.consumer.partition);
          return channel.transport == Transport::kAurora && reader != nullptr && reader->image == image.name;
        });
    if (receives) data.record.least_clock_mhz = device(place).transceivers.core_mhz();
    std::vector<Pace> paces;
    std::uint32_t links = 0;
    rooms_.clear();
    for (auto& partition : out_.plan.partitions) {
      if (partition.image != image.name) continue;
      const kernels::Program& program = programs_.at(partition.name);
      image.partitions.push_back(partition.name);
      ImagePartition& made = data.record.partitions.emplace_back();
      made.name = partition.name;
      made.region = partition.region;
      made.nodes = partition.nodes;
      made.program_digest = partition.program_digest;
      if (kernels::has_parameters(program))
        made.parameters_unit = std::string(abi::kParametersKernel) + ":{" + partition.name + "}";
      for (const auto& port : partition.inputs) add_ports(partition, port, true, links, made);
      for (const auto& port : partition.outputs) add_ports(partition, port, false, links, made);
      data.programs.push_back(kernels::topology_of(program));
      const auto pace = paces_.find(partition.name);
      paces.push_back(pace == paces_.end() ? Pace() : pace->second);
      Rtl rtl;
      if (const auto design = designs_.find(partition.name); design != designs_.end()) {
        MILLRACE_ASSIGN(rtl, add_rtl(design->second, program, place, made));
      }
      if (kernels::has_parameters(program)) add_parameters(program, rtl, partition);
    }
    if (links > abi::kMaxLinkPorts)
      return Error(ErrorCode::kDoesNotFit, "image '" + image.name + "' needs " + std::to_string(links) +
                                               " link ports, but a card has " +
                                               std::to_string(abi::kMaxLinkPorts) +
                                               "; choose another number with --partitions");
    data.record.content_digest = compute_content_digest(data.record);
    image.content_digest = data.record.content_digest;
    image.uuid = uuid_from_digest(image.content_digest);
    MILLRACE_ASSIGN(std::vector<std::byte> bytes, write_container(data, device(place), {}, paces));
    image.file_sha256 = sha256_hex(bytes);
    out_.files[image.file] = std::move(bytes);
    out_.plan.images.push_back(std::move(image));
    return {};
  }

  /// Writes the Vitis folders of the FPGA images for devices with a platform.
  Status add_vitis() {
    std::vector<VitisImage> images;
    for (std::size_t place = 0; place < solution_.card.size(); ++place) {
      const Image& image = out_.plan.images[place];
      const std::string& partition = image.partitions.front();
      VitisImage made{image.name, partition, {}, &device(place), {}, {}};
      for (const auto& one : out_.plan.partitions)
        if (one.name == partition) made.region = one.region;
      for (const Channel& channel : out_.plan.channels) {
        if (channel.transport != Transport::kUdp) continue;
        for (const PortRef& end : {channel.producer, channel.consumer}) {
          if (end.partition != partition) continue;
          ++made.udp_ports;
          made.udp_credits = std::max(made.udp_credits, channel.credits);
        }
      }
      if (const auto design = designs_.find(partition); design != designs_.end())
        made.placed = placement(design->second, device(place));
      // A Vitis kernel contains the top module of one partition only.
      if (const auto top = tops_.find(partition); top != tops_.end() && image.partitions.size() == 1)
        made.top = top->second;
      images.push_back(std::move(made));
    }
    MILLRACE_ASSIGN(const auto files, emit_vitis(images));
    add_files("", files);
    return {};
  }

  const kernels::Program& program_;
  const explore::Solution& solution_;
  const Cluster& cluster_;
  const Designs& designs_;
  std::optional<double> frames_per_second_;
  Artifacts out_;
  std::map<std::string, kernels::Program> programs_;
  std::map<std::string, TopInterface> tops_;       // ports of each partition with hardware, by its name
  std::map<std::uint32_t, LinkRoom> rooms_;        // link index -> credits and packet size; current image
  std::map<std::string, std::uint64_t> passages_;  // partition -> cycles until a frame has passed it
  std::vector<double> last_outputs_;               // by part, in seconds; empty if no passage was simulated
  std::map<std::string, Pace> paces_;              // of each partition with hardware, by its name
};

}  // namespace

Result<Artifacts> build_deployment(const kernels::Program& program, const explore::Solution& solution,
                                   const Cluster& cluster, const ModelInfo& model, const Designs& designs,
                                   std::optional<double> frames_per_second) {
  return DeploymentWriter(program, solution, cluster, model, designs, frames_per_second).build();
}

Result<Artifacts> outline_deployment(const kernels::Program& program, const explore::Solution& solution,
                                     const Cluster& cluster, const ModelInfo& model) {
  return DeploymentWriter(program, solution, cluster, model, {}, {}).outline();
}

Status write(const Artifacts& artifacts, const std::filesystem::path& directory) {
  return write_deployment(artifacts.plan, directory, [&](const std::filesystem::path& temporary) -> Status {
    for (const auto& [path, bytes] : artifacts.files) {
      MILLRACE_TRY(make_folders((temporary / path).parent_path()));
      MILLRACE_TRY(write_new_file(temporary / path, std::span<const std::byte>(bytes)));
    }
    return {};
  });
}

}  // namespace millrace::compiler::emit
