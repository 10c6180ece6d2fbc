// Tests operators that select, repeat or reorder elements, against ONNX's definition (interpret.cpp). Each operator
// stands between two convolutions, so that the dataflow's order of elements matters.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/passes/passes.hpp"
#include "interpret.hpp"
#include "kernels/program/rearrange.hpp"
#include "operator_case.hpp"

namespace millrace::tests::test_selections {
namespace {

using kernels::Program;

/// Adds a convolution with a 1x1 kernel, followed by a quantiser. `name` is the dequantised result.
void layer(OnnxModel& m, const std::string& from, std::int64_t out, std::int64_t in,
           const std::string& name) {
  m.weights(name + "_w", {out, in, 1, 1},
            random_integers(static_cast<std::size_t>(out * in), -128, 127, static_cast<unsigned>(out)),
            {0.25F});
  m.node("Conv", {from, name + "_w"}, name + "_conv");
  m.pair(name + "_conv", 32.0F, 1, name);
}

/// Compiles a model in which `add` adds an operator between two convolutions, and compares its outputs with ONNX's
/// definition. The operator reads the tensor `a` of 8 channels and 8 x 6 pixels, and makes the tensor `b` of
/// `channels` channels.
Program between_layers(const std::function<void(OnnxModel&)>& add, std::int64_t channels) {
  OnnxModel m(13);
  m.input("x", {1, 3, 8, 6});
  m.pair("x", 0.5F, 3, "xq");
  layer(m, "xq", 8, 3, "a");
  add(m);
  layer(m, "b", 4, channels, "c");
  m.output("c");
  return expect_meaning(m);
}

/// Counts the Rearrange blocks that reorder a layer's integers.
std::size_t rearrangements_between(const Program& p) {
  std::vector<bool> of_layer(p.tensors.size(), false);
  for (const kernels::Block& b : p.blocks)
    of_layer[b.outputs[0]] =
        p.tensors[b.outputs[0]].type.is_integer() && !std::holds_alternative<kernels::Quantise>(b.operation);
  return static_cast<std::size_t>(
      std::count_if(p.blocks.begin(), p.blocks.end(), [&](const kernels::Block& b) {
        return std::holds_alternative<kernels::Rearrange>(b.operation) && of_layer[b.inputs[0]];
      }));
}

void slice(OnnxModel& m, const Ints& starts, const Ints& ends, const Ints& axes, const Ints& steps) {
  m.node("Slice",
         {"a", m.int64s("starts", starts), m.int64s("ends", ends), m.int64s("axes", axes),
          m.int64s("steps", steps)},
         "b");
}

TEST(Selections, SliceOfChannelsRowsAndColumnsIsExact) {
  between_layers([](OnnxModel& m) { slice(m, {2}, {7}, {1}, {1}); }, 5);
  between_layers([](OnnxModel& m) { slice(m, {1, 0}, {-1, 4}, {2, 3}, {1, 1}); }, 8);
  between_layers([](OnnxModel& m) { slice(m, {0, 1, -100}, {8, INT64_MAX, 100}, {1, 2, -1}, {3, 2, 1}); }, 3);
}

TEST(Selections, SliceWithNegativeStepsIsExact) {
  between_layers([](OnnxModel& m) { slice(m, {-1}, {INT64_MIN}, {1}, {-1}); }, 8);
  between_layers([](OnnxModel& m) { slice(m, {100, 7}, {-100, 1}, {3, 1}, {-1, -2}); }, 3);
}

TEST(Selections, SliceWithAttributesOfOlderOperatorSetsIsExact) {
  between_layers(
      [](OnnxModel& m) {
        m.proto().mutable_opset_import(0)->set_version(9);
        m.node("Slice", {"a"}, "b");
        m.attribute("starts", Ints{1, 2});
        m.attribute("ends", Ints{7, -1});
        m.attribute("axes", Ints{1, 3});
      },
      6);
}

TEST(Selections, GatherOfOneOrSeveralEvenlySpacedIndicesIsExact) {
  between_layers(
      [](OnnxModel& m) {
        m.node("Gather", {"a", m.int64s("i", {0, 2, 4, 6, 1, 3, 5, 7})}, "b");
        m.attribute("axis", std::int64_t{1});
      },
      8);
  between_layers(
      [](OnnxModel& m) {
        m.integers("i", onnx::TensorProto::INT64, {}, {-2});
        m.node("Gather", {"a", "i"}, "row");
        m.attribute("axis", std::int64_t{2});
        m.node("Unsqueeze", {"row", m.int64s("axes", {2})}, "b");
      },
      8);
}

TEST(Selections, GatherOfAnyIndicesRunsOnTheHost) {
  OnnxModel m;
  m.input("x", {1, 8, 4, 4});
  m.pair("x", 0.5F, 3, "xq");
  m.node("Gather", {"xq", m.int64s("i", {0, 2, 3, 7})}, "y");
  m.attribute("axis", std::int64_t{1});
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 1U);
}

TEST(Selections, DepthToSpaceAndSpaceToDepthAreExactAndBecomeOneBlock) {
  for (const char* mode : {"DCR", "CRD"}) {
    const Program p = between_layers(
        [mode](OnnxModel& m) {
          m.node("DepthToSpace", {"a"}, "b");
          m.attribute("blocksize", std::int64_t{2});
          m.attribute("mode", std::string(mode));
        },
        2);
    EXPECT_EQ(rearrangements_between(p), 1U);
  }
  const Program p = between_layers(
      [](OnnxModel& m) {
        m.node("SpaceToDepth", {"a"}, "b");
        m.attribute("blocksize", std::int64_t{2});
      },
      32);
  EXPECT_EQ(rearrangements_between(p), 1U);
}

TEST(Selections, ChannelShuffleBecomesOneBlock) {
  const Program p = between_layers(
      [](OnnxModel& m) {
        m.node("Reshape", {"a", m.int64s("apart", {1, 2, 4, 8, 6})}, "groups");
        m.node("Transpose", {"groups"}, "turned");
        m.attribute("perm", Ints{0, 2, 1, 3, 4});
        m.node("Reshape", {"turned", m.int64s("joined", {1, 8, 8, 6})}, "b");
      },
      8);
  EXPECT_EQ(rearrangements_between(p), 1U);
}

TEST(Selections, NearestResizeByWholeNumbersIsExact) {
  const auto resize = [](OnnxModel& m, const char* place, const char* rounding) {
    m.floats("factors", {4}, {1, 1, 2, 3});
    m.node("Resize", {"a", "", "factors"}, "b");
    m.attribute("coordinate_transformation_mode", std::string(place));
    m.attribute("nearest_mode", std::string(rounding));
  };
  between_layers([&](OnnxModel& m) { resize(m, "asymmetric", "floor"); }, 8);
  between_layers([&](OnnxModel& m) { resize(m, "half_pixel", "round_prefer_floor"); }, 8);
  between_layers([&](OnnxModel& m) { resize(m, "pytorch_half_pixel", "round_prefer_ceil"); }, 8);
  between_layers(
      [](OnnxModel& m) {
        m.node("Resize", {"a", "", "", m.int64s("sizes", {1, 8, 16, 12})}, "b");
        m.attribute("mode", std::string("nearest"));
      },
      8);
}

TEST(Selections, ExpandAndTileAreExact) {
  between_layers(
      [](OnnxModel& m) {
        m.node("GlobalAveragePool", {"a"}, "pool");
        m.pair("pool", 32.0F, 0, "pooled");
        m.node("Expand", {"pooled", m.int64s("shape", {1, 8, 4, 3})}, "b");
      },
      8);
  between_layers([](OnnxModel& m) { m.node("Tile", {"a", m.int64s("repeats", {1, 2, 1, 3})}, "b"); }, 16);
}

TEST(Selections, SplitEqualsSlicesOfTheSameRanges) {
  // Both models compute y = Concat(last 5 channels, first 3 channels): one with Split, the other with two Slices.
  OnnxModel split(13), slices(13);
  for (OnnxModel* m : {&split, &slices}) {
    m->input("x", {1, 3, 8, 6});
    m->pair("x", 0.5F, 3, "xq");
    layer(*m, "xq", 8, 3, "a");
  }
  split.node("Split", {"a", split.int64s("sizes", {3, 5})}, "p0");
  split.last().add_output("p1");
  split.attribute("axis", std::int64_t{1});
  slices.node("Slice", {"a", slices.int64s("s0", {0}), slices.int64s("e0", {3}), slices.int64s("ax", {1})},
              "p0");
  slices.node("Slice", {"a", slices.int64s("s1", {3}), slices.int64s("e1", {8}), slices.int64s("ay", {1})},
              "p1");
  for (OnnxModel* m : {&split, &slices}) {
    m->node("Concat", {"p1", "p0"}, "joined");
    m->attribute("axis", std::int64_t{1});
    m->pair("joined", 32.0F, 1, "b");
    layer(*m, "b", 4, 8, "c");
    m->output("c");
  }
  expect_meaning(slices);
  const auto a = compile(split), b = compile(slices);
  ASSERT_TRUE(a.ok()) << a.error().message();
  ASSERT_TRUE(b.ok()) << b.error().message();
  const auto input = random_floats(3 * 8 * 6, 7);
  EXPECT_EQ(run(a->program, input), run(b->program, input));
}

TEST(Selections, RefusesSplitSizesThatDoNotAddUpToTheAxis) {
  OnnxModel m = with_image(8);
  m.node("Split", {"xq", m.int64s("sizes", {3, 4})}, "p0");
  m.last().add_output("p1");
  m.attribute("axis", std::int64_t{1});
  m.output("p0");
  expect_refused(m, {"Split 'p0'", "do not make up the 8 elements"});
}

TEST(Selections, PadOfRowsAndColumnsIsExact) {
  between_layers(
      [](OnnxModel& m) {
        m.node("Pad", {"a", m.int64s("pads", {0, 0, 1, 2, 0, 0, 0, 3})}, "padded");
        m.pair("padded", 32.0F, 1, "b");
      },
      8);
  between_layers(
      [](OnnxModel& m) {
        m.floats("value", {}, {64.0F});
        m.node("Pad", {"a", m.int64s("pads", {0, 0, 0, 1, 0, 0, 2, 0}), "value"}, "padded");
        m.pair("padded", 32.0F, 1, "b");
      },
      8);
}

TEST(Selections, PadOfChannelsAndPadsBelowZeroAreExact) {
  const auto pad = [](const Ints& pads, std::int64_t channels) {
    const Program p = between_layers(
        [&pads](OnnxModel& m) {
          m.node("Pad", {"a", m.int64s("pads", pads)}, "padded");
          m.pair("padded", 32.0F, 1, "b");
        },
        channels);
    EXPECT_EQ(count_blocks(p, "float_operator"), 0U);
  };
  pad({0, 2, 0, 0, 0, 1, 0, 0}, 11);
  pad({0, 1, 2, 1, 0, 0, 1, 2}, 9);
  pad({0, -2, 0, 0, 0, -1, 0, 0}, 5);
  pad({0, 0, -1, 2, 0, 0, 1, -3}, 8);
}

TEST(Selections, PadOfOneDimensionalDataIsExact) {
  OnnxModel m;
  m.input("x", {1, 4, 10});
  m.pair("x", 0.5F, 3, "xq");
  m.node("Pad", {"xq", m.int64s("pads", {0, 1, 3, 0, 1, 2})}, "padded");
  m.pair("padded", 0.5F, 3, "y");
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 0U);
}

