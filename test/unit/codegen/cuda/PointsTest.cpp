// Kernels by points, by loop nests and through tiles, on the emulated GPU: shapes at which strips
// are wide, tiles are cut off, and kernels follow each other. The table of test/ops has the ops
// themselves.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "llvm/Support/FormatVariadic.h"

namespace tenon::codegen::cuda {
namespace {

const Emitter emitPoints = byFamily({"pointwise"});

using namespace mlir;

std::string region(const char *strategy, const std::string &signature, const std::string &body,
                   const std::string &symbols = "") {
  return regionText(strategy, signature, body, symbols);
}

TEST(Points, WideStripsWithBroadcasts) {
  for (const char *element : {"f32", "f16", "i8", "f64"}) {
    std::string whole = llvm::formatv("tensor<160x1024x{0}>", element);
    std::string row = llvm::formatv("tensor<1024x{0}>", element);
    std::string column = llvm::formatv("tensor<160x1x{0}>", element);
    EXPECT_TRUE(matchesReference(
        region("elementwise",
               llvm::formatv("(%x: {0}, %r: {1}, %c: {2}) -> {0}", whole, row, column),
               llvm::formatv("%0 = tn.add %x, %r : ({0}, {1}) -> {0}\n"
                             "%1 = tn.mul %0, %c : ({0}, {2}) -> {0}\nreturn %1 : {0}",
                             whole, row, column)),
        emitPoints))
        << element;
  }
}

TEST(Points, StripsOverAllDimsWhereRowsAreOdd) {
  std::string tensor = "tensor<2048x33xf32>";
  EXPECT_TRUE(matchesReference(region("elementwise",
                                      "(%x: " + tensor + ", %y: " + tensor + ") -> " + tensor,
                                      "%0 = tn.sub %x, %y : (" + tensor + ", " + tensor + ") -> " +
                                          tensor + "\nreturn %0 : " + tensor),
                               emitPoints));
}

TEST(Points, SeveralResultsOfOneKernel) {
  std::string tensor = "tensor<300x512xf16>";
  EXPECT_TRUE(matchesReference(
      region("elementwise", "(%x: " + tensor + ") -> (" + tensor + ", " + tensor + ")",
             "%0 = tn.neg %x : " + tensor + "\n%1 = tn.sigmoid %0 : " + tensor +
                 "\nreturn %0, %1 : " + tensor + ", " + tensor),
      emitPoints));
}

TEST(Points, StripsFollowEachOtherInALargeTensor) {
  std::string tensor = "tensor<1024x1024xf64>";
  EXPECT_TRUE(matchesReference(region("elementwise", "(%x: " + tensor + ") -> " + tensor,
                                      "%0 = tn.neg %x : " + tensor + "\nreturn %0 : " + tensor),
                               emitPoints));
}

/// Places are 32-bit numbers where the ranges of the symbols allow it, else 64-bit ones.
TEST(Points, DynamicRows) {
  std::string tensor = "tensor<?x?x64xf16, #tn.shape<()[s0, s1] -> (s0, s1, 64)>>";
  for (const char *most : {"512", "1073741824"}) {
    std::string symbols =
        llvm::formatv(R"(#tn.symbol<"s0", 1, 64>, #tn.symbol<"s1", 1, {0}>)", most);
    EXPECT_TRUE(
        matchesReference(region("elementwise", "(%x: " + tensor + ") -> " + tensor,
                                "%0 = tn.silu %x : " + tensor + "\nreturn %0 : " + tensor, symbols),
                         emitPoints, {3, 47}))
        << most;
  }
}

TEST(Points, PoolsReadAlongChannels) {
  std::string x = "tensor<2x40x40x64xf16>", y = "tensor<2x20x20x64xf16>";
  EXPECT_TRUE(matchesReference(
      region("single", "(%x: " + x + ") -> " + y,
             R"(%0 = "tn.max_pool"(%x) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
                  pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, ceilMode = false,
                  channelsLast = true} : ()" +
                 x + ") -> " + y + "\nreturn %0 : " + y),
      emitPoints));
}

TEST(Transpose, TilesThatAreCutOff) {
  for (const char *element : {"f32", "f16", "i8"}) {
    std::string x = llvm::formatv("tensor<37x5x50x{0}>", element);
    std::string y = llvm::formatv("tensor<50x5x37x{0}>", element);
    std::string b = llvm::formatv("tensor<37x{0}>", element);
    std::string text =
        region("elementwise", "(%x: " + x + ", %b: " + b + ") -> " + y,
               "%0 = tn.transpose %x [2, 1, 0] : (" + x + ") -> " + y + "\n%1 = tn.add %0, %b : (" +
                   y + ", " + b + ") -> " + y + "\nreturn %1 : " + y);
    EXPECT_TRUE(matchesReference(text, emitPoints)) << element;
    EXPECT_TRUE(matchesReference(text, emitPoints, {}, 2, /*reversed=*/true)) << element;
  }
}

/// A last dim shorter than a tile: those before it fill the tile too.
TEST(Transpose, ShortLastDims) {
  for (auto [x, y, order] : {std::tuple("37x3x14x4", "4x14x3x37", "3, 2, 1, 0"),
                             std::tuple("2x40x5x7x2", "5x7x2x2x40", "2, 3, 4, 0, 1"),
                             std::tuple("21x2x1x9", "2x1x9x21", "1, 2, 3, 0")}) {
    std::string from = llvm::formatv("tensor<{0}xf16>", x),
                to = llvm::formatv("tensor<{0}xf16>", y);
    std::string text = region("elementwise", "(%x: " + from + ") -> " + to,
                              llvm::formatv("%0 = tn.transpose %x [{0}] : ({1}) -> {2}\n"
                                            "return %0 : {2}",
                                            order, from, to));
    EXPECT_TRUE(matchesReference(text, emitPoints)) << order;
    EXPECT_TRUE(matchesReference(text, emitPoints, {}, 2, /*reversed=*/true)) << order;
    llvm::Expected<std::string> ptx = emitTestPtx(text, emitPoints, target::targetOf("sm_90"));
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    EXPECT_TRUE(llvm::StringRef(*ptx).contains(".shared")) << order;
  }
}

TEST(Nest, UpdatesOfOnePlaceComeInOrder) {
  std::string x = "tensor<6x40xf32>", i = "tensor<30x40xi64>", u = "tensor<30x40xf32>";
  EXPECT_TRUE(
      matchesReference(region("single", "(%x: " + x + ", %i: " + i + ", %u: " + u + ") -> " + x,
                              "%0 = tn.scatter_elements <none> %x, %i, %u {axis = 0 : i64} : (" +
                                  x + ", " + i + ", " + u + ") -> " + x + "\nreturn %0 : " + x),
                       emitPoints));
}

/// A step of a cache: queries of another dims than the keys that are appended, and values. The keys
/// are rotated where they are written.
std::string appendText() {
  return region("bundle",
                "(%x: tensor<2x1x4x2x8xf16>, %c: tensor<1x1x1x8xf16>, %at: tensor<1x1x1x1xi64>, "
                "%k: tensor<2x4x20x16xf16>, %v: tensor<2x4x20x16xf16>) -> "
                "(tensor<2x1x4x1x8xf16>, tensor<2x4x20x16xf16>, tensor<2x4x20x16xf16>)",
                R"(
    %0 = tn.slice %x {starts = affine_map<() -> (0, 0, 0, 1, 0)>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x1x4x2x8xf16>) -> tensor<2x1x4x1x8xf16>
    %1 = tn.mul %0, %c : (tensor<2x1x4x1x8xf16>, tensor<1x1x1x8xf16>) -> tensor<2x1x4x1x8xf16>
    %2 = tn.neg %1 : tensor<2x1x4x1x8xf16>
    %3 = tn.concat %2, %1 {axis = 3 : i64} : (tensor<2x1x4x1x8xf16>, tensor<2x1x4x1x8xf16>) -> tensor<2x1x4x2x8xf16>
    %4 = tn.reshape %3 : (tensor<2x1x4x2x8xf16>) -> tensor<2x4x1x16xf16>
    %5 = tn.broadcast %at : (tensor<1x1x1x1xi64>) -> tensor<2x4x1x16xi64>
    %6 = tn.scatter_elements <none> %k, %5, %4 {axis = 2 : i64} : (tensor<2x4x20x16xf16>, tensor<2x4x1x16xi64>, tensor<2x4x1x16xf16>) -> tensor<2x4x20x16xf16>
    %7 = tn.reshape %x : (tensor<2x1x4x2x8xf16>) -> tensor<2x4x1x16xf16>
    %8 = tn.broadcast %at : (tensor<1x1x1x1xi64>) -> tensor<2x4x1x16xi64>
    %9 = tn.scatter_elements <add> %v, %8, %7 {axis = 2 : i64} : (tensor<2x4x20x16xf16>, tensor<2x4x1x16xi64>, tensor<2x4x1x16xf16>) -> tensor<2x4x20x16xf16>
    %10 = tn.exp %0 : tensor<2x1x4x1x8xf16>
    return %10, %6, %9 : tensor<2x1x4x1x8xf16>, tensor<2x4x20x16xf16>, tensor<2x4x20x16xf16>)");
}

Emitter counted(size_t steps) {
  return [steps](RegionBuilder &region) -> FailureOr<bool> {
    FailureOr<bool> done = emitPoints(region);
    EXPECT_EQ(region.code.steps.size(), steps);
    EXPECT_TRUE(region.code.temporaries.empty());
    return done;
  };
}

RunOptions appendingAt(int64_t place, bool inPlace) {
  RunOptions options;
  options.edit = [=](llvm::MutableArrayRef<reference::Tensor> inputs) {
    inputs[2].as<int64_t>()[0] = place;
  };
  if (inPlace) {
    options.overwritten = {{1, 3}, {2, 4}};
  }
  return options;
}

/// Two copies, which a plan leaves out where it overwrites, and one kernel for the rest.
TEST(Bundle, AppendsToCaches) {
  for (int64_t place : {0, 7, 19, -1}) {
    for (bool inPlace : {false, true}) {
      EXPECT_TRUE(matchesReference(appendText(), counted(3), appendingAt(place, inPlace)))
          << place << inPlace;
    }
  }
}

/// Blocks of the last part that are missing are seen.
TEST(Bundle, APlantedFaultIsFound) {
  Emitter wrong = [](RegionBuilder &region) {
    FailureOr<bool> done = emitPoints(region);
    RegionStep &last = region.code.steps.back();
    last.grid.push_back({engine::ExprOp::Constant, 1});
    last.grid.push_back({engine::ExprOp::Sub, 0});
    return done;
  };
  EXPECT_FALSE(matchesReference(appendText(), wrong, appendingAt(7, true)));
}

/// What is costly and read by a nest more than once is stored before.
TEST(Nest, ReadsWhatItsLoopsAskForOnce) {
  std::string x = "tensor<6x40xf32>", i = "tensor<3x40xi64>", u = "tensor<3x40xf32>";
  EXPECT_TRUE(matchesReference(
      region("single", "(%x: " + x + ", %i: " + i + ", %u: " + u + ") -> " + x,
             "%0 = tn.tanh %u : " + u +
                 "\n%1 = tn.scatter_elements <none> %x, %i, %0 {axis = 0 : i64} : (" + x + ", " +
                 i + ", " + u + ") -> " + x + "\nreturn %1 : " + x),
      counted(2)));
}

/// Elements that no block computes are seen.
TEST(Points, APlantedFaultIsFound) {
  Emitter wrong = [](RegionBuilder &region) {
    FailureOr<bool> done = emitPoints(region);
    region.code.steps.front().grid = {{engine::ExprOp::Constant, 1}};
    return done;
  };
  std::string tensor = "tensor<64x64xf32>";
  EXPECT_FALSE(matchesReference(region("elementwise", "(%x: " + tensor + ") -> " + tensor,
                                       "%0 = tn.neg %x : " + tensor + "\nreturn %0 : " + tensor),
                                wrong));
}

} // namespace
} // namespace tenon::codegen::cuda
