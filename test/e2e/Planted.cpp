// The faults of the program `tenon_faulty`, which is the tool but for them. TENON_PLANTED names
// one: of test/random/Faults.cpp, or of those below. Relies on nothing but tests running that
// program.
#include "tools/debug/Planted.h"

#include "compiler/graph/Tn.h"
#include "compiler/opt/Match.h"
#include "test/random/Faults.h"

#include <cstdlib>

using namespace mlir;

namespace tenon::debug {
namespace {

/// Wrong only for operands of rank 3: of many tries that are right, one is not.
struct WrongProduct : OpRewritePattern<tn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::MulOp op, PatternRewriter &rewriter) const override {
    if (cast<RankedTensorType>(op.getType()).getRank() != 3) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<tn::AddOp>(op, op.getType(), op.getA(), op.getB());
    return success();
  }
};

LogicalResult wrongPattern(ModuleOp module, tn::WeightStore &) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<WrongProduct>(module.getContext());
  return opt::runPatterns(module, std::move(patterns));
}

LogicalResult crash(ModuleOp module, tn::WeightStore &) {
  module.walk([](tn::SoftmaxOp) { std::abort(); });
  return success();
}

/// Leaves a module that does not verify.
LogicalResult invalid(ModuleOp module, tn::WeightStore &) {
  module.walk([](tn::SoftmaxOp op) { op->setOperands(ValueRange()); });
  return success();
}

constexpr opt::Pass kWrongPasses[] = {
    {"wrong-pattern", wrongPattern}, {"crash", crash}, {"invalid", invalid}};

} // namespace

void plant(pipeline::CompileHooks &hooks) {
  const char *variable = std::getenv("TENON_PLANTED");
  std::string name = variable ? variable : "";
  for (const opt::Pass &pass : kWrongPasses) {
    if (pass.name == name) {
      hooks.extraPasses.push_back(pass);
      return;
    }
  }
  hooks.afterPhase = [name](pipeline::Phase phase, ModuleOp module) {
    // "code:NAME" is planted behind the last look at the module, as a fault of code generation is.
    bool isLate = name.starts_with("code:");
    if (isLate && phase == pipeline::Phase::Dispatch) {
      random::plantFault(name.substr(5), pipeline::Phase::Optimize, module);
    }
    if (!isLate) {
      random::plantFault(name, phase, module);
    }
  };
}

} // namespace tenon::debug
