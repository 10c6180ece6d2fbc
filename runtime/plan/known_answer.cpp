#include "runtime/plan/known_answer.hpp"

#include <cstdint>
#include <cstring>

namespace millrace::runtime::plan {
namespace {

/// The random numbers of SplitMix64. The distributions of <random> may differ between standard libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::int32_t between(std::int32_t lowest, std::int32_t highest) {
    const auto count = static_cast<std::uint64_t>(std::int64_t{highest} - lowest + 1);
    return static_cast<std::int32_t>(lowest + static_cast<std::int64_t>((next() >> 32U) * count >> 32U));
  }

 private:
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31U);
  }

  std::uint64_t state_;
};

template <class T>
void store(std::vector<std::byte>& bytes, std::uint64_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof value, &value, sizeof value);
}

}  // namespace

bool has_known_inputs(const std::string& datatype) {
  return datatype == "FP32" || datatype == "INT8" || datatype == "UINT8" || datatype == "INT16" ||
         datatype == "UINT16";
}

std::vector<std::vector<std::byte>> known_inputs(const Deployment& deployment) {
  const KnownAnswer& known = *deployment.known_answer;
  Random random(known.seed);
  std::vector<std::vector<std::byte>> tensors;
  for (std::size_t i = 0; i < deployment.model.inputs.size(); ++i) {
    const TensorSignature& signature = deployment.model.inputs[i];
    const KnownAnswer::Input& input = known.inputs[i];
    std::vector<std::byte>& bytes = tensors.emplace_back(signature.bytes());
    for (std::uint64_t element = 0; element < signature.elements(); ++element) {
      const std::int32_t value = random.between(input.lowest, input.highest);
      switch (datatype_bytes(signature.datatype)) {
        case 1:
          store(bytes, element, static_cast<std::uint8_t>(value));
          break;
        case 2:
          store(bytes, element, static_cast<std::uint16_t>(value));
          break;
        default:
          store(bytes, element, static_cast<float>(value) * input.step);
      }
    }
  }
  return tensors;
}

}  // namespace millrace::runtime::plan