TEST(Selections, PadsThatRepeatElementsAreExact) {
  for (const std::string mode : {"edge", "reflect", "wrap"})
    for (const Ints& pads :
         {Ints{0, 0, 1, 2, 0, 0, 0, 3}, Ints{0, 0, 0, 1, 0, 0, 7, 0}, Ints{0, 1, 2, 1, 0, 2, 1, 0}}) {
      SCOPED_TRACE(mode);
      const Program p = between_layers(
          [&](OnnxModel& m) {
            m.node("Pad", {"a", m.int64s("pads", pads)}, "padded");
            m.attribute("mode", mode);
            m.pair("padded", 32.0F, 1, "b");
          },
          8 + pads[1] + pads[5]);
      EXPECT_EQ(count_blocks(p, "float_operator"), 0U);
      OnnxModel row(19);
      row.input("x", {1, 4, 10});
      row.pair("x", 0.5F, 3, "xq");
      row.node("Pad", {"xq", row.int64s("pads", {0, 1, 3, 0, 1, 2})}, "padded");
      row.attribute("mode", mode);
      row.pair("padded", 0.5F, 3, "y");
      row.output("y");
      EXPECT_EQ(count_blocks(expect_meaning(row), "float_operator"), 0U);
    }
}

TEST(Selections, LinearResizesByWholeFactorsAreExact) {
  for (const std::string mode : {"half_pixel", "pytorch_half_pixel", "asymmetric"})
    for (const Ints& size : {Ints{16, 12}, Ints{24, 6}, Ints{32, 24}, Ints{4, 3}, Ints{8, 2}, Ints{16, 3}}) {
      SCOPED_TRACE(mode + " to " + std::to_string(size[0]) + "x" + std::to_string(size[1]));
      const Program p = between_layers(
          [&](OnnxModel& m) {
            m.node("Resize", {"a", "", "", m.int64s("sizes", {1, 8, size[0], size[1]})}, "resized");
            m.attribute("mode", std::string("linear"));
            m.attribute("coordinate_transformation_mode", mode);
            m.pair("resized", 16.0F, 1, "b");
          },
          8);
      EXPECT_EQ(count_blocks(p, "float_operator"), 0U);
    }
}

