// Estimates bytes, work and time of a group of operations as one kernel.
// Relies on getDims for symbolic shapes; an unknown size counts as one element.
#include "compiler/dispatch/Cost.h"

#include "compiler/graph/Tn.h"
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

CostModel::CostModel(ModuleOp module, const DeviceProfile &deviceProfile)
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
      .Case<tn::ExpOp, tn::LogOp, tn::TanhOp, tn::ErfOp, tn::SigmoidOp, tn::SiluOp, tn::GeluOp,
            tn::SoftplusOp, tn::EluOp, tn::PowOp, tn::SinOp, tn::CosOp>(
          [&](Operation *) { return kTranscendentalWork * count; })
      .Case([](tn::UnpackOp) { return 0.0; })
      .Case<tn::DivOp, tn::SqrtOp, tn::RsqrtOp, tn::ReciprocalOp, tn::ModOp>(
          [&](Operation *) { return kDivisionWork * count; })
      .Default([&](Operation *other) {
        if (other->hasTrait<tn::TnRowWise>()) {
          return kRowWork * countOf(tn::getDims(other->getOperand(0).getType()));
        }
        return count;
      });
}

Cost CostModel::costOf(ArrayRef<Operation *> ops) const {
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  llvm::SmallSetVector<Value, 8> read;
  Cost cost;
  cost.launches = 1;
  for (Operation *op : ops) {
    cost.work += workOf(op);
    for (Value operand : op->getOperands()) {
      if (!inside.contains(operand.getDefiningOp())) {
        read.insert(operand);
      }
    }
    for (Value result : op->getResults()) {
      bool escapes =
          llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); });
      if (escapes) {
        cost.bytes += bytesOf(result);
      }
    }
  }
  for (Value value : read) {
    cost.bytes += bytesOf(value);
  }
  bool fitsCache = cost.bytes <= device.cacheBytes * static_cast<int64_t>(device.cores);
  double bandwidth = fitsCache ? device.cacheBandwidth : device.memoryBandwidth;
  double seconds = std::max(cost.bytes / bandwidth, cost.work / device.peak) + device.launchSeconds;
  cost.microseconds = seconds * 1e6;
  return cost;
}

} // namespace tenon::dispatch
