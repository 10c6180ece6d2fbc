#include <algorithm>
#include <map>
#include <numeric>

#include "kernels/program/rearrange.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/program.pb.h"
#include "runtime/plan/proto.hpp"

namespace millrace::runtime::plan {
namespace k = kernels;

// Each struct has a function fields(), with which the class Fields converts the struct. The function must be
// declared before its first use.

void fields(Fields& io, k::ElementType& type) {
  io(type.kind, type.bits);
  if (!io.reads()) return;
  const bool is_wide = type.kind == k::ElementType::Kind::kSigned && type.bits == 64;
  const bool fits = type.bits >= 1 && (type.bits <= 32 || is_wide) &&
                    (type.kind != k::ElementType::Kind::kBipolar || type.bits == 1) &&
                    (type.kind != k::ElementType::Kind::kFloat32 || type.bits == 32);
  if (!fits) io.fail(std::to_string(type.bits) + " bits do not go with its kind");
}

static void fields(Fields& io, k::Window& window) {
  io(window.kernel_h, window.kernel_w, window.stride_h, window.stride_w, window.dilation_h, window.dilation_w,
     window.pad_top, window.pad_left, window.pad_bottom, window.pad_right, window.pad_value);
}

static void fields(Fields& io, k::Requantise& requantise) {
  io(requantise.form, requantise.multiplier, requantise.offset, requantise.shift, requantise.thresholds,
     requantise.lowest, requantise.highest, requantise.zero_point);
}

/// Lists a convolution's fields except the weights, which are blobs.
static void fields(Fields& io, k::Convolution& convolution) {
  io(convolution.window, convolution.out_channels, convolution.groups, convolution.weight_type);
  io.skip("weights_sha256");
  io(convolution.bias, convolution.accumulator, convolution.requantise);
}

static void fields(Fields& io, k::MaxPool& pool) {
  io(pool.window);
}

static void fields(Fields& io, k::SumPool& pool) {
  io(pool.window, pool.accumulator, pool.requantise);
}

static void fields(Fields& io, k::Rescale& rescale) {
  io(rescale.requantise);
}

static void fields(Fields& io, k::Lookup& lookup) {
  io(lookup.table);
}

static void fields(Fields& io, k::Add& add) {
  io(add.multiplier_a, add.multiplier_b, add.offset, add.shift, add.lowest, add.highest, add.table);
}

static void fields(Fields&, k::Concat&) {}

static void fields(Fields& io, k::Quantise& quantise) {
  io(quantise.scale, quantise.zero_point);
}

static void fields(Fields& io, k::Dequantise& dequantise) {
  io(dequantise.scale, dequantise.zero_point);
}

static void fields(Fields&, k::Softmax&) {}

static void fields(Fields& io, k::FloatAttribute& attribute) {
  io(attribute.name, attribute.integers, attribute.reals, attribute.text);
}

static void fields(Fields& io, k::FloatOperand& operand) {
  io(operand.kind, operand.shape, operand.floats, operand.integers);
}

static void fields(Fields& io, k::FloatOperator& op) {
  io(op.type, op.opset, op.attributes, op.operands, op.shape);
}

static void fields(Fields& io, k::Rearrange& rearrange) {
  io(rearrange.offset, rearrange.extents, rearrange.strides);
}

static void fields(Fields& io, k::PluginOperator& op) {
  io(op.plugin, op.library, op.runner, op.settings);
}

namespace {

/// How a Rearrange that reorders all elements is stored: the input's elements are read as the shape `dims` and
/// transposed so that axis i of the output is axis perm[i]. Without perm, the elements keep their order. Programs of
/// version 0.1 have no other kind of Rearrange, so the bytes and digests of such programs stay the same.
struct Permute {
  std::vector<std::uint32_t> dims, perm;
};

void fields(Fields& io, Permute& permute) {
  io(permute.dims, permute.perm);
}

/// Returns the axes' permutation that a Rearrange performs, or nothing if the Rearrange does something else.
std::optional<Permute> permutation_of(const k::Rearrange& r) {
  Permute out;
  std::vector<std::uint32_t> axes(r.extents.size());  // loops in the order of the input's axes
  std::iota(axes.begin(), axes.end(), 0U);
  std::sort(axes.begin(), axes.end(), [&r](auto a, auto b) { return r.strides[a] > r.strides[b]; });
  out.perm.resize(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    out.dims.push_back(r.extents[axes[i]]);
    out.perm[axes[i]] = static_cast<std::uint32_t>(i);
  }
  if (r.offset != 0 || k::transposition(out.dims, out.perm) != r) return std::nullopt;
  return out;
}

k::Rearrange rearrange_of(Fields& io, const Permute& permute) {
  std::uint64_t elements = 1;
  for (const std::uint32_t extent : permute.dims)
    elements = extent == 0 || elements > (1U << 31U) / extent ? 0 : elements * extent;
  std::vector<std::uint32_t> axes = permute.perm;
  std::sort(axes.begin(), axes.end());
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != i || axes.size() != permute.dims.size() || elements == 0) {
      io.fail("permute: perm must name every axis of dims once, and dims must not be 0 or too large");
      return {};
    }
  return k::transposition(permute.dims, permute.perm);
}

}  // namespace

