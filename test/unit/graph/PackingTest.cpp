// The dims of packed arrays, and how tn.pack and tn.unpack fold.
#include "compiler/graph/Tn.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace tenon::tn;

namespace {

TEST(Packing, DimsThatAreTiledAgain) {
  Packing packing{.outerDimsPerm = {1, 2, 0}, .innerDimsPos = {0, 1, 0}, .innerTiles = {64, 16, 4}};
  EXPECT_EQ(refusePacking({70, 45}, packing), "");
  EXPECT_EQ(packedShape({70, 45}, packing), (SmallVector<int64_t>{3, 16, 2, 16, 4}));
  SmallVector<PackedDim> dims = packedDims({70, 45}, packing);
  // The loop over tiles of 4 within those of 64.
  EXPECT_EQ(std::tuple(dims[1].source, dims[1].level, dims[1].step, dims[1].extent),
            std::tuple(0, 1, 4, 64));
  EXPECT_FALSE(dims[1].isPadded());
  EXPECT_TRUE(dims[2].isPadded());
}

class PackFold : public testing::Test {
protected:
  PackFold() { context.loadDialect<TnDialect>(); }

  Value weight(ArrayRef<int64_t> shape) {
    RankedTensorType type = RankedTensorType::get(shape, builder.getF32Type());
    return WeightOp::create(builder, builder.getUnknownLoc(), type, "w");
  }
  Value pack(Value value, const Packing &packing) {
    return PackOp::create(builder, builder.getUnknownLoc(), value, packing);
  }
  static Value folded(Value value) {
    SmallVector<OpFoldResult> results;
    bool isFolded = succeeded(value.getDefiningOp()->fold(results)) && !results.empty();
    return isFolded ? cast<Value>(results.front()) : Value();
  }

  MLIRContext context;
  OpBuilder builder{&context};
  OwningOpRef<ModuleOp> module = [&] {
    OwningOpRef<ModuleOp> made = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(made->getBody());
    return made;
  }();
};

TEST_F(PackFold, UnpackingWhatWasPackedSoGivesItBack) {
  Packing panels{.outerDimsPerm = {1, 0}, .innerDimsPos = {1}, .innerTiles = {32}};
  Packing others{.outerDimsPerm = {0, 1}, .innerDimsPos = {0}, .innerTiles = {32}};
  Value matrix = weight({8, 8}), packed = pack(matrix, panels);
  Location location = builder.getUnknownLoc();
  EXPECT_EQ(folded(UnpackOp::create(builder, location, matrix.getType(), packed, panels)), matrix);
  EXPECT_FALSE(folded(UnpackOp::create(builder, location, matrix.getType(), packed, others)));
  EXPECT_FALSE(folded(packed));
}

TEST_F(PackFold, WhatMovesNothingIsNone) {
  Packing none{.outerDimsPerm = {0, 1}, .innerDimsPos = {}, .innerTiles = {}};
  Value matrix = weight({8, 9});
  EXPECT_EQ(folded(pack(matrix, none)), matrix);
  EXPECT_EQ(
      folded(UnpackOp::create(builder, builder.getUnknownLoc(), matrix.getType(), matrix, none)),
      matrix);
}

} // namespace
