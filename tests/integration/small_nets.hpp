// Makes small quantised ONNX models of given shapes. Every run makes the same bytes.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace millrace::tests {

/// A neural net: its name and the bytes of its ONNX file.
struct SmallNet {
  std::string name;
  std::string onnx;
};
inline std::ostream& operator<<(std::ostream& out, const SmallNet& net) {
  return out << net.name;
}

/// A net of fully connected layers between quantisers. `widths` are the numbers of features of the net's
/// input and of each layer's output.
SmallNet dense_net(const std::vector<std::int64_t>& widths);

/// A net of two convolutions on a picture of `channels` channels. The second convolution's output also has
/// `channels` channels.
SmallNet picture_net(std::int64_t channels, std::int64_t height = 6, std::int64_t width = 6);

/// A net of a ConvInteger or a MatMulInteger. The sums fit into 16 bits, but the model's output has the type INT32.
SmallNet convolution_sums_net();
SmallNet matrix_sums_net();

/// A QLinearConv followed by an operator of com.microsoft. The operator 'QLinearAdd' adds the net's input,
/// and 'QLinearAveragePool' halves the picture.
SmallNet quantised_operator_net(const std::string& type);

/// A net of two convolutions with a normalisation between them, and a float tail. The host computes the normalisation
/// between two cards' work, and the tail.
SmallNet host_layers_net();

/// A net of convolutions with `blocks` residual connections around a normalisation and a convolution. Only the host
/// computes the normalisation.
SmallNet residual_around_host_net(std::uint32_t blocks);

/// A net whose output changes whenever a byte of a tensor between two layers changes, with very few exceptions: three
/// convolutions in a row, then the sum of the first and the third convolution's output, then another convolution.
SmallNet residual_net();

/// A net like residual_net() with a normalisation instead of the sum. The host computes the normalisation between the
/// cards' work.
SmallNet host_between_net();

/// A net of a convolution, an average over the whole picture and a float softmax.
SmallNet softmax_net();

/// A net of a fully connected layer and an ArgMax. Its output has the type INT64.
SmallNet index_net();

}  // namespace millrace::tests
