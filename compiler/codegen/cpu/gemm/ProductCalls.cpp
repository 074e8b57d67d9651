// One call each: sizes become words of 64 bits, and kernels of few columns are chosen where that
// many suffice.
#include "compiler/codegen/cpu/gemm/ProductCalls.h"

#include "compiler/codegen/cpu/gemm/PanelPacking.h"
#include "compiler/graph/Invariance.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

void callProduct(const IndexMath &math, func::FuncOp kernel, const Product &product) {
  auto call = [&](const IndexMath &in, int64_t columns) {
    Value accumulate = product.accumulate
                           ? in.builder.createOrFold<arith::ExtUIOp>(
                                 in.location, in.builder.getI64Type(), product.accumulate)
                           : in.toI64(in.constant(0));
    std::string symbol = kernel->hasAttr(tn::kInvariant) ? invariantSymbol(product.type, columns)
                                                         : anyRowsSymbol(product.type, columns);
    callSupport(in, kernel, symbol,
                {product.a, in.toI64(product.lda), product.b, in.toI64(product.ldb), product.c,
                 in.toI64(product.ldc), in.toI64(product.k), in.toI64(product.rows), accumulate});
  };
  bool isNarrowed = product.type == ProductType::F32 || product.type == ProductType::U8S8;
  if (!product.columns || !isNarrowed) {
    return call(math, kPanel);
  }
  std::optional<int64_t> known = getConstantIntValue(product.columns);
  OpBuilder::InsertionGuard guard(math.builder);
  for (int64_t columns : kNarrowColumns) {
    if (known && *known <= columns) {
      return call(math, columns);
    }
    if (!known) {
      Value suffices = arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::sle,
                                             product.columns, math.constant(columns));
      scf::IfOp choice =
          scf::IfOp::create(math.builder, math.location, suffices, /*withElse=*/true);
      OpBuilder then = choice.getThenBodyBuilder();
      call(IndexMath(then, math.location), columns);
      math.builder.setInsertionPointToStart(choice.elseBlock());
    }
  }
  call(math, kPanel);
}

void callPackTransposed(const IndexMath &math, func::FuncOp kernel, Value from, Value stride,
                        Value to, Value k, Value count) {
  callSupport(math, kernel, kPackTransposed,
              {from, math.toI64(stride), to, math.toI64(k), math.toI64(count)});
}

void callPackRows(const IndexMath &math, func::FuncOp kernel, int64_t elements, Value from,
                  Value stride, Value to, Value depth) {
  callSupport(math, kernel, packRowsSymbol(elements),
              {from, math.toI64(stride), to, math.toI64(depth)});
}

} // namespace tenon::codegen::cpu
