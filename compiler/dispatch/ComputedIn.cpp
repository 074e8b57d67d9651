// Relies on the names of the model's operators in locations, as quantization is expanded by now.
#include "compiler/dispatch/ComputedIn.h"

#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Float8.h"
#include "compiler/graph/NarrowIntegers.h"
#include "compiler/graph/NodeOrigin.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mlir;

namespace tenon::dispatch {
namespace {

constexpr int64_t kWideBytes = 4;

/// As people write it: u8, s8, i32, f32, bf16.
std::string textOf(Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  if (element.isBF16()) {
    return "bf16";
  }
  StringRef kind = isa<FloatType>(element)       ? "f"
                   : element.isUnsignedInteger() ? "u"
                   : element.isInteger(8)        ? "s"
                                                 : "i";
  return llvm::formatv("{0}{1}", kind, width);
}

/// The operands whose products are summed; none for a root that is no such operation.
SmallVector<Value> factorsOf(Operation *root) {
  if (tn::MatmulOp product = dyn_cast_or_null<tn::MatmulOp>(root)) {
    return {product.getA(), product.getB()};
  }
  if (tn::ConvOp conv = dyn_cast_or_null<tn::ConvOp>(root)) {
    return {conv.getX(), conv.getWeight()};
  }
  if (tn::AttentionOp attention = dyn_cast_or_null<tn::AttentionOp>(root)) {
    return {attention.getQ(), attention.getK(), attention.getV()};
  }
  if (tn::PagedAttentionOp attention = dyn_cast_or_null<tn::PagedAttentionOp>(root)) {
    return {attention.getQ(), attention.getKeys(), attention.getValues()};
  }
  return {};
}

/// What an engine holds of an operand: rows of blocks, or itself.
Value storedOf(Value factor) {
  tn::DecodeRowsOp rows = factor.getDefiningOp<tn::DecodeRowsOp>();
  return rows ? rows.getRows() : factor;
}

} // namespace

std::string computedIn(const Group &group) {
  SmallVector<Value> factors = factorsOf(group.root);
  if (factors.empty()) {
    return "";
  }
  Type element = getElementTypeOrSelf(factors[0]), other = getElementTypeOrSelf(factors[1]);
  Type sums = getElementTypeOrSelf(group.root->getResult(0));
  if (tn::isNarrowProduct(group.root)) {
    return "8-bit integers as f16, sums of i32";
  }
  if (tn::isFloat8Product(group.root)) {
    return "f8e4m3, sums of f32";
  }
  if (isa<tn::PagedAttentionOp>(group.root) && other != element) {
    return llvm::formatv("f32, keys and values of {0}", textOf(other));
  }
  if (element.isInteger(8) || other.isInteger(8)) {
    return llvm::formatv("{0} x {1}, sums of {2}", textOf(element), textOf(other), textOf(sums));
  }
  if (tn::DecodeRowsOp rows = factors[1].getDefiningOp<tn::DecodeRowsOp>()) {
    bool isRounded = factors[0].getDefiningOp<tn::RoundBlocksOp>() != nullptr;
    return llvm::formatv("{0} x weights of {1} bits in blocks of {2}{3}",
                         isRounded ? "s8" : textOf(element), rows.getBits(), rows.getBlock(),
                         isRounded ? ", sums of i32" : "");
  }
  return textOf(element);
}

OtherNumbers inFloats(const Group &group, const CostModel &costs) {
  if (isa_and_present<tn::PagedAttentionOp>(group.root)) {
    return OtherNumbers(); // of keys and values by request
  }
  Cost cost = costs.costOf(group.ops);
  int64_t more = 0;
  for (Value factor : factorsOf(group.root)) {
    int64_t wide = kWideBytes * costs.countOf(tn::getDims(factor.getType()));
    bool isStored = getElementTypeOrSelf(storedOf(factor)).isInteger(8);
    more += isStored ? std::max<int64_t>(wide - costs.bytesOf(storedOf(factor)), 0) : 0;
  }
  if (more == 0) {
    return OtherNumbers();
  }
  const target::Target &device = costs.profile();
  int64_t bytes = cost.bytes + more;
  bool fitsCache = bytes <= device.cacheBytes * static_cast<int64_t>(device.cores);
  double bandwidth = fitsCache ? device.cacheBandwidth : device.memoryBandwidth;
  double moving = static_cast<double>(bytes) / bandwidth * 1e6;
  double slower = costs.workOf(group.root) * (1 - 1 / narrowRate(group.root, device));
  double working = cost.workMicroseconds + slower / device.peak * 1e6;
  return {"fp32", std::max(moving, working) + device.launchSeconds * 1e6, moving, working};
}

bool isConversion(const Group &group) {
  constexpr StringRef kinds[] = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
                                 "Cast"};
  return factorsOf(group.root).empty() && llvm::all_of(group.ops, [&](Operation *op) {
           tn::NodeOrigin origin = tn::originOf(op->getLoc());
           return !origin.kinds.empty() && llvm::all_of(origin.kinds, [&](const std::string &kind) {
             // Those of PyTorch have several forms each.
             return llvm::is_contained(kinds, StringRef(kind)) ||
                    StringRef(kind).contains("quantized_decomposed");
           });
         });
}

} // namespace tenon::dispatch