static void fields(Fields& io, k::Tensor& tensor) {
  io(tensor.name, tensor.type, tensor.shape, tensor.scale, tensor.zero_point);
}

static void fields(Fields& io, k::Block& block) {
  io(block.name, block.nodes, block.inputs, block.outputs);
  std::optional<Permute> permutation;
  if (const auto* rearrange = io.reads() ? nullptr : std::get_if<k::Rearrange>(&block.operation))
    permutation = permutation_of(*rearrange);
  io.one_of(block.operation, "permute", permutation);
  if (io.reads() && permutation) block.operation = rearrange_of(io, *permutation);
  io.unless(k::Placement::kBaked, block.placement);
}

static void fields(Fields& io, k::Program& program) {
  io(program.name, program.tensors, program.inputs, program.outputs, program.blocks);
}

namespace {

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

Error bad_program(const std::string& where, const std::string& why) {
  return Error(ErrorCode::kCorrupt, "program: " + where + ": " + why);
}

/// Finds weights by digest and checks each once. Limits the size to which shared blobs may expand.
class Blobs {
 public:
  Status open(const proto::ProgramFile& file) {
    std::uint64_t total = 0;
    for (const auto& blob : file.blobs()) {
      if (sha256_hex(blob.data()) != blob.sha256())
        return bad_program("blob " + blob.sha256(), "its bytes do not match its digest");
      if (!by_digest_.emplace(blob.sha256(), Blob{&blob.data()}).second)
        return bad_program("blob " + blob.sha256(), "is used twice");
      total += blob.data().size();
    }
    budget_ = std::max<std::uint64_t>(64U << 20U, 16 * total);
    return {};
  }

  Status weights(const std::string& digest, k::ElementType type, const std::string& block,
                 std::vector<std::int16_t>& out) {
    const auto found = by_digest_.find(digest);
    if (found == by_digest_.end()) return bad_program(block, "no blob contains its weights " + digest);
    found->second.used = true;
    const std::string& bytes = *found->second.bytes;
    const bool extend_sign = type.kind != k::ElementType::Kind::kUnsigned;
    const std::size_t width = type.bits <= 8 ? 1 : 2;
    if (bytes.size() % width != 0) return bad_program(block, "its weights end in the middle of an element");
    const std::size_t count = bytes.size() / width;
    if (count > budget_)
      return bad_program(block,
                         "too many blocks share stored weights: "
                         "the weights of all blocks together exceed 16 times the size of the file");
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
      if (!entry.used) return bad_program("blob " + digest, "no block uses it");
    return {};
  }

 private:
  struct Blob {
    const std::string* bytes;
    bool used = false;
  };
  std::map<std::string, Blob> by_digest_;
  std::uint64_t budget_ = 0;
};

}  // namespace

void to_proto(const k::Program& program, proto::ProgramFile& out) {
  out.set_schema_version(kSchemaVersion);
  write(program, *out.mutable_program());
  std::map<std::string, std::string> blobs;
  for (std::size_t i = 0; i < program.blocks.size(); ++i) {
    const auto* const convolution = std::get_if<k::Convolution>(&program.blocks[i].operation);
    if (convolution == nullptr) continue;
    std::string bytes = weight_bytes(*convolution);
    std::string digest = sha256_hex(bytes);
    out.mutable_program()
        ->mutable_blocks(static_cast<int>(i))
        ->mutable_convolution()
        ->set_weights_sha256(digest);
    blobs.emplace(std::move(digest), std::move(bytes));
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
  MILLRACE_ASSIGN(auto out, read<k::Program>(in.program(), "program", ErrorCode::kCorrupt));
  for (std::size_t i = 0; i < out.blocks.size(); ++i) {
    auto* const convolution = std::get_if<k::Convolution>(&out.blocks[i].operation);
    if (convolution == nullptr) continue;
    MILLRACE_TRY(blobs.weights(in.program().blocks(static_cast<int>(i)).convolution().weights_sha256(),
                               convolution->weight_type, "block " + out.blocks[i].name,
                               convolution->weights.edit()));
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
