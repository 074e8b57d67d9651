// Estimates bytes, work and time of a group of operations as one kernel.
// Relies on getDims for symbolic shapes; an unknown size counts as one element.
#include "compiler/dispatch/Cost.h"

#include "compiler/dispatch/Occupancy.h"
#include "compiler/dispatch/OpKinds.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// Operations that one element of these functions takes in vector form.
constexpr double kTranscendentalWork = 12;
constexpr double kDivisionWork = 4;
constexpr double kRowWork = 6;
constexpr int64_t kLargestRepresentative = 128;

int64_t product(ArrayRef<int64_t> values) {
  int64_t result = 1;
  for (int64_t value : values) {
    result *= value;
  }
  return result;
}

} // namespace

SmallVector<int64_t> representativeSymbols(ModuleOp module) {
  SmallVector<int64_t> values;
  for (const tn::Symbol &symbol : tn::SymbolList(module).symbols()) {
    values.push_back(std::clamp(kLargestRepresentative, symbol.min, symbol.max));
  }
  return values;
}

CostModel::CostModel(ModuleOp module, const target::Target &deviceProfile)
    : device(deviceProfile), symbols(representativeSymbols(module)) {}

int64_t CostModel::countOf(ArrayRef<AffineExpr> dims) const {
  int64_t count = 1;
  for (AffineExpr dim : dims) {
    std::optional<int64_t> value = dim ? tn::evaluate(dim, symbols) : std::nullopt;
    if (!value || llvm::MulOverflow(count, *value, count)) {
      return 1;
    }
  }
  return count;
}

int64_t CostModel::bytesOf(Value value) const {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  int64_t bits = element.isIntOrFloat() ? std::max(8u, element.getIntOrFloatBitWidth()) : 8;
  return countOf(tn::getDims(value.getType())) * bits / 8;
}

double CostModel::workOf(Operation *op) const {
  if (op->getNumResults() == 0) {
    return 0;
  }
  double count = countOf(tn::getDims(op->getResult(0).getType()));
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case([&](tn::MatmulOp matmul) {
        tn::Dims a = tn::getDims(matmul.getA().getType());
        AffineExpr depth = a[a.size() - (matmul.getTransposeA() ? 2 : 1)];
        return 2 * count * countOf(depth);
      })
      .Case([&](tn::ConvOp conv) {
        ArrayRef<int64_t> weight = cast<RankedTensorType>(conv.getWeight().getType()).getShape();
        return 2 * count * product(weight.drop_front());
      })
      .Case([&](tn::AttentionOp attention) {
        double scores = static_cast<double>(countOf(tn::getDims(attention.getK().getType())));
        tn::Dims q = tn::getDims(attention.getQ().getType());
        AffineExpr queries = q[attention.getHeadsInner()[0] ? 1 : 2];
        return 4 * scores * countOf(queries);
      })
      .Case([&](tn::PagedAttentionOp attention) {
        AffineExpr table = tn::getDims(attention.getPages().getType())[1];
        double keys = countOf(table) * countOf(tn::getDims(attention.getKeys().getType())[2]);
        return 4 * keys * countOf(tn::getDims(attention.getQ().getType()));
      })
      .Case<tn::ExpOp, tn::LogOp, tn::TanhOp, tn::ErfOp, tn::SigmoidOp, tn::SiluOp, tn::GeluOp,
            tn::SoftplusOp, tn::EluOp, tn::PowOp, tn::SinOp, tn::CosOp>(
          [&](Operation *) { return kTranscendentalWork * count; })
      .Case<tn::DivOp, tn::SqrtOp, tn::RsqrtOp, tn::ReciprocalOp, tn::ModOp>(
          [&](Operation *) { return kDivisionWork * count; })
      .Default([&](Operation *other) {
        if (other->hasTrait<tn::TnStoredForm>()) {
          return 0.0;
        }
        if (other->hasTrait<tn::TnRowWise>()) {
          return kRowWork * countOf(tn::getDims(other->getOperand(0).getType()));
        }
        return count;
      });
}

double narrowRate(Operation *op, const target::Target &cpu) {
  if (cpu.isGpu() || !op->hasTrait<tn::TnContraction>() || op->getNumOperands() < 2) {
    return 1;
  }
  Type element = getElementTypeOrSelf(op->getOperand(1));
  if (isa<tn::PagedAttentionOp>(op) && element.isInteger(8)) {
    return 1; // codes become floats
  }
  bool isRounded = op->getOperand(0).getDefiningOp<tn::RoundBlocksOp>() != nullptr;
  return isRounded || element.isInteger(8) ? cpu.byteRate : element.isBF16() ? cpu.bf16Rate : 1;
}

/// Operations a second of the unit that computes `op`.
double CostModel::peakOf(Operation *op, bool isGenerated) const {
  if (!op->hasTrait<tn::TnContraction>()) {
    return device.peak;
  }
  if (!device.isGpu()) {
    return device.peak * narrowRate(op, device);
  }
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  bool isHalf = element.isF16() || element.isBF16();
  double generated = isHalf ? device.generatedHalfPeak : device.generatedPeak;
  double library = isHalf ? device.halfPeak : device.peak;
  return isGenerated ? std::min(generated, library) : library;
}

