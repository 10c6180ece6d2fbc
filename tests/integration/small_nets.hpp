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

/// Fully connected layers between quantisers. `widths` are the numbers of features of the input and of each
/// layer's output.
SmallNet dense_net(const std::vector<std::int64_t>& widths);

/// Two convolutions on a picture of `channels` channels. The second one's output has as many.
SmallNet picture_net(std::int64_t channels, std::int64_t height = 6, std::int64_t width = 6);

/// ConvInteger and MatMulInteger whose sums fit 16 bits but leave the graph as INT32.
SmallNet convolution_sums_net();
SmallNet matrix_sums_net();

/// An operator of com.microsoft behind a QLinearConv: 'QLinearAdd' adds the input, 'QLinearAveragePool'
/// halves the picture.
SmallNet quantised_operator_net(const std::string& type);

/// A convolution, an average over the picture and a float softmax.
SmallNet softmax_net();

}  // namespace millrace::tests
