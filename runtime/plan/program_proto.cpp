#include <algorithm>
#include <limits>
#include <map>
#include <type_traits>

#include "runtime/base/digest.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/program.pb.h"
#include "runtime/plan/proto.hpp"

namespace millrace::runtime::plan {
namespace {

namespace k = kernels;

// To protobuf.
// ------------------------------------------------------------------------------------------------------

template <class Field, class Values>
void copy(const Values& values, Field& field) {
  field.Reserve(static_cast<int>(values.size()));
  for (const auto value : values) field.Add(value);
}

proto::Requantise::Form to_proto(k::Requantise::Form form) {
  switch (form) {
    case k::Requantise::Form::kMultiplyShift:
      return proto::Requantise::MULTIPLY_SHIFT;
    case k::Requantise::Form::kThresholds:
      return proto::Requantise::THRESHOLDS;
    case k::Requantise::Form::kMultiplyShiftHalfEven:
      return proto::Requantise::MULTIPLY_SHIFT_HALF_EVEN;
  }
  return proto::Requantise::FORM_UNSPECIFIED;
}

void to_proto(const k::Requantise& in, proto::Requantise& out) {
  out.set_form(to_proto(in.form));
  copy(in.multiplier, *out.mutable_multiplier());
  copy(in.offset, *out.mutable_offset());
  copy(in.shift, *out.mutable_shift());
  copy(in.thresholds, *out.mutable_thresholds());
  out.set_zero_point(in.zero_point);
  out.set_lowest(in.lowest);
  out.set_highest(in.highest);
}

void to_proto(const k::Window& in, proto::Window& out) {
  out.set_kernel_h(in.kernel_h);
  out.set_kernel_w(in.kernel_w);
  out.set_stride_h(in.stride_h);
  out.set_stride_w(in.stride_w);
  out.set_dilation_h(in.dilation_h);
  out.set_dilation_w(in.dilation_w);
  out.set_pad_top(in.pad_top);
  out.set_pad_left(in.pad_left);
  out.set_pad_bottom(in.pad_bottom);
  out.set_pad_right(in.pad_right);
  out.set_pad_value(in.pad_value);
}

std::string weight_bytes(const k::Convolution& convolution) {
  const bool narrow = convolution.weight_type.bits <= 8;
  std::string bytes;
  bytes.reserve(convolution.weights.size() * (narrow ? 1 : 2));
  for (const std::int16_t weight : convolution.weights) {
    const auto bits = static_cast<std::uint16_t>(weight);
    bytes.push_back(static_cast<char>(bits & 0xff));
    if (!narrow) bytes.push_back(static_cast<char>(bits >> 8));
  }
  return bytes;
}

/// One overload an operation; `blobs` collects weights by digest.
class BlockWriter {
 public:
  BlockWriter(proto::Block& out, std::map<std::string, std::string>& blobs) : out_(out), blobs_(blobs) {}

