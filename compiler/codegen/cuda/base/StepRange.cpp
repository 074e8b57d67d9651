#include "compiler/codegen/cuda/base/StepRange.h"

#include "compiler/codegen/common/region/Programs.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using engine::ExprOp;

void append(Program &program, const Program &other) {
  program.insert(program.end(), other.begin(), other.end());
}

/// 1 where the size is at least `least`, else 0.
Program atLeast(const Program &size, int64_t least) {
  Program result = size;
  append(result,
         {{ExprOp::Constant, least}, {ExprOp::FloorDiv}, {ExprOp::Constant, 1}, {ExprOp::Min}});
  return result;
}

} // namespace

void limitSteps(MutableArrayRef<RegionStep> steps, AffineExpr size, const SizeRange &all,
                const SizeRange &taken) {
  Program count = programOf(size);
  for (RegionStep &step : steps) {
    Program &work = step.call.empty() ? step.grid : step.sizes.front();
    if (taken.least > all.least) {
      append(work, atLeast(count, taken.least));
      work.push_back({ExprOp::Mul});
    }
    if (taken.most < all.most) {
      append(work, {{ExprOp::Constant, 1}});
      append(work, atLeast(count, taken.most + 1));
      append(work, {{ExprOp::Sub}, {ExprOp::Mul}});
    }
  }
}

} // namespace tenon::codegen::cuda
