// Sums over ranks take the residual and the norm of whole rows behind them, where a kernel that
// does all three is faster than a message and a kernel of rows. Comes before products are asked for
// the norms in front of them, which every block of theirs would compute again.
#include "compiler/dispatch/BuildRegions.h"
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/TnRare.h"
#include "compiler/graph/TnShard.h"

#include <algorithm>

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Microseconds at least of a kernel of rows behind a message, where the cost model counts a start:
/// of 1 to 8 rows of 4,096 and 8,192 on an H200.
constexpr double kLeastOfRows = 1.7;

/// The addition of a whole tensor that alone reads the sum; null if there is none.
tn::AddOp residualOf(tn::AllReduceOp sum) {
  tn::AddOp add = sum->hasOneUse() ? dyn_cast<tn::AddOp>(*sum->user_begin()) : tn::AddOp();
  bool isWhole = add && llvm::all_of(add->getOperandTypes(),
                                     [&](Type type) { return type == sum.getY().getType(); });
  return isWhole && add->getOperand(0) != add->getOperand(1) ? add : tn::AddOp();
}

/// The only norm of it, by constants.
tn::RmsNormOp normOf(tn::AddOp add) {
  tn::RmsNormOp found;
  for (Operation *user : add->getUsers()) {
    if (tn::RmsNormOp norm = dyn_cast<tn::RmsNormOp>(user)) {
      if (found) {
        return tn::RmsNormOp();
      }
      found = norm;
    }
  }
  bool isConstant = found && found.getScale() &&
                    isa_and_nonnull<tn::WeightOp, tn::ConstantOp>(found.getScale().getDefiningOp());
  return isConstant ? found : tn::RmsNormOp();
}

double timeOf(Formation &formation, ArrayRef<Operation *> ops) {
  tn::RegionOp region = createRegion(ops, kSingle, formation.device().device());
  double microseconds = formation.kernelTimes(region);
  region.erase();
  return microseconds;
}

} // namespace

void formExchanges(Formation &formation, Block *block) {
  for (tn::AllReduceOp sum : llvm::to_vector(block->getOps<tn::AllReduceOp>())) {
    tn::AddOp add = residualOf(sum);
    tn::RmsNormOp norm = add ? normOf(add) : tn::RmsNormOp();
    if (!norm) {
      continue;
    }
    double fused = timeOf(formation, {sum, add, norm});
    double rows = std::max(formation.costs.costOf({add, norm}).microseconds, kLeastOfRows);
    double apart = timeOf(formation, {sum}) + rows;
    if (fused > apart) {
      formation.refuse(sum, add, Refusal(kTakesLonger, fused, apart));
      continue;
    }
    Group *group = formation.grouping.create(sum, kSingle, sum);
    group->reason = "a sum over ranks; what is behind it runs with it, which is the fastest";
    for (Operation *op : {add.getOperation(), norm.getOperation()}) {
      if (const Rule *rule = formation.grouping.absorbConsumer(group, op)) {
        formation.refuse(op->getOperand(0).getDefiningOp(), op, *rule);
        formation.grouping.truncate(group, 1);
        group->reason = "this operation has no strategy that fuses";
        break;
      }
    }
  }
}

} // namespace tenon::dispatch
