#include "tools/cli/describe.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <ostream>

namespace millrace::cli {
namespace {

namespace json = boost::json;
using namespace runtime::plan;

ProgramSummary summarise(const kernels::Program& program, const std::string& partition,
                         const std::string& place, const std::string& device,
                         const std::vector<std::string>& nodes) {
  ProgramSummary summary{partition, place, device, 0, 0, 0, {}, nodes, {}};
  std::uint64_t weight_bits = 0;
  for (const auto& block : program.blocks) {
    summary.blocks.push_back(block.name);
    summary.multiply_accumulates += kernels::multiply_accumulates(program, block);
    const auto* convolution = std::get_if<kernels::Convolution>(&block.operation);
    if (convolution == nullptr) continue;
    ++summary.layers;
    summary.accumulators.push_back({block.name, kernels::to_string(convolution->accumulator)});
    weight_bits += convolution->weights.size() * convolution->weight_type.bits;
  }
  summary.weight_bytes = (weight_bits + 7) / 8;
  return summary;
}

/// A table whose columns are as wide as their widest cell. `right` marks right-aligned columns.
class Table {
 public:
  Table(std::vector<std::string> head, std::vector<bool> right) : right_(std::move(right)) {
    rows_.push_back(std::move(head));
  }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  void print(std::ostream& out) const {
    std::vector<std::size_t> width(rows_[0].size(), 0);
    for (const auto& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string space(width[i] - row[i].size(), ' ');
        line += "  " + (right_[i] ? space + row[i] : row[i] + space);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out << line << '\n';
    }
  }

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

std::string with_commas(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string joined(const std::vector<std::string>& words, std::size_t limit) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (text.size() + words[i].size() > limit)
      return text + (text.empty() ? "" : " ") + "… (" + std::to_string(words.size()) + " blocks)";
    text += (i == 0 ? "" : " ") + words[i];
  }
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto axis : shape) text += (text.empty() ? "" : "x") + std::to_string(axis);
  return text;
}

const char* transport_name(Transport transport) {
  switch (transport) {
    case Transport::kHost:
      return "host";
    case Transport::kAurora:
      return "aurora";
    case Transport::kUdp:
      return "udp";
    case Transport::kMpi:
      return "mpi";
  }
  return "";
}

const char* port_kind_name(PortKind kind) {
  switch (kind) {
    case PortKind::kIngress:
      return "ingress";
    case PortKind::kEgress:
      return "egress";
    case PortKind::kLinkReceive:
      return "link_receive";
    case PortKind::kLinkSend:
      return "link_send";
  }
  return "";
}

void print_programs(const std::vector<ProgramSummary>& partitions, std::ostream& out) {
  Table table({"partition", "on", "device", "layers", "MACs", "weight bytes", "holds"},
              {false, false, false, true, true, true, false});
  for (const auto& p : partitions)
    table.add({p.partition, p.place, p.device, std::to_string(p.layers), with_commas(p.multiply_accumulates),
               with_commas(p.weight_bytes), joined(p.blocks, 60)});
  table.print(out);
  Table layers({"layer", "in", "sums in"}, {false, false, false});
  bool any = false;
  for (const auto& p : partitions)
    for (const auto& a : p.accumulators) {
      layers.add({a.block, p.partition, a.type});
      any = true;
    }
  if (!any) return;
  out << "\nlayers\n";
  layers.print(out);
}

json::array strings(const std::vector<std::string>& values) {
  return json::array(values.begin(), values.end());
}

json::object to_object(const ProgramSummary& p, const char* place) {
  json::array accumulators;
  for (const auto& a : p.accumulators) accumulators.push_back({{"block", a.block}, {"type", a.type}});
  return {{"name", p.partition},
          {place, p.place},
          {"device", p.device},
          {"layers", p.layers},
          {"multiply_accumulates", p.multiply_accumulates},
          {"weight_bytes", p.weight_bytes},
          {"blocks", strings(p.blocks)},
          {"nodes", strings(p.nodes)},
          {"accumulators", std::move(accumulators)}};
}

json::array tensors(const std::vector<TensorSignature>& signatures) {
  json::array out;
  for (const auto& s : signatures)
    out.push_back(
        {{"name", s.name}, {"datatype", s.datatype}, {"shape", json::array(s.shape.begin(), s.shape.end())}});
  return out;
}

}  // namespace

