// Every operator that the importer knows has a generator that makes nodes, or a reason.
#include "test/random/Operators.h"
#include "compiler/frontend/onnx/OpTable.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon::random {
namespace {

std::set<std::string> withReason() {
  std::set<std::string> names;
  for (const Missing &missing : operatorsWithoutGenerator()) {
    names.insert(missing.name);
  }
  return names;
}

TEST(OperatorsTest, EveryRowHasAGeneratorOrAReason) {
  std::set<std::string> known = withReason();
  for (const Operator &one : operators()) {
    known.insert(one.name);
  }
  onnx::OpTable table;
  for (const auto &entry : table.operators()) {
    const char *name = entry.second.front()->name;
    EXPECT_TRUE(known.count(name)) << name << " has neither a generator nor a reason";
  }
}

TEST(OperatorsTest, EveryGeneratorMakesNodes) {
  for (const Operator &one : operators()) {
    bool isMade = false;
    std::string refusal;
    for (uint64_t seed = 1; seed < 60 && !isMade; ++seed) {
      Sketch sketch(seed, false);
      isMade = one.make(sketch);
      refusal = sketch.refusal();
    }
    EXPECT_TRUE(isMade) << one.name << ": " << refusal;
  }
}

TEST(OperatorsTest, ASeedIsAModel) {
  for (uint64_t seed : {1, 2, 3}) {
    EXPECT_EQ(makeModel(seed, false).bytes, makeModel(seed, false).bytes);
  }
}

} // namespace
} // namespace tenon::random
