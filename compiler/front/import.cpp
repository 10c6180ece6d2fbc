// Reads the protobuf messages of an ONNX file. The file has more than 500 lines because one class keeps track of the names
// and values that all steps share, also those steps that import_partly() adds.
#include "compiler/front/import.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "compiler/front/tensor.hpp"
#include "compiler/front/whole_numbers.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/operators/operators.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::OnnxOperator;
using graph::Shape;
using graph::Signature;
using graph::to_string;
using graph::Type;
using graph::ValueId;

constexpr int kMostNodes = 20000;
constexpr std::int64_t kOldestOpset = 7, kNewestOpset = 25, kNewestIr = 13;  // of ONNX 1.20
constexpr std::size_t kLongestName = 4096;                                   // bytes
constexpr int kMostSignatureAxes = 9;  // of an input or output, as a deployment can describe it
constexpr std::int64_t kMostDeclared = std::int64_t{1} << 28;  // elements of a declared tensor

Error unsupported(std::string message) {
  return Error(ErrorCode::kUnsupported, std::move(message));
}

Status parse(std::span<const std::byte> bytes, onnx::ModelProto& model) {
  if (bytes.empty()) return invalid("is empty; an ONNX model is needed");
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return invalid("is longer than the 2 GiB a protobuf can have; store its weights as external data");
  const int size = static_cast<int>(bytes.size());
  google::protobuf::io::ArrayInputStream array(bytes.data(), size);
  google::protobuf::io::CodedInputStream coded(&array);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  const bool parsed = model.ParsePartialFromCodedStream(&coded) && coded.ConsumedEntireMessage();
  // An ONNX file begins with its IR version: field 1, a small number.
  const bool plausible =
      bytes.size() > 1 && bytes[0] == std::byte{8} && bytes[1] > std::byte{0} && bytes[1] < std::byte{32};
  if (!parsed && plausible)
    return invalid(
        "cannot be read to its end: it is truncated or damaged, or its subgraphs are nested too deeply; "
        "copy or export the ONNX model again");
  if (!parsed || !model.has_graph() || model.ir_version() < 1) return invalid("is not an ONNX model");
  if (model.ir_version() > kNewestIr)
    return unsupported("has the IR version " + std::to_string(model.ir_version()) +
                       "; Millrace reads versions 1 to " + std::to_string(kNewestIr) +
                       ": export the model for an older version");
  if (model.graph().node_size() == 0) return invalid("the graph has no nodes; export the model again");
  return {};
}

class Importer {
 public:
  /// Prepares the import of `model`. To save memory, run() empties the model's initialisers. If `partly` is given, run()
  /// takes out refused nodes and fills all members of `partly` but the graph.
  Importer(onnx::ModelProto& model, std::filesystem::path directory, FloatModel unquantised,
           const Claimer& claimer, PartlyImported* partly = nullptr)
      : model_(model),
        proto_(*model.mutable_graph()),
        directory_(std::move(directory)),
        float_model_(unquantised),
        claimer_(claimer),
        partly_(partly) {}

  Result<Graph> run(const std::string& name) {
    graph_.name = name;
    MILLRACE_TRY(read_opsets());
    MILLRACE_TRY(read_initialisers());
    MILLRACE_TRY(read_inputs());
    MILLRACE_TRY(read_nodes());
    MILLRACE_TRY(check_operators());
    take_whole_numbers(graph_, names_, annotated_types());
    MILLRACE_TRY(expand_qoperators());
    if (const Node* node = graph::sort_nodes(graph_))
      return invalid("the graph has a cycle: " + operation_name(node->operation) + " '" + node->name +
                     "' depends on its own output; export the model again");
    MILLRACE_TRY(infer_shapes());
    if (claimer_) MILLRACE_TRY(claim_nodes());
    MILLRACE_TRY(read_outputs());
    graph::add_outputs(graph_, loose_);
    MILLRACE_TRY(graph::verify(graph_, graph::Level::kImported));
    return std::move(graph_);
  }