Result<Description> describe(const LoadedDeployment& deployment) {
  Description out;
  out.plan = deployment.plan;
  std::vector<EmulationData> images;
  for (const auto& image : out.plan.images) {
    const auto& bytes = deployment.images.at(image.name);
    out.image_bytes.push_back(bytes.size());
    MILLRACE_ASSIGN(const auto view, parse_xclbin(bytes));
    const XclbinSection* section = view.find(kSectionEmulationData);
    if (section == nullptr) {
      images.emplace_back();
      continue;
    }
    auto data = decode_emulation_data(section->bytes);
    if (!data.ok()) return data.error().within((deployment.directory / image.file).string());
    images.push_back(std::move(data).value());
  }
  for (const auto& partition : out.plan.partitions) {
    const kernels::Program* program = &partition.program;
    for (const auto& data : images)
      for (std::size_t i = 0; i < data.programs.size(); ++i)
        if (data.record.partitions[i].name == partition.name) program = &data.programs[i];
    const Endpoint* endpoint = out.plan.find_endpoint(partition.endpoint);
    out.partitions.push_back(
        summarise(*program, partition.name, partition.endpoint, endpoint->device, partition.nodes));
  }
  return out;
}

void print_table(const Description& description, std::ostream& out) {
  const Deployment& plan = description.plan;
  const auto tensor = [](const TensorSignature& s) {
    return s.name + " " + s.datatype + " " + shape_text(s.shape);
  };
  out << "model " << plan.model.name;
  for (const auto& input : plan.model.inputs) out << "\n  input   " << tensor(input);
  for (const auto& output : plan.model.outputs) out << "\n  output  " << tensor(output);
  if (!plan.model.description.empty()) out << "\n  " << plan.model.description;
  if (plan.replicas > 1) out << "\n  " << plan.replicas << " replicas, each on its own cards";
  out << "\n\npartitions\n";
  print_programs(description.partitions, out);

  out << "\nchannels\n";
  Table channels({"from", "to", "by", "frame bytes", "packet bytes", "credits"},
                 {false, false, false, true, true, true});
  const auto end = [](const PortRef& ref) {
    return (ref.partition.empty() ? "model" : ref.partition) + "." + ref.port;
  };
  for (const auto& c : plan.channels) {
    const bool host = runtime::plan::passes_hosts(c.transport);
    channels.add({end(c.producer), end(c.consumer), transport_name(c.transport), with_commas(c.frame_bytes),
                  host ? "-" : with_commas(c.packet_bytes), host ? "-" : with_commas(c.credits)});
  }
  channels.print(out);

  out << "\nimages\n";
  Table images({"image", "for", "bytes", "uuid", "holds"}, {false, false, true, false, false});
  for (std::size_t i = 0; i < plan.images.size(); ++i)
    images.add({plan.images[i].name, plan.images[i].device, with_commas(description.image_bytes[i]),
                plan.images[i].uuid, joined(plan.images[i].partitions, 60)});
  images.print(out);

  Table parameters({"parameters of", "bytes", "file"}, {false, true, false});
  bool any = false;
  for (const auto& p : plan.partitions) {
    if (!p.parameters) continue;
    any = true;
    parameters.add({p.name, with_commas(p.parameters->bytes), p.parameters->file});
  }
  if (!any) return;
  out << "\nparameters, given to the cards\n";
  parameters.print(out);
}

void print_json(const Description& description, const std::string& extra, std::ostream& out) {
  const Deployment& plan = description.plan;
  json::object root{
      {"schema", 1}, {"kind", "deployment"}, {"digest", plan.digest}, {"generator", plan.generator}};
  root["model"] = {{"name", plan.model.name},
                   {"source_digest", plan.model.source_digest},
                   {"description", plan.model.description},
                   {"inputs", tensors(plan.model.inputs)},
                   {"outputs", tensors(plan.model.outputs)},
                   {"labels", strings(plan.model.labels)}};
  root["replicas"] = plan.replicas;
  json::array partitions, channels, images;
  for (const auto& p : description.partitions) {
    json::object partition = to_object(p, "endpoint");
    if (const auto& file = plan.find_partition(p.partition)->parameters)
      partition["parameters"] = {{"file", file->file}, {"sha256", file->sha256}, {"bytes", file->bytes}};
    partitions.push_back(std::move(partition));
  }
  for (const auto& c : plan.channels) {
    const auto end = [](const PortRef& ref) {
      return json::object{{"partition", ref.partition}, {"port", ref.port}};
    };
    channels.push_back({{"id", c.id},
                        {"name", c.name},
                        {"producer", end(c.producer)},
                        {"consumer", end(c.consumer)},
                        {"transport", transport_name(c.transport)},
                        {"frame_bytes", c.frame_bytes},
                        {"packet_bytes", c.packet_bytes},
                        {"credits", c.credits}});
  }
  for (std::size_t i = 0; i < plan.images.size(); ++i) {
    const auto& image = plan.images[i];
    images.push_back({{"name", image.name},
                      {"file", image.file},
                      {"bytes", description.image_bytes[i]},
                      {"sha256", image.file_sha256},
                      {"uuid", image.uuid},
                      {"content_digest", image.content_digest},
                      {"device", image.device},
                      {"partitions", strings(image.partitions)}});
  }
  root["partitions"] = std::move(partitions);
  root["channels"] = std::move(channels);
  root["images"] = std::move(images);
  std::string text = json::serialize(root);
  text.insert(text.size() - 1, extra);
  out << text << '\n';
}

