// Quantised ONNX models made from a shape: the same bytes every time.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace millrace::tests {

/// A net and the bytes of its ONNX file.
struct SmallNet {
  std::string name;
  std::string onnx;
};
inline std::ostream& operator<<(std::ostream& out, const SmallNet& net) {
  return out << net.name;
}

/// Fully connected layers between quantisers: `widths` are the features of the input and of each layer's
/// output.
SmallNet dense_net(const std::vector<std::int64_t>& widths);

/// Two convolutions over a picture of `channels` channels; the second one's output has as many.
SmallNet picture_net(std::int64_t channels, std::int64_t height = 6, std::int64_t width = 6);

/// Integer sums that fit 16 bits as the graph's INT32 output: ConvInteger, MatMulInteger.
SmallNet convolution_sums_net();
SmallNet matrix_sums_net();

/// com.microsoft's operators behind a QLinearConv: 'QLinearAdd' adds the input, 'QLinearAveragePool' halves
/// the picture.
SmallNet quantised_operator_net(const std::string& type);

/// A convolution, an average over the picture and a float softmax.
SmallNet softmax_net();

}  // namespace millrace::tests