 private:
  Status read_opsets() {
    for (const auto& set : model_.opset_import()) {
      const auto [known, fresh] = opsets_.emplace(normal_domain(set.domain()), set.version());
      if (!fresh && known->second != set.version())
        return invalid("names two versions of the same operator set: " + std::to_string(known->second) +
                       " and " + std::to_string(set.version()) + "; export the model again");
    }
    const auto it = opsets_.find("");
    if (it == opsets_.end()) return invalid("names no operator set (opset_import); export the model again");
    if (it->second < kOldestOpset)
      return unsupported("operator set " + std::to_string(it->second) + " is too old; export with " +
                         std::to_string(kOldestOpset) + " or newer");
    if (it->second > kNewestOpset)
      return unsupported("operator set " + std::to_string(it->second) +
                         " is newer than every operator set that Millrace knows; export with " +
                         std::to_string(kNewestOpset) + " or older");
    if (proto_.node_size() > kMostNodes)
      return unsupported("has " + std::to_string(proto_.node_size()) + " nodes; Millrace takes at most " +
                         std::to_string(kMostNodes));
    return {};
  }

  static std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

  /// Refuses names that are not UTF-8, because neither JSON nor protobuf can hold them, and names of absurd length.
  static Status check_name(const std::string& name, const std::string& what) {
    if (name.size() > kLongestName)
      return invalid("the model contains " + what + " name of " + std::to_string(name.size()) +
                     " bytes; rename it: at most " + std::to_string(kLongestName) + " are taken");
    if (is_utf8(name)) return {};
    return invalid("the model contains " + what + " name that is not UTF-8; rename it");
  }

  Result<ValueId> declare(const std::string& name, const char* what) {
    if (name.empty()) return invalid(std::string(what) + " without a name");
    MILLRACE_TRY(check_name(name, "a tensor"));
    const auto [it, fresh] = ids_.emplace(name, static_cast<ValueId>(graph_.values.size()));
    if (!fresh)
      return invalid("two things are named '" + name + "' (the second is " + what + "); rename one of them");
    graph::Value value;
    value.name = name;
    graph_.values.push_back(std::move(value));
    return it->second;
  }

  Status read_initialisers() {
    if (proto_.sparse_initializer_size() > 0)
      return unsupported("sparse initialiser '" + proto_.sparse_initializer(0).values().name() +
                         "': store it dense");
    for (auto& tensor : *proto_.mutable_initializer()) {
      MILLRACE_ASSIGN(const ValueId id, declare(tensor.name(), "an initialiser"));
      MILLRACE_TRY(set_constant(id, tensor));
      tensor = {};
    }
    return {};
  }

  Status set_constant(ValueId id, const onnx::TensorProto& tensor) {
    graph::Value& value = graph_.value(id);
    const Status status = read_tensor(tensor, directory_, value);
    if (tensor.data_type() == onnx::TensorProto::DOUBLE) doubles_.insert(id);
    return status.ok() ? status : Status(status.error().within("'" + value.name + "'"));
  }

  Status read_inputs() {
    for (const auto& input : proto_.input()) {
      if (ids_.contains(input.name())) continue;  // ONNX may list an initialiser as an input, with its type
      MILLRACE_ASSIGN(const ValueId id, declare(input.name(), "a graph input"));
      const std::string here = "input '" + input.name() + "'";
      if (!input.type().has_tensor_type()) return unsupported(here + " is not a tensor");
      const auto& tensor = input.type().tensor_type();
      auto type = element_type(tensor.elem_type());
      if (!type.ok()) return type.error().within(here);
      if (!tensor.has_shape())
        return unsupported(here + " has no shape; export the model with static shapes");
      graph::Value& value = graph_.value(id);
      value.type = *type;
      if (tensor.shape().dim_size() > kMostSignatureAxes)
        return unsupported(here + " has " + std::to_string(tensor.shape().dim_size()) +
                           " axes; Millrace takes at most " + std::to_string(kMostSignatureAxes));
      for (int i = 0; i < tensor.shape().dim_size(); ++i) {
        const auto& dim = tensor.shape().dim(i);
        if (!dim.has_dim_value() && i > 0)
          return unsupported(here + " has the dynamic dimension '" +
                             (dim.dim_param().empty() ? "?" : dim.dim_param()) + "' (axis " +
                             std::to_string(i) +
                             "); only the batch axis may be dynamic: export the model with static shapes");
        const std::int64_t extent = dim.has_dim_value() ? dim.dim_value() : 1;
        if (extent < 1 || extent > (std::int64_t{1} << 24))
          return invalid(here + " has the impossible dimension " + std::to_string(extent));
        value.shape.push_back(extent);
      }
      if (value.shape.empty() || value.shape[0] != 1)
        return unsupported(here + " is " + to_string(value.shape) +
                           "; its first axis must be the batch axis, of extent 1");
      std::int64_t total = 1;
      for (const std::int64_t d : value.shape)
        if ((total *= d) > (std::int64_t{1} << 28))
          return invalid(here + " is absurdly large: " + to_string(value.shape));
      graph_.inputs.push_back(id);
      graph_.input_signatures.push_back({value.name, value.type, value.shape});
    }
    if (graph_.inputs.empty()) return invalid("the graph has no inputs");
    return {};
  }

