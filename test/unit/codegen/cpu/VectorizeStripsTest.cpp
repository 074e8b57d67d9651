// Which copies become loops.
#include "compiler/codegen/cpu/strips/VectorizeStrips.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Whether loops stand for the copy of %a to the buffer of that name, which is of the same type.
bool hasLoops(const std::string &to) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<affine::AffineDialect, arith::ArithDialect, func::FuncDialect,
                      linalg::LinalgDialect, memref::MemRefDialect, scf::SCFDialect,
                      vector::VectorDialect>();
  std::string text = "func.func @f(%a: memref<4x64xf32>, %b: memref<4x64xf32>) {\n"
                     "memref.copy %a, " +
                     to + " : memref<4x64xf32> to memref<4x64xf32>\nreturn\n}";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  EXPECT_TRUE(module) << text;
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  EXPECT_TRUE(succeeded(vectorizeStrips(function, /*lanes=*/8)));
  EXPECT_TRUE(function.getOps<memref::CopyOp>().empty());
  return !function.getOps<scf::ForOp>().empty();
}

TEST(VectorizeStrips, CopiesToAnotherBuffer) { EXPECT_TRUE(hasLoops("%b")); }

TEST(VectorizeStrips, CopiesNothingToItself) { EXPECT_FALSE(hasLoops("%a")); }

} // namespace
} // namespace tenon::codegen::cpu
