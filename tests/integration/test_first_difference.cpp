// Tests that `verify` names the first node at which two computations of a frame differ.
#include <gtest/gtest.h>

#include "tests/support/programs.hpp"
#include "tools/cli/verify_model.hpp"

namespace millrace::cli::test_first_difference {
namespace {

class FirstDifference : public testing::Test {
 protected:
  using Tensors = std::map<kernels::TensorIndex, Buffer>;

  /// Returns every tensor that the reference computes from a frame of zeros.
  static Tensors tensors_of(const kernels::Program& program) {
    Tensors seen;
    const std::vector<Buffer> inputs{Buffer(program.tensors[program.inputs[0]].storage_bytes())};
    const auto outputs = kernels::reference::run(
        program, inputs, [&](kernels::TensorIndex tensor, const Buffer& bytes) { seen[tensor] = bytes; });
    for (std::size_t i = 0; i < outputs.size(); ++i) seen[program.outputs[i]] = outputs[i];
    return seen;
  }

  kernels::Program program_ = tests::chain_program(3);
  Tensors wanted_ = tensors_of(program_);
};

TEST_F(FirstDifference, EqualTensorsHaveNoDifference) {
  EXPECT_FALSE(earliest_difference("part0", program_, wanted_, wanted_));
}

TEST_F(FirstDifference, NamesBlockOnnxNodesTensorAndElementOfTheEarliestDifference) {
  for (std::size_t at = 0; at < program_.blocks.size(); ++at) {
    const kernels::Block& block = program_.blocks[at];
    if (!wanted_.contains(block.outputs[0])) continue;
    Tensors got = wanted_;
    const std::size_t element = 1;
    for (std::size_t later = at; later < program_.blocks.size(); ++later) {
      const auto tensor = program_.blocks[later].outputs[0];
      if (got.contains(tensor))
        got[tensor][element * program_.tensors[tensor].type.storage_bytes()] ^= std::byte{1};
    }
    const auto found = earliest_difference("part0", program_, wanted_, got);
    ASSERT_TRUE(found) << block.name;
    EXPECT_EQ(found->partition, "part0");
    EXPECT_EQ(found->block, block.name);
    EXPECT_EQ(found->nodes, block.nodes);
    EXPECT_EQ(found->tensor, program_.tensors[block.outputs[0]].name);
    EXPECT_EQ(found->element, element);
  }
}

}  // namespace
}  // namespace millrace::cli::test_first_difference