  Status read_nodes() {
    // Declare the outputs of all nodes first, so that nodes may be in any order.
    std::vector<const onnx::NodeProto*> rest;
    for (const auto& node : proto_.node()) {
      MILLRACE_TRY(check_name(node.name(), "a node"));
      MILLRACE_TRY(check_name(node.op_type(), "an operator"));
      MILLRACE_TRY(check_name(node.domain(), "a domain"));
      for (const auto& a : node.attribute()) {
        MILLRACE_TRY(check_name(a.name(), "an attribute"));
      }
      const std::string here = node.op_type() + " '" + label(node) + "'";
      if (node.output_size() == 0) return invalid(here + " has no output");
      for (const std::string& output : node.output()) {
        if (output.empty()) continue;
        auto declared = declare(output, "a node's output");
        if (!declared.ok()) return declared.error().within(here);
      }
      if (node.op_type() == "Constant" && normal_domain(node.domain()).empty()) {
        MILLRACE_TRY(read_constant(node));
        if (partly_ != nullptr) ++partly_->constants;
      } else {
        rest.push_back(&node);
      }
    }
    for (const onnx::NodeProto* node : rest) {
      MILLRACE_TRY(read_node(*node));
    }
    return {};
  }

  static std::string label(const onnx::NodeProto& node) {
    if (!node.name().empty()) return node.name();
    return node.output_size() > 0 ? node.output(0) : "unnamed";
  }

  Status read_constant(const onnx::NodeProto& node) {
    const std::string here = "Constant '" + label(node) + "'";
    if (node.attribute_size() != 1) return invalid(here + " must have exactly one attribute");
    if (node.output(0).empty()) return invalid(here + " leaves out its first output");
    const auto& a = node.attribute(0);
    const ValueId id = ids_.at(node.output(0));
    if (a.name() == "value" && a.has_t()) {
      Status status = set_constant(id, a.t());
      return status.ok() ? status : Status(status.error().within(here));
    }
    graph::Value& value = graph_.value(id);
    graph::Constant c;
    value.type = Type::integer(64);
    if (a.name() == "value_int")
      c.integers = {a.i()};
    else if (a.name() == "value_float")
      c.floats = {a.f()};
    else if (a.name() == "value_ints")
      c.integers.assign(a.ints().begin(), a.ints().end());
    else if (a.name() == "value_floats")
      c.floats.assign(a.floats().begin(), a.floats().end());
    else
      return unsupported(here + " has the attribute '" + a.name() + "', which is not supported");
    if (a.name().find("float") != std::string::npos) value.type = Type::float32();
    if (a.name().back() == 's') value.shape = {static_cast<std::int64_t>(c.size())};
    value.constant = std::make_shared<const graph::Constant>(std::move(c));
    return {};
  }