TEST(Selections, LinearResizeBetweenTheCornersRunsOnTheHost) {
  OnnxModel m = with_image(3);
  m.node("Resize", {"xq", "", "", m.int64s("sizes", {1, 3, 16, 14})}, "y");
  m.attribute("mode", std::string("linear"));
  m.attribute("coordinate_transformation_mode", std::string("align_corners"));
  m.output("y");
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  EXPECT_EQ(count_blocks(c->program, "float_operator"), 1U);
}

TEST(Selections, PadThatReflectsMoreElementsThanThereAreIsRefused) {
  OnnxModel m = with_image(3);
  m.node("Pad", {"xq", m.int64s("pads", {0, 0, 8, 0, 0, 0, 0, 0})}, "y");
  m.attribute("mode", std::string("reflect"));
  m.output("y");
  const auto imported = import_model(m);
  ASSERT_FALSE(imported.ok());
  EXPECT_NE(imported.error().message().find("Pad 'y': has the mode 'reflect'"), std::string::npos)
      << imported.error().message();
}

TEST(Selections, LayerReadsIntegersAfterAPadThatHasNoQuantiser) {
  const Program p = between_layers(
      [](OnnxModel& m) {
        m.node("Pad", {"a", m.int64s("pads", {0, 0, 1, 2, 0, 0, 0, 3})}, "b");
      },
      8);
  EXPECT_EQ(count_blocks(p, "float_operator"), 0U);
  EXPECT_EQ(count_blocks(p, "convolution"), 2U);
}

