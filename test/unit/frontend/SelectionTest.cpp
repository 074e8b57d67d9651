// Sizes that data decides: symbols of their own, one for all that ask for the same.
// Relies on the printed form of `tn` types.
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

namespace tenon::onnx::test {
namespace {

using Selection = ImportFixture;

const Message kRows = valueInfo("x", kFloat, {std::string("n"), 3});
const Message kOther = valueInfo("z", kFloat, {std::string("n"), 3});

size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(Selection, ACountIsASymbolBoundByTheNumberOfElements) {
  std::string text = moduleOf(oneNode(node("NonZero", {"x"}, {"y"}), {kRows}, 17));
  EXPECT_HAS(text, "#tn.symbol<\"n\", 1, 65536>, #tn.symbol<\"#y\", 0, 196608>");
  EXPECT_HAS(text, "tn.take_first");
  EXPECT_HAS(text, "tensor<2x?xi64, #tn.shape<()[s0, s1] -> (2, s1)>>");
}

TEST_F(Selection, EqualConditionsSelectEqualNumbers) {
  std::string text =
      moduleOf(model(graph({{node("NonZero", {"x"}, {"a"}), node("NonZero", {"x"}, {"b"}),
                             node("Add", {"a", "b"}, {"y"})},
                            {kRows},
                            {Message().text(1, "y")},
                            {}})));
  EXPECT_EQ(1u, countOf(text, "tn.take_first"));
}

TEST_F(Selection, DifferentConditionsAreNotKnownToSelectEqualNumbers) {
  Result<ImportResult> result =
      import(model(graph({{node("NonZero", {"x"}, {"a"}), node("NonZero", {"z"}, {"b"}),
                           node("Add", {"a", "b"}, {"y"})},
                          {kRows, kOther},
                          {Message().text(1, "y")},
                          {}})));
  ASSERT_TRUE(result) << result.status().toString();
  ASSERT_EQ(1u, result->gaps.size());
  EXPECT_EQ("Add", result->gaps[0].opType);
}

TEST_F(Selection, AConditionThatIsKnownMakesAConstantSize) {
  std::string text =
      moduleOf(model(graph({{node("Compress", {"x", "c"}, {"y"}, {attrInt("axis", 1)})},
                            {kRows},
                            {Message().text(1, "y")},
                            {rawTensor("c", kBool, {3}, std::string("\1\0\1", 3))}})));
  EXPECT_HAS_NOT(text, "tn.take_first");
  EXPECT_HAS(text, "-> (s0, 2)");
}

} // namespace
} // namespace tenon::onnx::test
