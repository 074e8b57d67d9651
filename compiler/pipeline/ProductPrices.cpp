// Relies on both forms of a product being regions that codegen can be asked about: a product alone,
// its operand and its weight as arguments.
#include "compiler/pipeline/ProductPrices.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/dispatch/OpKinds.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/dispatch/WeightLayout.h"
#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/text/Text.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// Of the cache's rate, what kernels reach that convert (measured with AVX2: 0.2 to 0.4 ns an
/// element).
constexpr double kOfConversions = 1.0 / 3;

/// What the operands of a form are.
struct Elements {
  Type operand, weight, result;
};

/// A region of nothing but the product, without its bias; a convolution has so many input channels
/// in each group.
std::string regionOf(Operation *product, const Elements &elements, int64_t channels) {
  OpBuilder builder(product->getContext());
  Location location = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  tn::SymbolList symbols(product->getParentOfType<ModuleOp>());
  if (!symbols.symbols().empty()) {
    symbols.store(*module);
  }
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(product);
  tn::Dims dims = tn::getDims(product->getOperand(0).getType());
  tn::Dims weightDims = tn::getDims(product->getOperand(1).getType());
  if (conv) {
    int64_t groups = static_cast<int64_t>(conv.getGroups());
    dims[conv.getChannelsLast() ? dims.size() - 1 : 1] =
        builder.getAffineConstantExpr(groups * channels);
    weightDims[1] = builder.getAffineConstantExpr(channels);
  }
  SmallVector<Type> inputs = {tn::makeTensor(dims, elements.operand),
                              tn::makeTensor(weightDims, elements.weight)};
  Type result = tn::withElement(product->getResult(0).getType(), elements.result);
  builder.setInsertionPointToEnd(module->getBody());
  func::FuncOp function =
      func::FuncOp::create(builder, location, "kernel", builder.getFunctionType(inputs, result));
  bool isDepthwise = conv && dispatch::isDepthwise(conv);
  function->setAttr("tn.strategy", builder.getStringAttr(isDepthwise ? dispatch::kDepthwise
                                                                     : dispatch::kContraction));
  function.setArgAttr(1, codegen::kConstantArgument, builder.getUnitAttr());
  function.setArgAttr(1, dispatch::kPackable, builder.getUnitAttr());
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  Value x = entry->getArgument(0), weight = entry->getArgument(1), value;
  if (conv) {
    value = tn::ConvOp::create(builder, location, result, x, weight, Value(), conv.getStrides(),
                               conv.getPads(), conv.getDilations(), conv.getGroups(),
                               conv.getChannelsLast());
  } else {
    tn::MatmulOp matmul = cast<tn::MatmulOp>(product);
    value = tn::MatmulOp::create(builder, location, result, x, weight, matmul.getTransposeA(),
                                 matmul.getTransposeB());
  }
  func::ReturnOp::create(builder, location, value);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

double microsecondsOf(const CodeTarget &target, const std::string &text) {
  llvm::Expected<dispatch::KernelSelection> selection = target.select(text, {});
  if (selection) {
    return selection->microseconds;
  }
  llvm::consumeError(selection.takeError());
  return std::numeric_limits<double>::infinity();
}

} // namespace

ProductPrices::ProductPrices(ModuleOp module, const target::Target &profile,
                             const CodeTarget &decidingTarget)
    : costs(module, profile), target(decidingTarget) {}

/// Microseconds of reading narrow numbers and writing them as FP32, as a kernel of its own.
double ProductPrices::wideningOf(Value operand, int64_t narrowBytes) const {
  const target::Target &device = costs.profile();
  double count = static_cast<double>(costs.countOf(tn::getDims(operand.getType())));
  double bytes = count * static_cast<double>(narrowBytes + sizeof(float));
  bool fitsCache = bytes <= double(device.cacheBytes) * double(device.cores);
  double bandwidth = fitsCache ? device.cacheBandwidth : device.memoryBandwidth;
  return (bytes / (kOfConversions * bandwidth) + device.launchSeconds) * 1e6;
}

opt::ProductTimes ProductPrices::priced(Operation *product, int64_t channels) {
  Builder builder(product->getContext());
  Type real = builder.getF32Type(), element = getElementTypeOrSelf(product->getOperand(0));
  bool isOfBytes = !element.isBF16();
  (isOfBytes ? isAnyOfBytes : isAnyOfBf16) = true;
  Elements narrow = isOfBytes ? Elements{builder.getIntegerType(8, /*isSigned=*/false),
                                         builder.getI8Type(), builder.getI32Type()}
                              : Elements{element, element, element};
  int64_t own = cast<RankedTensorType>(product->getOperand(1).getType()).getDimSize(1);
  Product both;
  both.narrow = regionOf(product, narrow, channels);
  both.wide = regionOf(product, {real, real, real}, own);
  both.widening = wideningOf(product->getOperand(0), isOfBytes ? 1 : 2);
  both.isOfBytes = isOfBytes;
  opt::ProductTimes times = timesOf(both, target);
  both.isWide = times.isWideFaster();
  times.number = static_cast<int64_t>(products.size());
  products.push_back(std::move(both));
  return times;
}

opt::ProductTimes ProductPrices::timesOf(const Product &product, const CodeTarget &level) const {
  auto timeOf = [&](const std::string &text) {
    auto [entry, isNew] = known.try_emplace(strCat(level.level, '\n', text));
    if (isNew) {
      entry->second = microsecondsOf(level, text);
    }
    return entry->second;
  };
  return {timeOf(product.narrow), timeOf(product.wide) + product.widening};
}

dispatch::OtherNumbers ProductPrices::otherOf(int64_t number, const CodeTarget &level) const {
  const Product &product = products[static_cast<size_t>(number)];
  opt::ProductTimes times = timesOf(product, level);
  double microseconds = product.isWide ? times.narrow : times.wide;
  if (std::isinf(microseconds)) {
    return {}; // no kernel computes it so
  }
  return {!product.isWide ? "fp32" : product.isOfBytes ? "8-bit integers" : "bf16", microseconds};
}

bool ProductPrices::areDecidedAlike(const CodeTarget &other) const {
  return llvm::all_of(products, [&](const Product &each) {
    return timesOf(each, other).isWideFaster() == each.isWide;
  });
}

} // namespace tenon::pipeline
