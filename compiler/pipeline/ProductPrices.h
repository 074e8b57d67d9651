// What products and convolutions of quantized numbers or bf16 take on a CPU level in those and in
// FP32, by the families' predictions for either. Relies on CodeTarget::select being pure.
#pragma once

#include "compiler/dispatch/Cost.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/CodeTarget.h"
#include "llvm/ADT/StringMap.h"

namespace tenon::pipeline {

class ProductPrices {
public:
  /// Of a module's products, by the rates of the first level that will run them. `decidingTarget`
  /// is only read by `priced`.
  ProductPrices(mlir::ModuleOp module, const target::Target &profile,
                const CodeTarget &decidingTarget);

  /// As opt::PriceProduct, of a tn.matmul or tn.conv.
  opt::ProductTimes priced(mlir::Operation *product, int64_t channels);

  /// What the form that the product of a price has not would take on a level.
  dispatch::OtherNumbers otherOf(int64_t number, const CodeTarget &level) const;

  /// Whether products of quantized numbers, or of bf16, were priced.
  bool hasBytes() const { return isAnyOfBytes; }
  bool hasBf16() const { return isAnyOfBf16; }
  /// Whether the same products are faster in FP32 on another level.
  bool areDecidedAlike(const CodeTarget &other) const;

private:
  /// Both forms of a product as regions, and what widening its operand takes beside.
  struct Product {
    std::string narrow, wide;
    double widening = 0;
    bool isWide = false, isOfBytes = false;
  };
  opt::ProductTimes timesOf(const Product &product, const CodeTarget &level) const;
  double wideningOf(mlir::Value operand, int64_t narrowBytes) const;

  dispatch::CostModel costs;
  const CodeTarget &target;
  std::vector<Product> products;
  bool isAnyOfBytes = false, isAnyOfBf16 = false;
  /// Of regions on levels, by both.
  mutable llvm::StringMap<double> known;
};

} // namespace tenon::pipeline
