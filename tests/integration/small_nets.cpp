#include "small_nets.hpp"

#include <cmath>
#include <random>

#include "onnx_model.hpp"

namespace millrace::tests {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr int kUint8 = onnx::TensorProto::UINT8;
constexpr float kWeightScale = 0.01F;

std::vector<std::int64_t> random_values(std::int64_t count, std::int64_t range, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (auto& value : values)
    value = static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(2 * range + 1)) - range;
  return values;
}

/// Returns an output scale that is large enough for a sum of `products` products. Each product multiplies an input (up
/// to about 127 steps of the scale `input`) by a weight (up to 127 steps of the scale `weight`).
float scale_of_sums(float input, float weight, std::int64_t products) {
  return input * weight * 73.F * std::sqrt(static_cast<float>(products)) * 1.7F;
}

/// Builds a net of float operators between quantisers, layer by layer.
class Layers {
 public:
  explicit Layers(const Shape& input, float weight_scale = kWeightScale) : weight_scale_(weight_scale) {
    model_.input("x", input);
    now_ = model_.pair("x", scale_, 0, "in");
  }

  void dense(std::int64_t from, std::int64_t to) {
    const std::string name = next("dense");
    const std::string w = model_.weights(name + "_w", {from, to}, random_values(from * to, 127, count_),
                                         std::vector<float>(static_cast<std::size_t>(to), weight_scale_), 1);
    requantise(model_.node("MatMul", {now_, w}, name), from);
  }

  void convolution(std::int64_t from, std::int64_t to, std::int64_t kernel) {
    const std::string name = next("conv");
    const std::int64_t products = from * kernel * kernel;
    const std::string w =
        model_.weights(name + "_w", {to, from, kernel, kernel}, random_values(to * products, 127, count_),
                       std::vector<float>(static_cast<std::size_t>(to), weight_scale_));
    model_.node("Conv", {now_, w}, name);
    model_.attribute("kernel_shape", Shape{kernel, kernel});
    model_.attribute("pads", Shape(4, kernel / 2));
    requantise(name, products);
  }

  /// A tensor between two layers, and its scale.
  struct Place {
    std::string tensor;
    float scale = 0;
  };
  Place here() const { return {now_, scale_}; }

  /// Adds the tensor of an earlier place.
  void add(const Place& earlier) {
    const std::string sum = model_.node("Add", {now_, earlier.tensor}, next("sum"));
    scale_ = 0.75F * (scale_ + earlier.scale);
    now_ = model_.pair(sum, scale_, 0, sum + ".q");
  }

  /// Adds a normalisation, which only the host computes.
  void normalise(std::int64_t channels) {
    const std::string name = next("normal");
    const auto each = static_cast<std::size_t>(channels);
    model_.node("InstanceNormalization",
                {now_, model_.floats(name + "_gain", {channels}, std::vector<float>(each, 0.75F)),
                 model_.floats(name + "_shift", {channels}, std::vector<float>(each, 0.25F))},
                name);
    scale_ = 1.0F / 32;
    now_ = model_.pair(name, scale_, 0, name + ".q");
  }

  /// Adds a residual connection: the sum of a convolution of the normalised tensor and the tensor itself.
  void residual_around_normalisation(std::int64_t channels) {
    const std::string before = now_;
    normalise(channels);
    convolution(channels, channels, 1);
    const std::string name = next("sum");
    model_.node("Add", {now_, before}, name);
    now_ = model_.pair(name, scale_, 0, name + ".q");
  }

  /// Ends the net in float arithmetic without a quantiser.
  void float_tail() {
    model_.node("Add", {now_, model_.floats("tail_addend", {}, {0.5F})}, "tail_sum");
    now_ = model_.node("Sigmoid", {"tail_sum"}, "tail");
  }

  void average() {
    model_.node("GlobalAveragePool", {now_}, "average");
    scale_ /= 4;
    now_ = model_.pair(model_.node("Flatten", {"average"}, "flat"), scale_, 0, "average.q");
  }

  void softmax() {
    now_ = model_.node("Softmax", {now_}, "softmax");
    model_.attribute("axis", std::int64_t{1});
  }

  void largest_index() {
    now_ = model_.node("ArgMax", {now_}, "index");
    model_.attribute("axis", std::int64_t{1});
  }

  std::string bytes() {
    model_.output(now_);
    return model_.bytes();
  }

 private:
  std::string next(const char* kind) { return kind + std::to_string(++count_); }

  void requantise(const std::string& sums, std::int64_t products) {
    scale_ = scale_of_sums(scale_, weight_scale_, products) / 3.F;
    now_ = model_.pair(sums, scale_, 0, sums + ".q");
  }

  OnnxModel model_;
  std::string now_;
  float scale_ = 2.F / 127;
  float weight_scale_;
  std::uint32_t count_ = 0;
};

