// What leaves the loop over the vectors of a strip, and what must stay.
#include "compiler/codegen/cpu/strips/HoistUniform.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// The operations of one name within the loop, after hoisting, of a body that may use buffers
/// %sums, %places and %y, the row %r and the column %c.
int64_t leftInLoop(llvm::StringRef name, const std::string &body) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                      memref::MemRefDialect, scf::SCFDialect>();
  std::string text =
      "func.func @f(%sums: memref<4xf32>, %places: memref<4xindex>, %y: memref<4x64xf32>, "
      "%r: index, %from: index, %to: index, %step: index) {\n"
      "scf.for %c = %from to %to step %step {\n" +
      body + "\n}\nreturn\n}";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  EXPECT_TRUE(module) << text;
  scf::ForOp loop;
  module->walk([&](scf::ForOp found) { loop = found; });
  hoistUniform(loop);
  int64_t count = 0;
  loop.walk([&](Operation *op) { count += op->getName().getStringRef() == name; });
  return count;
}

TEST(HoistUniform, TakesStatisticsOfARowOut) {
  std::string body = "%s = memref.load %sums[%r] : memref<4xf32>\n"
                     "%l = math.log %s : f32\n"
                     "memref.store %l, %y[%r, %c] : memref<4x64xf32>";
  EXPECT_EQ(leftInLoop("memref.load", body), 0);
  EXPECT_EQ(leftInLoop("math.log", body), 0);
  EXPECT_EQ(leftInLoop("memref.store", body), 1);
}

TEST(HoistUniform, LeavesWhatTheLoopWritesOrChecks) {
  // The element that the loop itself changes.
  EXPECT_EQ(leftInLoop("memref.load", "%v = memref.load %y[%r, %r] : memref<4x64xf32>\n"
                                      "memref.store %v, %y[%r, %c] : memref<4x64xf32>"),
            1);
  // A different element in each step.
  EXPECT_EQ(leftInLoop("memref.load", "%v = memref.load %sums[%c] : memref<4xf32>\n"
                                      "memref.store %v, %y[%r, %c] : memref<4x64xf32>"),
            1);
  // A place that was read: whether it lies within the buffer may be asked in between.
  EXPECT_EQ(leftInLoop("memref.load", "%p = memref.load %places[%r] : memref<4xindex>\n"
                                      "%v = memref.load %sums[%p] : memref<4xf32>\n"
                                      "memref.store %v, %y[%r, %c] : memref<4x64xf32>"),
            1);
  // Division may fail, and does not where there are no steps.
  EXPECT_EQ(leftInLoop("arith.divsi", "%q = arith.divsi %r, %from : index\n"
                                      "%v = memref.load %sums[%q] : memref<4xf32>\n"
                                      "memref.store %v, %y[%r, %c] : memref<4x64xf32>"),
            1);
}

} // namespace
} // namespace tenon::codegen::cpu