Result<ImageDescription> describe_image(std::span<const std::byte> bytes) {
  ImageDescription out;
  MILLRACE_ASSIGN(out.view, parse_xclbin(bytes));
  if (const XclbinSection* user = out.view.find(kSectionUserMetadata)) {
    MILLRACE_ASSIGN(out.record, parse_image_record(
                                    {reinterpret_cast<const char*>(user->bytes.data()), user->bytes.size()}));
    out.ours = true;
  }
  const XclbinSection* emulation = out.ours ? out.view.find(kSectionEmulationData) : nullptr;
  if (emulation == nullptr) return out;
  MILLRACE_ASSIGN(const EmulationData data, decode_emulation_data(emulation->bytes));
  if (data.record != out.record)
    return Error(ErrorCode::kCorrupt,
                 "xclbin: its USER_METADATA and EMULATION_DATA do not describe the same image");
  for (std::size_t i = 0; i < data.programs.size(); ++i) {
    const auto& partition = data.record.partitions[i];
    out.partitions.push_back(
        summarise(data.programs[i], partition.name, partition.region, out.record.device, partition.nodes));
  }
  return out;
}

void print_table(const ImageDescription& description, std::ostream& out) {
  const auto& view = description.view;
  out << "xclbin " << view.uuid << "\n  platform  " << view.platform << "\n  checksum  "
      << (view.has_checksum ? "verified" : "none (not written by millrace)") << "\n\nsections\n";
  Table sections({"kind", "name", "bytes"}, {true, false, true});
  for (const auto& section : view.sections)
    sections.add({std::to_string(section.kind), section.name, with_commas(section.bytes.size())});
  sections.print(out);
  if (!description.ours) return;
  out << "\nimage " << description.record.name << " for " << description.record.device << ", "
      << description.record.clock_mhz << " MHz\n";
  print_programs(description.partitions, out);
  out << "\nports\n";
  Table ports({"partition", "port", "kind", "elements", "type", "unit or link"},
              {false, false, false, true, false, false});
  for (const auto& partition : description.record.partitions)
    for (const auto& port : partition.ports)
      ports.add({partition.name, port.name, port_kind_name(port.kind), with_commas(port.elements),
                 kernels::to_string(port.type),
                 port.compute_unit.empty() ? "link " + std::to_string(port.link_index) : port.compute_unit});
  ports.print(out);
}

void print_json(const ImageDescription& description, std::ostream& out) {
  const auto& view = description.view;
  json::object root{{"schema", 1},
                    {"kind", "xclbin"},
                    {"uuid", view.uuid},
                    {"platform", view.platform},
                    {"checksum", view.has_checksum ? "verified" : "none"}};
  json::array sections;
  for (const auto& s : view.sections)
    sections.push_back({{"kind", s.kind}, {"name", s.name}, {"bytes", s.bytes.size()}});
  root["sections"] = std::move(sections);
  if (description.ours) {
    json::array partitions;
    for (std::size_t i = 0; i < description.record.partitions.size(); ++i) {
      const auto& partition = description.record.partitions[i];
      json::object object = i < description.partitions.size()
                                ? to_object(description.partitions[i], "region")
                                : json::object{{"name", partition.name}, {"region", partition.region}};
      json::array ports;
      for (const auto& port : partition.ports)
        ports.push_back({{"name", port.name},
                         {"kind", port_kind_name(port.kind)},
                         {"compute_unit", port.compute_unit},
                         {"link_index", port.link_index},
                         {"type", kernels::to_string(port.type)},
                         {"elements", port.elements}});
      object["ports"] = std::move(ports);
      partitions.push_back(std::move(object));
    }
    root["image"] = {{"name", description.record.name},
                     {"device", description.record.device},
                     {"content_digest", description.record.content_digest},
                     {"clock_mhz", description.record.clock_mhz}};
    root["partitions"] = std::move(partitions);
  }
  out << json::serialize(root) << '\n';
}

}  // namespace millrace::cli