/// Adds a 1x1 QLinearConv with four input and four output channels. Its input is "x", with the scale "x_s"
/// and the zero point "x_z". The scale and zero point of its output are "c_s" and "c_z".
void quantised_convolution(OnnxModel& m) {
  m.floats("x_s", {}, {0.02F});
  m.integers("x_z", kUint8, {}, {121});
  m.int8s("w", {4, 4, 1, 1}, random_values(16, 127, 9));
  m.floats("w_s", {}, {kWeightScale});
  m.int8s("w_z", {}, {0});
  m.floats("c_s", {}, {0.03F});
  m.integers("c_z", kUint8, {}, {130});
  m.node("QLinearConv", {"x", "x_s", "x_z", "w", "w_s", "w_z", "c_s", "c_z"}, "c");
  m.attribute("kernel_shape", Shape{1, 1});
}

}  // namespace

SmallNet dense_net(const std::vector<std::int64_t>& widths) {
  Layers net({1, widths.front()});
  std::string name = "Dense" + std::to_string(widths.front());
  for (std::size_t i = 1; i < widths.size(); ++i) {
    net.dense(widths[i - 1], widths[i]);
    name += "To" + std::to_string(widths[i]);
  }
  return {name, net.bytes()};
}

SmallNet picture_net(std::int64_t channels, std::int64_t height, std::int64_t width) {
  Layers net({1, channels, height, width});
  net.convolution(channels, 16, 3);
  net.convolution(16, channels, 1);
  return {"PictureOf" + std::to_string(channels) + "Channels", net.bytes()};
}

SmallNet convolution_sums_net() {
  OnnxModel m;
  m.input("x", {1, 1, 3, 3}, kUint8);
  m.integers("w", kUint8, {1, 1, 2, 2}, {7, 0, 31, 12});
  m.integers("x_z", kUint8, {}, {3});
  m.output(m.node("ConvInteger", {"x", "w", "x_z"}, "y"));
  return {"ConvIntegerSums", m.bytes()};
}

SmallNet matrix_sums_net() {
  OnnxModel m;
  m.input("x", {1, 4}, kUint8);
  m.int8s("w", {4, 3}, random_values(12, 30, 4));
  m.output(m.node("MatMulInteger", {"x", "w"}, "y"));
  return {"MatMulIntegerSums", m.bytes()};
}

SmallNet quantised_operator_net(const std::string& type) {
  OnnxModel m;
  m.input("x", {1, 4, 8, 8}, kUint8);
  quantised_convolution(m);
  m.floats("y_s", {}, {0.04F});
  m.integers("y_z", kUint8, {}, {119});
  if (type == "QLinearAdd") {
    m.node(type, {"c", "c_s", "c_z", "x", "x_s", "x_z", "y_s", "y_z"}, "y", "com.microsoft");
  } else {
    m.node(type, {"c", "c_s", "c_z", "y_s", "y_z"}, "y", "com.microsoft");
    m.attribute("kernel_shape", Shape{2, 2});
    m.attribute("strides", Shape{2, 2});
  }
  m.output("y");
  auto* domain = m.proto().add_opset_import();
  domain->set_domain("com.microsoft");
  domain->set_version(1);
  return {type, m.bytes()};
}

SmallNet host_layers_net() {
  Layers net({1, 4, 8, 8});
  net.convolution(4, 4, 3);
  net.normalise(4);
  net.convolution(4, 4, 1);
  net.average();
  net.float_tail();
  return {"HostLayers", net.bytes()};
}

SmallNet residual_around_host_net(std::uint32_t blocks) {
  Layers net({1, 4, 8, 8});
  net.convolution(4, 4, 3);
  for (std::uint32_t i = 0; i < blocks; ++i) net.residual_around_normalisation(4);
  net.convolution(4, 4, 3);
  return {"ResidualAroundHost" + std::to_string(blocks), net.bytes()};
}

SmallNet residual_net() {
  // With these weights, the tensors before and after a convolution have about the same scale. So the sum shows a change
  // of either of its inputs.
  Layers net({1, 4, 6, 6}, 0.0028F);
  net.convolution(4, 8, 3);
  const auto first = net.here();
  net.convolution(8, 8, 3);
  net.convolution(8, 8, 3);
  net.add(first);
  net.convolution(8, 8, 3);
  return {"Residual", net.bytes()};
}

SmallNet host_between_net() {
  Layers net({1, 4, 6, 6});
  net.convolution(4, 8, 3);
  net.normalise(8);
  net.convolution(8, 8, 3);
  return {"HostBetween", net.bytes()};
}

SmallNet softmax_net() {
  Layers net({1, 4, 8, 8});
  net.convolution(4, 4, 1);
  net.average();
  net.softmax();
  return {"FloatSoftmax", net.bytes()};
}

SmallNet index_net() {
  Layers net({1, 8});
  net.dense(8, 5);
  net.largest_index();
  return {"Index", net.bytes()};
}

}  // namespace millrace::tests