/// Bytes a second that a kernel with a matrix product moves at most; others are not held back.
double CostModel::productRate(ArrayRef<Operation *> ops, bool isGenerated) const {
  bool isHeldBack = device.isGpu() && llvm::any_of(ops, llvm::IsaPred<tn::MatmulOp>);
  return !isHeldBack   ? std::numeric_limits<double>::max()
         : isGenerated ? device.generatedBandwidth
                       : device.productBandwidth;
}

/// Tells the operands of `op`, of which `times` elements are computed, how often they are read.
void CostModel::countReads(Operation *op, double times, Reads &reads) const {
  double result = std::max<int64_t>(countOf(tn::getDims(op->getResult(0).getType())), 1);
  for (Value operand : op->getOperands()) {
    double own = countOf(tn::getDims(operand.getType()));
    if (isa<tn::ConcatOp, tn::PadOp>(op)) {
      reads[operand].apart += times * std::min(1.0, own / result);
    } else if (isMovement(op, device)) {
      reads[operand].apart += times;
    } else {
      double together = op->hasTrait<tn::TnElementwise>() ? times : own;
      reads[operand].together = std::max(reads[operand].together, together);
    }
  }
}

/// Bytes that `ops` read of a value from outside: of a slice or a gather, only what it takes.
int64_t CostModel::bytesRead(Value value, ArrayRef<Operation *> ops) const {
  int64_t taken = 0;
  for (Operation *op : ops) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (operand.get() != value) {
        continue;
      }
      bool takesPart =
          isa<tn::SliceOp>(op) || (isa<tn::GatherOp>(op) && operand.getOperandNumber() == 0);
      if (!takesPart) {
        return bytesOf(value);
      }
      taken += bytesOf(op->getResult(0));
    }
  }
  return std::min(taken, bytesOf(value));
}

Cost CostModel::costOf(ArrayRef<Operation *> ops, bool isGenerated) const {
  llvm::DenseSet<Operation *> inside(ops.begin(), ops.end());
  llvm::SmallSetVector<Value, 8> read;
  Reads reads;
  Cost cost;
  cost.launches = 1;
  double seconds = 0;
  for (Operation *op : llvm::reverse(ops)) {
    double count = std::max<int64_t>(countOf(tn::getDims(op->getResult(0).getType())), 1);
    Readers readers = reads.lookup(op->getResult(0));
    // What leaves the kernel is computed once, what is read inside once for each place.
    double times = readers.together + readers.apart;
    bool escapes =
        llvm::any_of(op->getUsers(), [&](Operation *user) { return !inside.contains(user); });
    if (times == 0 || escapes) {
      times = std::max(readers.together, count) + readers.apart;
    }
    countReads(op, times, reads);
    double work = workOf(op) * times / count;
    cost.work += work;
    seconds += work / peakOf(op, isGenerated);
  }
  for (Operation *op : ops) {
    for (Value operand : op->getOperands()) {
      if (!inside.contains(operand.getDefiningOp())) {
        read.insert(operand);
      }
    }
    for (Value result : op->getResults()) {
      bool isWritten =
          llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); });
      if (isWritten) {
        cost.bytes += bytesOf(result);
      }
    }
  }
  int64_t written = cost.bytes;
  for (Value value : read) {
    cost.bytes += bytesRead(value, ops);
  }
  bool fitsCache = cost.bytes <= device.cacheBytes * static_cast<int64_t>(device.cores);
  double bandwidth = std::min(fitsCache ? device.cacheBandwidth : device.memoryBandwidth,
                              productRate(ops, isGenerated));
  double compute = seconds, unhindered = std::max(cost.bytes / bandwidth, compute);
  seconds = unhindered;
  Occupancy occupancy = occupancyOf(ops, *this);
  if (occupancy.readRate < 1 || occupancy.spilled > 0) {
    double reading = (cost.bytes - written) / bandwidth / occupancy.readRate;
    double putAside = occupancy.spilled / device.memoryBandwidth;
    seconds = std::max(unhindered, reading + written / bandwidth + putAside);
  }
  cost.microseconds = (seconds + device.launchSeconds) * 1e6;
  cost.bytesMicroseconds = (seconds > unhindered ? seconds : cost.bytes / bandwidth) * 1e6;
  cost.workMicroseconds = compute * 1e6;
  cost.lostMicroseconds = (seconds - unhindered) * 1e6;
  cost.registers = occupancy.registers;
  cost.occupancy = occupancy.percent;
  return cost;
}

Cost costOfRegion(Block &body, const target::Target &target, bool isGenerated) {
  CostModel costs(body.getParentOp()->getParentOfType<ModuleOp>(), target);
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator()) {
    // Carried along, they are no operations of the kernel.
    if (!isa<tn::ConstantOp>(op)) {
      ops.push_back(&op);
    }
  }
  return costs.costOf(ops, isGenerated);
}

CostModel::BothWays CostModel::compare(ArrayRef<Operation *> producers,
                                       ArrayRef<Operation *> consumers, bool isGenerated) const {
  BothWays ways{costOf(producers), Cost()};
  ways.apart += costOf(consumers);
  SmallVector<Operation *> both(producers);
  both.append(consumers.begin(), consumers.end());
  ways.fused = costOf(both, isGenerated);
  return ways;
}

} // namespace tenon::dispatch