  void operator()(const k::Convolution& in) const {
    auto& out = *out_.mutable_convolution();
    to_proto(in.window, *out.mutable_window());
    out.set_out_channels(in.out_channels);
    out.set_groups(in.groups);
    plan::to_proto(in.weight_type, *out.mutable_weight_type());
    std::string bytes = weight_bytes(in);
    out.set_weights_sha256(sha256_hex(bytes));
    blobs_.emplace(out.weights_sha256(), std::move(bytes));
    copy(in.bias, *out.mutable_bias());
    plan::to_proto(in.accumulator, *out.mutable_accumulator());
    if (in.requantise) to_proto(*in.requantise, *out.mutable_requantise());
  }
  void operator()(const k::MaxPool& in) const {
    to_proto(in.window, *out_.mutable_max_pool()->mutable_window());
  }
  void operator()(const k::SumPool& in) const {
    auto& out = *out_.mutable_sum_pool();
    to_proto(in.window, *out.mutable_window());
    plan::to_proto(in.accumulator, *out.mutable_accumulator());
    to_proto(in.requantise, *out.mutable_requantise());
  }
  void operator()(const k::Rescale& in) const {
    to_proto(in.requantise, *out_.mutable_rescale()->mutable_requantise());
  }
  void operator()(const k::Lookup& in) const { copy(in.table, *out_.mutable_lookup()->mutable_table()); }
  void operator()(const k::Add& in) const {
    auto& out = *out_.mutable_add();
    out.set_multiplier_a(in.multiplier_a);
    out.set_multiplier_b(in.multiplier_b);
    out.set_offset(in.offset);
    out.set_shift(in.shift);
    out.set_lowest(in.lowest);
    out.set_highest(in.highest);
    copy(in.table, *out.mutable_table());
  }
  void operator()(const k::Concat&) const { out_.mutable_concat(); }
  void operator()(const k::Permute& in) const {
    copy(in.dims, *out_.mutable_permute()->mutable_dims());
    copy(in.perm, *out_.mutable_permute()->mutable_perm());
  }
  void operator()(const k::Quantise& in) const {
    copy(in.scale, *out_.mutable_quantise()->mutable_scale());
    out_.mutable_quantise()->set_zero_point(in.zero_point);
  }
  void operator()(const k::Dequantise& in) const {
    copy(in.scale, *out_.mutable_dequantise()->mutable_scale());
    out_.mutable_dequantise()->set_zero_point(in.zero_point);
  }
  void operator()(const k::Softmax&) const { out_.mutable_softmax(); }

 private:
  proto::Block& out_;
  std::map<std::string, std::string>& blobs_;
};

// From protobuf.
// ----------------------------------------------------------------------------------------------------

Error bad(const std::string& where, const std::string& why) {
  return Error(ErrorCode::kCorrupt, "program: " + where + ": " + why);
}

/// Copies values into a narrower type; false where one does not fit.
template <class Out, class Field>
bool narrow(const Field& field, std::vector<Out>& out) {
  out.reserve(static_cast<std::size_t>(field.size()));
  for (const auto value : field) {
    if (static_cast<std::int64_t>(value) < static_cast<std::int64_t>(std::numeric_limits<Out>::lowest()) ||
        static_cast<std::int64_t>(value) > static_cast<std::int64_t>(std::numeric_limits<Out>::max()))
      return false;
    out.push_back(static_cast<Out>(value));
  }
  return true;
}

k::Window read(const proto::Window& in) {
  k::Window out;
  out.kernel_h = in.kernel_h();
  out.kernel_w = in.kernel_w();
  out.stride_h = in.stride_h();
  out.stride_w = in.stride_w();
  out.dilation_h = in.dilation_h();
  out.dilation_w = in.dilation_w();
  out.pad_top = in.pad_top();
  out.pad_left = in.pad_left();
  out.pad_bottom = in.pad_bottom();
  out.pad_right = in.pad_right();
  out.pad_value = in.pad_value();
  return out;
}

Result<k::Requantise> read(const proto::Requantise& in, const std::string& block) {
  k::Requantise out;
  switch (in.form()) {
    case proto::Requantise::MULTIPLY_SHIFT:
      out.form = k::Requantise::Form::kMultiplyShift;
      break;
    case proto::Requantise::THRESHOLDS:
      out.form = k::Requantise::Form::kThresholds;
      break;
    case proto::Requantise::MULTIPLY_SHIFT_HALF_EVEN:
      out.form = k::Requantise::Form::kMultiplyShiftHalfEven;
      break;
    default:
      return bad(block, "unknown form of requantisation");
  }
  out.multiplier.assign(in.multiplier().begin(), in.multiplier().end());
  out.offset.assign(in.offset().begin(), in.offset().end());
  if (!narrow(in.shift(), out.shift)) return bad(block, "requantise.shift is out of range");
  out.thresholds.assign(in.thresholds().begin(), in.thresholds().end());
  out.zero_point = in.zero_point();
  out.lowest = in.lowest();
  out.highest = in.highest();
  return out;
}

/// Weights by digest, each checked once; bounds what shared blobs may expand to.
class Blobs {
 public:
  Status open(const proto::ProgramFile& file) {
    std::uint64_t total = 0;
    for (const auto& blob : file.blobs()) {
      if (sha256_hex(blob.data()) != blob.sha256())
        return bad("blob " + blob.sha256(), "its bytes do not match its digest");
      if (!by_digest_.emplace(blob.sha256(), Entry{&blob.data()}).second)
        return bad("blob " + blob.sha256(), "stands twice");
      total += blob.data().size();
    }
    budget_ = std::max<std::uint64_t>(64U << 20U, 16 * total);
    return {};
  }

