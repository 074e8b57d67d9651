// The faults of the program `tenon_faulty`, which is the tool but for them. TENON_PLANTED names one: of
// test/random/Faults.cpp, or of those below. Relies on nothing but tests running that program.
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

/// What is planted where a phase ends: an end of the process, or a module that does not verify.
void damage(const std::string &name, pipeline::Phase phase, ModuleOp module) {
  if (phase != pipeline::Phase::Normalize) {
    return;
  }
  module.walk([&](tn::SoftmaxOp op) {
    if (name == "crash") {
      std::abort();
    }
    if (name == "invalid") {
      op->setOperands(ValueRange());
    }
  });
}

} // namespace

void plant(pipeline::CompileOptions &options) {
  const char *variable = std::getenv("TENON_PLANTED");
  std::string name = variable ? variable : "";
  if (name == "wrong-pattern") {
    options.extraPasses.push_back({"wrong-pattern", wrongPattern});
    return;
  }
  options.afterPhase = [name](pipeline::Phase phase, ModuleOp module) {
    damage(name, phase, module);
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
