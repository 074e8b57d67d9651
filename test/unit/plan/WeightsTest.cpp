// The table of weights: equal arrays once, generated ones made only when written, bools one a byte.
#include "compiler/plan/Weights.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

using namespace mlir;
using tenon::Bytes;
using tenon::Status;
using tenon::plan::WeightTable;
namespace tn = tenon::tn;

namespace {

class WeightsTest : public ::testing::Test {
protected:
  WeightsTest() { context.loadDialect<tn::TnDialect>(); }

  void parse(llvm::StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    for (Operation &op : *module->getBody()) {
      indices.push_back(table.add(&op));
    }
  }

  std::vector<char> read(uint32_t index) {
    std::vector<char> bytes;
    Status status = table.source(2)(index, [&](Bytes piece) {
      const char *data = reinterpret_cast<const char *>(piece.data());
      bytes.insert(bytes.end(), data, data + piece.size());
      return Status::ok();
    });
    EXPECT_TRUE(status.isOk()) << status.toString();
    EXPECT_EQ(bytes.size(), table.list()[index].bytes);
    return bytes;
  }

  MLIRContext context;
  tn::WeightStore store;
  WeightTable table{store};
  OwningOpRef<ModuleOp> module;
  std::vector<uint32_t> indices;
};

TEST_F(WeightsTest, EqualArraysAreHeldOnce) {
  store.addOwned("a", {1, 2, 3, 4}, "test");
  store.addOwned("b", {1, 2, 3, 4}, "test");
  store.addOwned("c", {1, 2, 3, 5}, "test");
  parse(R"(
    %a = tn.weight "a" : tensor<4xi8>
    %b = tn.weight "b" : tensor<4xi8>
    %c = tn.weight "c" : tensor<4xi8>
    %p = tn.pack %a {permutation = array<i64: 0>, rows = 0 : i64, panel = 32 : i64, groups = 1 : i64} : (tensor<4xi8>) -> tensor<1x1x32xi8>
  )");
  EXPECT_EQ(indices, (std::vector<uint32_t>{0, 0, 1, 2}));
  EXPECT_EQ(read(1), (std::vector<char>{1, 2, 3, 5}));
  std::vector<char> packed = read(2);
  EXPECT_EQ(std::vector<char>(packed.begin(), packed.begin() + 5),
            (std::vector<char>{1, 2, 3, 4, 0}));
  std::vector<tenon::plan::WeightForm> forms = table.forms();
  ASSERT_EQ(forms.size(), 2u);
  EXPECT_EQ(std::tuple(forms[0].arrays, forms[0].bytes, forms[0].sourceBytes), std::tuple(2u, 8u, 8u));
  // Made from a weight that the first form has counted.
  EXPECT_EQ(std::tuple(forms[1].arrays, forms[1].bytes, forms[1].sourceBytes), std::tuple(1u, 32u, 0u));
  std::vector<tenon::plan::WeightForm> alone = table.forms({2});
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].sourceBytes, 4u);
}

TEST_F(WeightsTest, SamplesThatMatchAreNotEnough) {
  std::vector<char> first(10000, 7);
  std::vector<char> second = first;
  second[3000] = 8;
  store.addOwned("a", first, "test");
  store.addOwned("b", second, "test");
  parse(R"(
    %a = tn.weight "a" : tensor<10000xi8>
    %b = tn.weight "b" : tensor<10000xi8>
  )");
  EXPECT_EQ(indices, (std::vector<uint32_t>{0, 1}));
}

TEST_F(WeightsTest, GeneratedWeightsAreMadeWhenWritten) {
  int made = 0;
  store.addGenerated(
      "g", 3,
      [&](uint64_t, uint64_t, char *out) {
        ++made;
        std::copy_n("xyz", 3, out);
      },
      "seeded");
  parse(R"(
    %g = tn.weight "g" : tensor<3xi8>
    %h = tn.weight "g" : tensor<3xi8>
  )");
  EXPECT_EQ(indices, (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(made, 0);
  EXPECT_EQ(read(0), (std::vector<char>{'x', 'y', 'z'}));
  EXPECT_EQ(made, 1);
}

TEST_F(WeightsTest, LargeGeneratedWeightsAreMadeInParts) {
  constexpr uint64_t kBytes = (5 << 20) + 12;
  std::atomic<uint64_t> made = 0;
  store.addGenerated(
      "g", kBytes,
      [&](uint64_t begin, uint64_t size, char *out) {
        made += size;
        EXPECT_EQ(0u, begin % 4);
        for (uint64_t i = 0; i < size; i += 4) {
          uint32_t value = static_cast<uint32_t>((begin + i) / 4 * 2654435761u);
          std::memcpy(out + i, &value, 4);
        }
      },
      "seeded");
  parse(R"(
    %g = tn.weight "g" : tensor<1310723xi32>
  )");
  std::vector<char> bytes = read(0);
  ASSERT_EQ(kBytes, bytes.size());
  EXPECT_EQ(kBytes, made);
  for (uint64_t i = 0; i < kBytes / 4; ++i) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    ASSERT_EQ(static_cast<uint32_t>(i * 2654435761u), value) << i;
  }
}

TEST_F(WeightsTest, ConstantsOfBoolsAndSplats) {
  parse(R"(
    %a = tn.constant dense<[true, false, true]> : tensor<3xi1> : tensor<3xi1>
    %b = tn.constant dense<true> : tensor<2xi1> : tensor<2xi1>
    %c = tn.constant dense<258> : tensor<2xi16> : tensor<2xi16>
  )");
  EXPECT_EQ(read(0), (std::vector<char>{1, 0, 1}));
  EXPECT_EQ(read(1), (std::vector<char>{1, 1}));
  EXPECT_EQ(read(2), (std::vector<char>{2, 1, 2, 1}));
}

} // namespace