TEST(Selections, ConcatAlongRowsAndColumnsIsExact) {
  for (const std::int64_t axis : {2, 3, -1}) {
    const Program p = between_layers(
        [axis](OnnxModel& m) {
          m.node("Relu", {"a"}, "relu");
          m.pair("relu", 16.0F, 0, "positive");
          m.node("Concat", {"a", "positive", "a"}, "joined");
          m.attribute("axis", axis);
          m.pair("joined", 32.0F, 1, "b");
        },
        8);
    EXPECT_EQ(count_blocks(p, "float_operator"), 0U);
  }
}

TEST(Selections, ConcatAlongAMiddleAxisIsExact) {
  OnnxModel m;
  m.input("x", {1, 3, 4, 5, 2});
  m.pair("x", 0.5F, 3, "xq");
  m.node("Neg", {"xq"}, "negative");
  m.pair("negative", 0.5F, 3, "other");
  m.node("Concat", {"xq", "other"}, "joined");
  m.attribute("axis", std::int64_t{2});
  m.pair("joined", 1.0F, 0, "y");
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 0U);
}

TEST(Selections, ConcatWithAConstantIsExact) {
  const Program p = between_layers(
      [](OnnxModel& m) {
        std::vector<float> known;
        for (const std::int64_t i : random_integers(2 * 8 * 6, -100, 100, 8))
          known.push_back(static_cast<float>(i) * 16);
        m.floats("known", {1, 2, 8, 6}, known);
        m.node("Concat", {"known", "a"}, "joined");
        m.attribute("axis", std::int64_t{1});
        m.pair("joined", 32.0F, 1, "b");
      },
      10);
  EXPECT_EQ(count_blocks(p, "float_operator"), 0U);
}

TEST(Selections, PadWithAValueThatNoIntegerRepresentsRunsOnTheHost) {
  OnnxModel m = with_image(3);
  m.floats("value", {}, {0.3F});
  m.node("Pad", {"xq", m.int64s("pads", {0, 0, 1, 1, 0, 0, 1, 1}), "value"}, "y");
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m, 1e-6), "float_operator"), 1U);
}

TEST(Selections, SqueezeAndExciteMultipliesChannelsByTheirFactor) {
  for (const char* type : {"Mul", "Add"}) {
    const Program p = between_layers(
        [type](OnnxModel& m) {
          m.node("GlobalAveragePool", {"a"}, "pool");
          m.pair("pool", 32.0F, 0, "pooled");
          layer(m, "pooled", 8, 8, "excite");
          m.node(type, {"excite", "a"}, "product");
          m.pair("product", 1024.0F, 0, "b");
        },
        8);
    EXPECT_EQ(rearrangements_between(p), 1U);
  }
}

}  // namespace
}  // namespace millrace::tests::test_selections