  Status weights(const std::string& digest, k::ElementType type, const std::string& block,
                 std::vector<std::int16_t>& out) {
    const auto found = by_digest_.find(digest);
    if (found == by_digest_.end()) return bad(block, "no blob holds its weights " + digest);
    found->second.used = true;
    const std::string& bytes = *found->second.bytes;
    const bool extend_sign = type.kind != k::ElementType::Kind::kUnsigned;
    const std::size_t width = type.bits <= 8 ? 1 : 2;
    if (bytes.size() % width != 0) return bad(block, "its weights end in the middle of an element");
    const std::size_t count = bytes.size() / width;
    if (count > budget_)
      return bad(block, "its weights, shared between blocks, expand beyond 16 times the file");
    budget_ -= count;
    out.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto low = static_cast<std::uint8_t>(bytes[i * width]);
      if (width == 1)
        out[i] = extend_sign ? static_cast<std::int16_t>(static_cast<std::int8_t>(low))
                             : static_cast<std::int16_t>(low);
      else
        out[i] = static_cast<std::int16_t>(
            static_cast<std::uint16_t>(low | static_cast<std::uint8_t>(bytes[i * width + 1]) << 8));
    }
    return {};
  }

  Status all_used() const {
    for (const auto& [digest, entry] : by_digest_)
      if (!entry.used) return bad("blob " + digest, "no block uses it");
    return {};
  }

