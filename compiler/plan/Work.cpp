// What each instruction does in all: operations, bytes, and on a CPU the pieces of a copy. Relies
// on regions' operations having the dims of the model.
#include "compiler/graph/Flops.h"
#include "compiler/plan/Arena.h"
#include "compiler/plan/PlanBuilder.h"
#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;

namespace tenon::plan {
namespace {

/// Bytes of a copy that one thread does at once, and those that are worth waking threads for.
constexpr int64_t kGrainBytes = 64 << 10, kMinParallelBytes = 512 << 10;

} // namespace

/// The sum, or kNone where it is not known or too long to be worth its place.
engine::ExprId PlanBuilder::addKnown(engine::ExprId left, engine::ExprId right) {
  constexpr size_t mostTerms = 256;
  bool isKnown = left != engine::kNone && right != engine::kNone &&
                 plan.exprs.program(left).size() + plan.exprs.program(right).size() < mostTerms;
  return isKnown ? plan.exprs.add(left, right) : engine::kNone;
}

engine::ExprId PlanBuilder::flopsOf(tn::RegionOp region) {
  llvm::MapVector<AffineExpr, int64_t> counts;
  region.walk([&](Operation *op) { ++counts[tn::flopsOf(op)]; });
  engine::ExprId sum = plan.exprs.constant(0);
  for (auto [flops, count] : counts) {
    engine::ExprId all = engine::kNone;
    if (flops && sizes.isBound(flops)) {
      all = plan.exprs.mul(sizes.translate(flops), plan.exprs.constant(count));
    }
    sum = addKnown(sum, all);
  }
  return sum;
}

void PlanBuilder::addBytes(engine::Instruction &instruction) {
  engine::ExprId bytes = plan.exprs.constant(0);
  for (uint32_t buffer : instruction.buffers) {
    bytes = addKnown(bytes, plan.buffers[buffer].size);
  }
  instruction.bytesMoved = bytes;
}

/// Threads share a copy in pieces where it is large.
void PlanBuilder::addPieces(engine::Instruction &move) {
  engine::ExprId groups =
      plan.exprs.floorDiv(move.sizes[0], plan.exprs.constant(kMinParallelBytes));
  engine::ExprId pieces =
      plan.exprs.mul(groups, plan.exprs.constant(kMinParallelBytes / kGrainBytes));
  move.grid = plan.exprs.max(plan.exprs.constant(1), pieces);
}

/// A region's operations are those of its step that moves most, and of the fallback that does.
void PlanBuilder::addFlops(std::vector<engine::Instruction> &instructions) {
  std::vector<int64_t> symbols = layOutCommon(plan).symbols;
  auto bytesOf = [&](const engine::Instruction &instruction) {
    return instruction.bytesMoved == engine::kNone
               ? 0
               : engine::evaluate(plan.exprs.program(instruction.bytesMoved), symbols).value_or(0);
  };
  std::map<std::pair<size_t, bool>, engine::Instruction *> largest;
  for (auto [instruction, origin] : llvm::zip(instructions, origins)) {
    if (instruction.kind == engine::InstructionKind::Size) {
      continue;
    }
    engine::Instruction *&most = largest[{origin.region, instruction.isFallback}];
    most = !most || bytesOf(instruction) > bytesOf(*most) ? &instruction : most;
    instruction.flops = plan.exprs.constant(0);
  }
  for (auto [index, region] : llvm::enumerate(block->getOps<tn::RegionOp>())) {
    for (bool isFallback : {false, true}) {
      if (auto most = largest.find({index, isFallback}); most != largest.end()) {
        most->second->flops = flopsOf(region);
      }
    }
  }
}

void PlanBuilder::addWork(std::vector<engine::Instruction> &instructions) {
  for (engine::Instruction &instruction : instructions) {
    bool isMove = instruction.kind == engine::InstructionKind::Copy;
    if (!instruction.buffers.empty()) {
      addBytes(instruction);
    }
    if (isMove && instruction.device == engine::kHost) {
      addPieces(instruction);
    }
  }
  addFlops(instructions);
}

} // namespace tenon::plan