  Status read_node(const onnx::NodeProto& proto) {
    Node node;
    node.name = names_.unique(label(proto));
    const std::string here = proto.op_type() + " '" + node.name + "'";
    OnnxOperator op;
    op.domain = normal_domain(proto.domain());
    op.type = proto.op_type();
    const auto set = opsets_.find(op.domain);
    op.opset = set == opsets_.end() ? 0 : set->second;
    std::string wrong;
    for (const auto& a : proto.attribute()) {
      if (a.has_g() || a.graphs_size() > 0) continue;  // control flow, which is refused by its operator type
      if (op.type == "ConstantOfShape" && a.name() == "value" && a.has_t()) continue;  // add_fill() reads it
      if (!add_attribute(op, a) && operators::find(op) != nullptr)
        wrong = "attribute '" + a.name() + "' has an unsupported type or occurs twice";
    }
    if (wrong.empty()) wrong = extra_input(op, proto);
    if (!wrong.empty() && partly_ == nullptr) return invalid(printable(here + ": " + wrong));
    for (const std::string& input : proto.input()) {
      MILLRACE_TRY(check_name(input, "a tensor"));
      const auto it = ids_.find(input);
      if (!input.empty() && it == ids_.end())
        return invalid(here + " reads '" + input +
                       "', which no initialiser, input or node provides: "
                       "weights are missing, or the model was cut; export the model again");
      node.inputs.push_back(input.empty() ? kNoValue : it->second);
      if (wrong.empty() && !input.empty() && doubles_.contains(it->second)) {
        wrong = wrong_reader_of_double(op, input);
        if (!wrong.empty() && partly_ == nullptr) return unsupported(printable(here + ": " + wrong));
      }
    }
    if (const auto most = operators::most_inputs(op); most && node.inputs.size() > *most && wrong.empty())
      node.inputs.resize(*most);  // the others have no names, so they are left out
    if (op.type == "ConstantOfShape") {
      MILLRACE_TRY(add_fill(here, node, proto));
    }
    MILLRACE_TRY(check_constants(here, op.type, node));
    for (const std::string& output : proto.output())
      node.outputs.push_back(output.empty() ? kNoValue : ids_.at(output));
    if (partly_ != nullptr) partly_->nodes.push_back({node.name, op.domain, op.type, weights_of(node)});
    node.operation = std::move(op);
    node.sources = {node.name};
    graph_.nodes.push_back(std::move(node));
    if (!wrong.empty()) refuse(graph_, graph_.nodes.back(), wrong);
    return {};
  }

  /// Returns an error if the node has more inputs than its operator takes. Otherwise returns an empty text.
  static std::string extra_input(const OnnxOperator& op, const onnx::NodeProto& proto) {
    const auto most = operators::most_inputs(op);
    for (int i = most ? static_cast<int>(*most) : proto.input_size(); i < proto.input_size(); ++i)
      if (!proto.input(i).empty())
        return "has the input '" + proto.input(i) + "' (input " + std::to_string(i + 1) +
               "), but takes at most " + std::to_string(*most) +
               ": remove the input, or export the model again";
    return {};
  }

  /// Returns an error if the node reads the constant `input`, whose type is DOUBLE, and is no Cast to float32. Constants of
  /// type DOUBLE are kept as float32, so another node would compute with other numbers than the model states.
  static std::string wrong_reader_of_double(const OnnxOperator& op, const std::string& input) {
    if (op.domain.empty() && op.type == "Cast" && op.integer("to", 0) == onnx::TensorProto::FLOAT) return {};
    return "its constant '" + input +
           "' has the type DOUBLE, which only a Cast to float32 may read: store the constant as float32";
  }

  std::uint64_t weights_of(const Node& node) const {
    std::uint64_t count = 0;
    for (const ValueId v : node.inputs)
      if (v != kNoValue && graph_.value(v).constant != nullptr && graph_.value(v).shape.size() > 1)
        count += graph_.value(v).constant->size();
    return count;
  }

  /// Makes the attribute `value` of a ConstantOfShape its second input.
  Status add_fill(const std::string& here, Node& node, const onnx::NodeProto& proto) {
    graph::Value fill;
    fill.type = Type::float32();
    fill.constant = std::make_shared<const graph::Constant>(graph::Constant{{0.0F}, {}});
    for (const auto& a : proto.attribute()) {
      if (a.name() != "value" || !a.has_t()) continue;
      const Status status = read_tensor(a.t(), directory_, fill);
      if (!status.ok()) return status.error().within(here);
      if (fill.constant->size() != 1) return invalid(here + ": its value must be one number");
    }
    node.inputs.resize(1, kNoValue);
    node.inputs.push_back(graph_.add_constant(node.name + ".value", fill.type, {}, *fill.constant));
    return {};
  }