 private:
  struct Entry {
    const std::string* bytes;
    bool used = false;
  };
  std::map<std::string, Entry> by_digest_;
  std::uint64_t budget_ = 0;
};

Result<k::Operation> read_convolution(const proto::Convolution& in, const std::string& block, Blobs& blobs) {
  k::Convolution out;
  out.window = read(in.window());
  out.out_channels = in.out_channels();
  out.groups = in.groups();
  MILLRACE_ASSIGN(out.weight_type, from_proto(in.weight_type(), block + ": weight_type"));
  MILLRACE_TRY(blobs.weights(in.weights_sha256(), out.weight_type, block, out.weights.edit()));
  out.bias.assign(in.bias().begin(), in.bias().end());
  MILLRACE_ASSIGN(out.accumulator, from_proto(in.accumulator(), block + ": accumulator"));
  if (in.has_requantise()) {
    MILLRACE_ASSIGN(out.requantise, read(in.requantise(), block));
  }
  return k::Operation(std::move(out));
}

Result<k::Placement> read(proto::Block::Placement in, const std::string& block) {
  switch (in) {
    case proto::Block::BAKED:
      return k::Placement::kBaked;
    case proto::Block::LOADED:
      return k::Placement::kLoaded;
    case proto::Block::STREAMED:
      return k::Placement::kStreamed;
    default:
      return bad(block, "unknown placement");
  }
}

Result<k::Operation> read_operation(const proto::Block& in, const std::string& block, Blobs& blobs) {
  switch (in.operation_case()) {
    case proto::Block::kConvolution:
      return read_convolution(in.convolution(), block, blobs);
    case proto::Block::kMaxPool:
      return k::Operation(k::MaxPool{read(in.max_pool().window())});
    case proto::Block::kSumPool: {
      k::SumPool out;
      out.window = read(in.sum_pool().window());
      MILLRACE_ASSIGN(out.accumulator, from_proto(in.sum_pool().accumulator(), block + ": accumulator"));
      MILLRACE_ASSIGN(out.requantise, read(in.sum_pool().requantise(), block));
      return k::Operation(std::move(out));
    }
    case proto::Block::kRescale: {
      k::Rescale out;
      MILLRACE_ASSIGN(out.requantise, read(in.rescale().requantise(), block));
      return k::Operation(std::move(out));
    }
    case proto::Block::kLookup: {
      k::Lookup out;
      if (!narrow(in.lookup().table(), out.table)) return bad(block, "lookup.table is out of range");
      return k::Operation(std::move(out));
    }
    case proto::Block::kAdd: {
      k::Add out;
      out.multiplier_a = in.add().multiplier_a();
      out.multiplier_b = in.add().multiplier_b();
      out.offset = in.add().offset();
      if (in.add().shift() > 255) return bad(block, "add.shift is out of range");
      out.shift = static_cast<std::uint8_t>(in.add().shift());
      out.lowest = in.add().lowest();
      out.highest = in.add().highest();
      if (!narrow(in.add().table(), out.table)) return bad(block, "add.table is out of range");
      return k::Operation(std::move(out));
    }
    case proto::Block::kConcat:
      return k::Operation(k::Concat{});
    case proto::Block::kPermute: {
      k::Permute out;
      out.dims.assign(in.permute().dims().begin(), in.permute().dims().end());
      out.perm.assign(in.permute().perm().begin(), in.permute().perm().end());
      return k::Operation(std::move(out));
    }
    case proto::Block::kQuantise: {
      k::Quantise out;
      out.scale.assign(in.quantise().scale().begin(), in.quantise().scale().end());
      out.zero_point = in.quantise().zero_point();
      return k::Operation(std::move(out));
    }
    case proto::Block::kDequantise: {
      k::Dequantise out;
      out.scale.assign(in.dequantise().scale().begin(), in.dequantise().scale().end());
      out.zero_point = in.dequantise().zero_point();
      return k::Operation(std::move(out));
    }
    case proto::Block::kSoftmax:
      return k::Operation(k::Softmax{});
    case proto::Block::OPERATION_NOT_SET:
      break;
  }
  return bad(block, "an operation this Millrace does not know, or none");
}

}  // namespace

void to_proto(const k::ElementType& type, proto::ElementType& out) {
  switch (type.kind) {
    case k::ElementType::Kind::kSigned:
      out.set_kind(proto::ElementType::SIGNED);
      break;
    case k::ElementType::Kind::kUnsigned:
      out.set_kind(proto::ElementType::UNSIGNED);
      break;
    case k::ElementType::Kind::kBipolar:
      out.set_kind(proto::ElementType::BIPOLAR);
      break;
    case k::ElementType::Kind::kFloat32:
      out.set_kind(proto::ElementType::FLOAT32);
      break;
  }
  out.set_bits(type.bits);
}

Result<k::ElementType> from_proto(const proto::ElementType& in, const std::string& what) {
  k::ElementType out;
  switch (in.kind()) {
    case proto::ElementType::SIGNED:
      out.kind = k::ElementType::Kind::kSigned;
      break;
    case proto::ElementType::UNSIGNED:
      out.kind = k::ElementType::Kind::kUnsigned;
      break;
    case proto::ElementType::BIPOLAR:
      out.kind = k::ElementType::Kind::kBipolar;
      break;
    case proto::ElementType::FLOAT32:
      out.kind = k::ElementType::Kind::kFloat32;
      break;
    default:
      return Error(ErrorCode::kCorrupt, what + ": unknown kind of element");
  }
  const bool fits = in.bits() >= 1 && in.bits() <= 32 &&
                    (in.kind() != proto::ElementType::BIPOLAR || in.bits() == 1) &&
                    (in.kind() != proto::ElementType::FLOAT32 || in.bits() == 32);
  if (!fits)
    return Error(ErrorCode::kCorrupt,
                 what + ": " + std::to_string(in.bits()) + " bits do not go with its kind");
  out.bits = static_cast<std::uint8_t>(in.bits());
  return out;
}

