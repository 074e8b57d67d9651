// Several kernels in one launch: each has blocks of its own, one after another. Relies on the parts
// not reading each other's results, since nothing orders their blocks.
#include "compiler/codegen/cuda/pointwise/Schedule.h"
#include "compiler/codegen/cuda/pointwise/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// `block` is numbered from the first part's first.
void emitChoice(ElementEmitter &emitter, ArrayRef<Part> parts, const Index &block) {
  if (parts.size() == 1) {
    return parts.front().emit(emitter, block);
  }
  KernelFrame &kernel = emitter.kernel;
  OpBuilder &builder = kernel.builder;
  Value number = kernel.math.value(block), count = kernel.math.value(kernel.size(parts[0].blocks));
  Value isFirst =
      arith::CmpIOp::create(builder, kernel.location, arith::CmpIPredicate::ult, number, count);
  scf::IfOp choice = scf::IfOp::create(builder, kernel.location, isFirst, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(choice.thenBlock());
  emitter.openScope();
  parts.front().emit(emitter, block);
  emitter.closeScope();
  builder.setInsertionPointToStart(choice.elseBlock());
  emitter.openScope();
  Value rest = arith::SubIOp::create(builder, kernel.location, number, count);
  emitChoice(emitter, parts.drop_front(), {rest, 0, 1, true});
  emitter.closeScope();
}

} // namespace

void emitParts(RegionBuilder &region, ArrayRef<Part> parts, unsigned threads, bool &hasFailed) {
  KernelFrame kernel(region, threads);
  ElementEmitter emitter(kernel);
  emitChoice(emitter, parts, kernel.block());
  AffineExpr blocks = parts.front().blocks;
  for (const Part &part : parts.drop_front()) {
    blocks = blocks + part.blocks;
  }
  kernel.finish(blocks);
  hasFailed |= emitter.hasFailed();
}

void emitBundle(RegionBuilder &region, ArrayRef<KernelRoots> kernels, bool &hasFailed) {
  unsigned firstTemporary = region.source.getNumArguments() + region.source.getNumResults();
  SmallVector<const KernelRoots *> last;
  for (const KernelRoots &kernel : kernels) {
    bool comesFirst = !kernel.nest && llvm::any_of(kernel.roots, [&](const Root &root) {
      return root.buffer >= firstTemporary || startsNest(root.tensor);
    });
    if (!comesFirst) {
      last.push_back(&kernel);
      continue;
    }
    emitPointsKernel(region, kernel, hasFailed);
    markStored(region, kernel);
  }
  SmallVector<Part> parts;
  for (const KernelRoots *kernel : last) {
    parts.push_back(kernel->nest ? nestPart(region, *kernel, tuning::kBundleThreads)
                                 : pointsPart(region, *kernel, tuning::kBundleThreads));
  }
  emitParts(region, parts, tuning::kBundleThreads, hasFailed);
}

} // namespace tenon::codegen::cuda