  /// Whether `number`, which is not finite, may be in a constant that is input `i` of a node. A bound of Clip may be infinite,
  /// and so may be the number that a mask puts in place of others: an attention adds, selects or pads with -infinity. Other
  /// nodes may make or move the mask.
  static bool may_be_infinite(const std::string& type, std::size_t i, float number) {
    if (std::isnan(number)) return false;
    if (number > 0) return type == "Clip" && i == 2;
    static const std::set<std::string> kMasks = {"Add",     "ConstantOfShape", "Expand",    "Pad",
                                                 "Reshape", "Slice",           "Unsqueeze", "Where"};
    return (type == "Clip" && i == 1) || kMasks.contains(type);
  }

  /// Refuses NaN and infinity in constants, because no integer represents them, except where may_be_infinite() holds.
  Status check_constants(const std::string& here, const std::string& type, const Node& node) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input == kNoValue || graph_.value(input).constant == nullptr) continue;
      const auto& floats = graph_.value(input).constant->floats;
      const auto wrong = std::find_if(floats.begin(), floats.end(), [&](float f) {
        return !std::isfinite(f) && !may_be_infinite(type, i, f);
      });
      if (wrong != floats.end()) {
        const std::string index = std::to_string(wrong - floats.begin());
        return invalid(here + ": element " + index + " of its constant '" + graph_.value(input).name +
                       "' is " + (std::isnan(*wrong) ? "NaN" : "infinite") +
                       "; export the model with finite numbers");
      }
    }
    return {};
  }

  static bool add_attribute(OnnxOperator& op, const onnx::AttributeProto& a) {
    using A = onnx::AttributeProto;
    graph::Attribute value;
    switch (a.type()) {
      case A::INT:
        value = static_cast<std::int64_t>(a.i());
        break;
      case A::FLOAT:
        value = a.f();
        break;
      case A::STRING:
        value = a.s();
        break;
      case A::INTS:
        value = std::vector<std::int64_t>(a.ints().begin(), a.ints().end());
        break;
      case A::FLOATS:
        value = std::vector<float>(a.floats().begin(), a.floats().end());
        break;
      default:
        return false;
    }
    return op.attributes.emplace(a.name(), std::move(value)).second;
  }

  /// Refuses unsupported operators. One error lists all nodes that have them.
  Status check_operators() {
    bool quantised = false;
    std::string wrong;
    for (Node& n : graph_.nodes) {
      const auto& op = std::get<OnnxOperator>(n.operation);
      quantised = quantised || operators::is_quantiser(op);
      if (n.refused) continue;
      if (const std::string why = operators::why_unsupported(op); !why.empty()) {
        if (!claimer_)
          refuse(graph_, n, why);
        else
          foreign_[n.name] = why;
        continue;
      }
      if (n.refused || !wrong.empty()) continue;
      const std::string why = operators::check_attributes(op);
      if (!why.empty() && partly_ != nullptr)
        refuse(graph_, n, why);
      else if (!why.empty())
        wrong = printable(op.type + " '" + n.name + "': " + why);
    }
    if (partly_ != nullptr) partly_->quantised = quantised;
    take_out_refused();
    if (!graph_.refusals.empty())
      return unsupported(refusal_error(graph_).message() +
                         "\nSupported operators: " + operators::supported_operators());
    if (!wrong.empty()) return invalid(wrong);
    if (quantised && float_model_ == FloatModel::kRequired)
      return invalid("is quantised already, and --assume is for float models: leave --assume out");
    if (!quantised && float_model_ == FloatModel::kRefused)
      return unsupported(
          "is a float model: it has no quantisers. "
          "Quantise the model with samples of its inputs: "
          "`millrace quantize MODEL --data SAMPLES.npy -o QDQ.onnx`, "
          "or in one go: `millrace compile MODEL --data SAMPLES.npy ...`");
    return {};
  }

  /// The integer types that FINN's annotations give to tensors, by the tensor's name.
  std::map<std::string, std::string> annotated_types() const {
    std::map<std::string, std::string> types;
    for (const auto& annotation : proto_.quantization_annotation())
      for (const auto& entry : annotation.quant_parameter_tensor_names())
        if (entry.key() == "finn_datatype") types[annotation.tensor_name()] = entry.value();
    return types;
  }

  Status expand_qoperators() {
    std::vector<Node> nodes;
    for (Node& n : graph_.nodes)
      if (const std::string why = operators::expand(graph_, n, names_, nodes); !why.empty())
        refuse(graph_, n, why);
    for (const Node& n : graph_.nodes)
      if (n.refused && partly_ != nullptr) nodes.push_back(n);
    graph_.nodes = std::move(nodes);
    take_out_refused();
    return graph_.refusals.empty() ? Status() : Status(refusal_error(graph_));
  }

  /// Gives the outputs of a node with an unknown operator the shapes that the file declares. Returns what is missing.
  std::string declare_foreign(const Node& n) {
    for (const ValueId v : n.outputs)
      if (v != kNoValue && !take_declared_shape(v))
        return foreign_.at(n.name) +
               ". A plugin can compute the node if value_info declares the type and shape of its output '" +
               graph_.value(v).name + "'";
    return {};
  }

  /// Lets plugins take nodes. Then refuses the nodes with unknown operators that no plugin has taken.
  Status claim_nodes() {
    for (const auto& output : proto_.output())
      if (const auto it = ids_.find(output.name()); it != ids_.end()) graph_.outputs.push_back(it->second);
    MILLRACE_ASSIGN(const std::vector<Claim> claims, claimer_(graph_));
    MILLRACE_TRY(apply_claims(graph_, claims));
    graph_.outputs.clear();  // read_outputs() reads them
    for (Node& n : graph_.nodes)
      if (const auto it = foreign_.find(n.name); it != foreign_.end() && graph::onnx_of(n) != nullptr)
        refuse(graph_, n, it->second + ", and no plugin computes it");
    take_out_refused();
    return graph_.refusals.empty() ? Status() : Status(refusal_error(graph_));
  }

  // Only import_partly() uses the following functions, up to infer_shapes().

  /// Gives `v` the type and shape that the file declares for it. Returns false if it declares none.
  bool take_declared_shape(ValueId v) {
    if (declared_.empty())
      for (const auto* list : {&proto_.output(), &proto_.value_info()})
        for (const auto& info : *list)
          if (info.type().has_tensor_type()) declared_[info.name()] = &info.type().tensor_type();
    const auto it = declared_.find(graph_.value(v).name);
    if (it == declared_.end()) return false;
    const auto& tensor = *it->second;
    const auto type = element_type(tensor.elem_type());
    if (!type.ok() || !tensor.has_shape() || tensor.shape().dim_size() == 0) return false;
    Shape shape;
    for (int i = 0; i < tensor.shape().dim_size(); ++i)  // a batch without a value counts as 1
      shape.push_back(tensor.shape().dim(i).has_dim_value() ? tensor.shape().dim(i).dim_value() : 1 - i);
    std::int64_t total = 1;
    const bool sound = std::all_of(shape.begin(), shape.end(), [&total](std::int64_t d) {
      return d > 0 && d <= kMostDeclared && (total *= d) <= kMostDeclared;
    });
    if (!sound || type->bits == 64 || type->kind == Type::Kind::kBool) return false;
    graph_.value(v).type = *type;
    graph_.value(v).shape = std::move(shape);
    return true;
  }

  /// Takes a node out: its results become inputs of the graph if their shapes are declared, and otherwise unknown
  /// values; its operands may become outputs.
  void take_out(const Node& n, bool may_declare) {
    for (const ValueId v : n.inputs)
      if (v != kNoValue) loose_.insert(v);
    for (const ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      if (may_declare && take_declared_shape(v)) {
        graph_.inputs.push_back(v);
        graph_.input_signatures.push_back(
            {graph_.value(v).name, graph_.value(v).type, graph_.value(v).shape});
      } else {
        unknown_.insert(v);
      }
    }
  }

  void take_out_refused() {
    if (partly_ == nullptr) return;
    for (const Node& n : graph_.nodes)
      if (n.refused) take_out(n, true);
    drop_taken_out();
  }

  void drop_taken_out() {
    if (partly_ == nullptr) return;
    std::erase_if(graph_.nodes, [](const Node& n) { return n.refused; });
    std::move(graph_.refusals.begin(), graph_.refusals.end(), std::back_inserter(partly_->refused));
    graph_.refusals.clear();
  }

  /// Infers the shapes of all nodes. One error lists all nodes whose shape cannot be inferred. Nodes that depend on
  /// them are skipped.
  Status infer_shapes() {
    std::vector<bool> shapeless;  // by ValueId
    const graph::Uses uses(graph_);
    std::vector<Node> nodes;
    for (const Node& n : graph_.nodes) {
      shapeless.resize(graph_.values.size(), false);
      const bool skip = std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) {
        return v != kNoValue && (shapeless[v] || unknown_.contains(v));
      });
      if (skip && partly_ != nullptr) {
        take_out(n, false);
        partly_->unknown.push_back(n.sources.front());
        continue;
      }
      if (!skip && foreign_.contains(n.name)) {
        nodes.push_back(n);
        if (const std::string why = declare_foreign(n); !why.empty()) {
          refuse(graph_, nodes.back(), why);
          for (const ValueId v : n.outputs)
            if (v != kNoValue) shapeless[v] = true;
          if (partly_ != nullptr) take_out(nodes.back(), false);
        }
        continue;
      }
      std::vector<Node> parts;
      std::string wrong = skip ? "" : operators::separate_outputs(graph_, n, names_, parts);
      if (partly_ != nullptr && wrong.empty() && parts.size() == 1) wrong = wrong_output(parts[0], uses);
      if (skip || !wrong.empty()) parts = {n};
      if (!wrong.empty()) refuse(graph_, parts.front(), wrong);
      for (Node& part : parts) {
        if (part.outputs[0] == kNoValue)
          return invalid(
              printable(operation_name(n.operation) + " '" + n.name + "' leaves out its first output"));
        if (!skip && !part.refused)
          if (const std::string why = operators::infer(graph_, part); !why.empty()) refuse(graph_, part, why);
        if (!skip && !part.refused) {
          learn_constant(part);
          continue;
        }
        if (partly_ != nullptr) {
          take_out(part, true);
        } else {
          for (const ValueId v : part.outputs)
            if (v != kNoValue) shapeless[v] = true;
        }
      }
      std::move(parts.begin(), parts.end(), std::back_inserter(nodes));
    }
    graph_.nodes = std::move(nodes);
    drop_taken_out();
    return graph_.refusals.empty() ? drop_known_nodes() : refusal_error(graph_);
  }

  /// Makes the node's output a constant if its elements are few known numbers that could lead to a shape: integers, or
  /// floats along at most one axis. PyTorch computes pads as a matrix of integers, and sizes as Floor(Cast(shape) * 2).
  /// Compiler passes fold all other constants.
  void learn_constant(const Node& n) {
    graph::Value& output = graph_.value(n.outputs[0]);
    if (output.type.is_float() && output.shape.size() > 1) return;
    if (auto known = operators::fold(graph_, n, 64))
      output.constant = std::make_shared<const graph::Constant>(std::move(*known));
  }

  /// Removes nodes whose output became a constant. If a node has several outputs, keeps only the first. Refuses a node
  /// if another of its outputs is used.
  Status drop_known_nodes() {
    const graph::Uses uses(graph_);
    const auto is_known = [&](const Node& n) {
      return n.outputs[0] != kNoValue && graph_.value(n.outputs[0]).constant != nullptr &&
             (foreign_.contains(n.name) || wrong_output(n, uses).empty());
    };
    std::erase_if(graph_.nodes, is_known);
    for (Node& n : graph_.nodes) {
      if (foreign_.contains(n.name)) continue;
      if (const std::string why = wrong_output(n, uses); !why.empty())
        return unsupported(operation_name(n.operation) + " '" + n.name + "': " + why);
      n.outputs.resize(1);
    }
    return {};
  }

  /// If an output of the node other than its first is used, returns a text that says so, as the reason to refuse the
  /// node. Otherwise returns an empty text.
  std::string wrong_output(const Node& n, const graph::Uses& uses) const {
    for (std::size_t i = 1; i < n.outputs.size(); ++i) {
      const ValueId v = n.outputs[i];
      if (v == kNoValue) continue;
      bool wanted = !uses.readers[v].empty();
      for (const auto& output : proto_.output()) wanted = wanted || output.name() == graph_.value(v).name;
      if (wanted)
        return "its output '" + graph_.value(v).name +
               "' is used, but only the first output of this operator is supported";
    }
    return {};
  }

  Status read_outputs() {
    for (const auto& output : proto_.output()) {
      MILLRACE_TRY(check_name(output.name(), "a tensor"));
      const auto it = ids_.find(output.name());
      if (it == ids_.end())
        return invalid("the graph's output '" + output.name() + "' is produced by no node");
      const graph::Value& value = graph_.value(it->second);
      if (unknown_.contains(it->second) || (partly_ != nullptr && is_input(it->second))) continue;
      if (value.constant != nullptr)
        return unsupported("the graph's output '" + output.name() + "' is a constant");
      if (is_input(it->second)) return unsupported("the graph's output '" + output.name() + "' is its input");
      for (const ValueId other : graph_.outputs)
        if (other == it->second) return invalid("the graph lists the output '" + output.name() + "' twice");
      MILLRACE_TRY(check_declared(output, value));
      graph_.outputs.push_back(it->second);
      graph_.output_signatures.push_back({value.name, value.type, value.shape});
    }
    if (graph_.outputs.empty() && partly_ == nullptr) return invalid("the graph has no outputs");
    return {};
  }

  bool is_input(ValueId v) const {
    return std::find(graph_.inputs.begin(), graph_.inputs.end(), v) != graph_.inputs.end();
  }

  /// Compares an output's shape in the file (if the file declares one) with the inferred shape. The declared batch size
  /// may be unknown.
  static Status check_declared(const onnx::ValueInfoProto& output, const graph::Value& value) {
    if (!output.type().has_tensor_type() || !output.type().tensor_type().has_shape()) return {};
    const auto& declared = output.type().tensor_type().shape();
    bool same = declared.dim_size() == static_cast<int>(value.shape.size());
    for (int i = 0; same && i < declared.dim_size(); ++i)
      same = !declared.dim(i).has_dim_value() ||
             declared.dim(i).dim_value() == value.shape[static_cast<std::size_t>(i)];
    if (same) return {};
    return invalid("the output '" + output.name() +
                   "' is declared with a shape that differs from the shape its node produces (" +
                   to_string(value.shape) + ")");
  }

  const onnx::ModelProto& model_;
  onnx::GraphProto& proto_;
  std::filesystem::path directory_;
  FloatModel float_model_;
  const Claimer& claimer_;
  std::map<std::string, std::string>
      foreign_;  // why Millrace does not support a node, by its name; for plugins
  Graph graph_;
  graph::Names names_;  // of the nodes
  std::map<std::string, std::int64_t> opsets_;
  std::unordered_map<std::string, ValueId> ids_;
  std::set<ValueId> doubles_;  // constants of type DOUBLE, kept as float32
  std::unordered_map<std::string, const onnx::TypeProto_Tensor*> declared_;  // types that the file declares
  // The next three are for import_partly().
  PartlyImported* partly_;     // null unless import_partly() runs
  std::set<ValueId> unknown_;  // results of nodes that were taken out, whose shapes the file does not declare
  std::set<ValueId> loose_;    // operands of nodes that were taken out
};

}  // namespace

Result<Graph> import_onnx(std::vector<std::byte> bytes, const std::string& name,
                          const std::filesystem::path& directory, FloatModel unquantised,
                          const Claimer& claimer) {
  onnx::ModelProto model;
  MILLRACE_TRY(parse(bytes, model));
  bytes = {};  // frees memory for the weights, because `model` has a copy
  return Importer(model, directory, unquantised, claimer).run(name);
}

Result<PartlyImported> import_partly(std::vector<std::byte> bytes, const std::string& name,
                                     const std::filesystem::path& directory, const Claimer& claimer) {
  onnx::ModelProto model;
  MILLRACE_TRY(parse(bytes, model));
  bytes = {};
  PartlyImported partly;
  MILLRACE_ASSIGN(partly.graph, Importer(model, directory, FloatModel::kTaken, claimer, &partly).run(name));
  // An ONNX operator may have been replaced by several nodes. If one of these nodes is taken out, take out all of them.
  std::set<std::string> gone(partly.unknown.begin(), partly.unknown.end());
  for (const graph::Refusal& refusal : partly.refused)
    gone.insert(refusal.sources.begin(), refusal.sources.end());
  graph::cut(partly.graph, gone);
  return partly;
}

}  // namespace millrace::compiler