void to_proto(const k::Program& program, proto::ProgramFile& out) {
  out.set_schema_version(kSchemaVersion);
  auto& body = *out.mutable_program();
  body.set_name(program.name);
  for (const auto& tensor : program.tensors) {
    auto& t = *body.add_tensors();
    t.set_name(tensor.name);
    to_proto(tensor.type, *t.mutable_type());
    copy(tensor.shape, *t.mutable_shape());
    copy(tensor.scale, *t.mutable_scale());
    t.set_zero_point(tensor.zero_point);
  }
  copy(program.inputs, *body.mutable_inputs());
  copy(program.outputs, *body.mutable_outputs());
  std::map<std::string, std::string> blobs;
  for (const auto& block : program.blocks) {
    auto& b = *body.add_blocks();
    b.set_name(block.name);
    for (const auto& node : block.nodes) b.add_nodes(node);
    copy(block.inputs, *b.mutable_inputs());
    copy(block.outputs, *b.mutable_outputs());
    std::visit(BlockWriter(b, blobs), block.operation);
    if (block.placement == k::Placement::kLoaded) b.set_placement(proto::Block::LOADED);
    if (block.placement == k::Placement::kStreamed) b.set_placement(proto::Block::STREAMED);
  }
  for (auto& [digest, bytes] : blobs) {
    auto& blob = *out.add_blobs();
    blob.set_sha256(digest);
    blob.set_data(std::move(bytes));
  }
}

Result<k::Program> from_proto(const proto::ProgramFile& in) {
  MILLRACE_TRY(check_schema(in.schema_version(), "program"));
  Blobs blobs;
  MILLRACE_TRY(blobs.open(in));
  k::Program out;
  out.name = in.program().name();
  out.tensors.reserve(static_cast<std::size_t>(in.program().tensors_size()));
  for (const auto& tensor : in.program().tensors()) {
    auto& t = out.tensors.emplace_back();
    t.name = tensor.name();
    MILLRACE_ASSIGN(t.type, from_proto(tensor.type(), "program: tensor " + t.name));
    t.shape.assign(tensor.shape().begin(), tensor.shape().end());
    t.scale.assign(tensor.scale().begin(), tensor.scale().end());
    t.zero_point = tensor.zero_point();
  }
  out.inputs.assign(in.program().inputs().begin(), in.program().inputs().end());
  out.outputs.assign(in.program().outputs().begin(), in.program().outputs().end());
  out.blocks.reserve(static_cast<std::size_t>(in.program().blocks_size()));
  for (const auto& block : in.program().blocks()) {
    auto& b = out.blocks.emplace_back();
    b.name = block.name();
    b.nodes.assign(block.nodes().begin(), block.nodes().end());
    b.inputs.assign(block.inputs().begin(), block.inputs().end());
    b.outputs.assign(block.outputs().begin(), block.outputs().end());
    MILLRACE_ASSIGN(b.operation, read_operation(block, "block " + b.name, blobs));
    MILLRACE_ASSIGN(b.placement, read(block.placement(), "block " + b.name));
  }
  MILLRACE_TRY(blobs.all_used());
  if (const std::string wrong = k::validate(out); !wrong.empty())
    return Error(ErrorCode::kCorrupt, "program: " + wrong);
  return out;
}

std::vector<std::byte> encode_program(const k::Program& program) {
  proto::ProgramFile file;
  to_proto(program, file);
  return to_bytes(file);
}

Result<k::Program> decode_program(std::span<const std::byte> bytes) {
  proto::ProgramFile file;
  if (!from_bytes(bytes, file))
    return Error(ErrorCode::kCorrupt, "program: not a serialised program (program.proto)");
  return from_proto(file);
}

std::string program_digest(const k::Program& program) {
  return sha256_hex(encode_program(program));
}

}  // namespace millrace::runtime::plan
