// Every linalg op in the form of linalg.generic, each of which StripNest turns into loops.
#include "compiler/codegen/cpu/strips/VectorizeStrips.h"

#include "compiler/codegen/cpu/strips/StripNest.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Every linalg op in the form of linalg.generic, copies included.
LogicalResult generalize(func::FuncOp function) {
  IRRewriter rewriter(function.getContext());
  SmallVector<memref::CopyOp> copies;
  function.walk([&](memref::CopyOp copy) { copies.push_back(copy); });
  for (memref::CopyOp copy : copies) {
    // A tile that is computed where its result lies is copied to itself.
    if (copy.getSource() != copy.getTarget()) {
      rewriter.setInsertionPoint(copy);
      linalg::makeMemRefCopyOp(rewriter, copy.getLoc(), copy.getSource(), copy.getTarget());
    }
    rewriter.eraseOp(copy);
  }
  SmallVector<linalg::LinalgOp> named;
  function.walk([&](linalg::LinalgOp op) {
    if (!isa<linalg::GenericOp>(op.getOperation())) {
      named.push_back(op);
    }
  });
  for (linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    if (failed(linalg::generalizeNamedOp(rewriter, op))) {
      return op->emitError("has no loop form");
    }
  }
  return success();
}

} // namespace

LogicalResult vectorizeStrips(func::FuncOp function, int64_t lanes) {
  if (failed(generalize(function))) {
    return failure();
  }
  SmallVector<linalg::GenericOp> ops;
  function.walk([&](linalg::GenericOp op) { ops.push_back(op); });
  for (linalg::GenericOp op : ops) {
    if (failed(StripNest(op, lanes).build())) {
      return failure();
    }
  }
  return success();
}

} // namespace tenon::codegen::cpu
