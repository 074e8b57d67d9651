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

/// 1 where the size, which is one of `all`, is in a range, else 0; empty where it always is.
Program within(const Program &size, const SizeRange &all, const SizeRange &taken) {
  Program result;
  if (taken.least > all.least) {
    result = atLeast(size, taken.least);
  }
  if (taken.most < all.most) {
    bool isSecond = !result.empty();
    append(result, {{ExprOp::Constant, 1}});
    append(result, atLeast(size, taken.most + 1));
    append(result, {{ExprOp::Sub}});
    if (isSecond) {
      append(result, {{ExprOp::Mul}});
    }
  }
  return result;
}

} // namespace

void limitSteps(MutableArrayRef<RegionStep> steps, AffineExpr size, const SizeRange &all,
                ArrayRef<SizeRange> taken) {
  Program count = programOf(size), isTaken;
  for (const SizeRange &range : taken) {
    bool isFirst = isTaken.empty();
    append(isTaken, within(count, all, range));
    if (!isFirst) {
      append(isTaken, {{ExprOp::Add}});
    }
  }
  if (isTaken.empty()) {
    return; // for all sizes
  }
  for (RegionStep &step : steps) {
    Program &work = step.call.empty() ? step.grid : step.sizes.front();
    append(work, isTaken);
    work.push_back({ExprOp::Mul});
  }
}

} // namespace tenon::codegen::cuda
