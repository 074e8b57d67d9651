// The passes that rewrite `tn` without changing its meaning, and the one function that runs them in
// order. Relies on verified `tn` as import leaves it; weights are read from and added to the store.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <vector>

namespace tenon::opt {

/// Identity operations, chains of movement, exact arithmetic, constants, duplicates and dead code.
/// Every other pass leaves its litter to this one, so it runs often.
llvm::LogicalResult simplify(mlir::ModuleOp module, tn::WeightStore &weights);

/// Evaluates operations on constants through the reference. Part of `simplify`, on its own for
/// tests.
llvm::LogicalResult foldConstants(mlir::ModuleOp module, tn::WeightStore &weights);

/// Moves reshapes of leading dims (`[batch * sequence, n]`) up through products and elementwise
/// operations, where they meet the reshape that made them and vanish: one shape for a whole layer.
llvm::LogicalResult hoistReshapes(mlir::ModuleOp module, tn::WeightStore &weights);

/// Puts inference batch normalization into the weights of the convolution or product before it;
/// what is left becomes a multiplication and an addition that fuse as an epilogue. Computed in
/// double.
llvm::LogicalResult foldBatchNorm(mlir::ModuleOp module, tn::WeightStore &weights);

/// A convolution over an axis of one does without that axis, with the elementwise operations and
/// transposes around it: [B, C, L, 1] by [k, 1] is a convolution over one dim.
llvm::LogicalResult dropUnitDims(mlir::ModuleOp module, tn::WeightStore &weights);

/// Moves transposes towards the results through elementwise operations, reductions, concatenations,
/// pads, slices and reshapes, until they cancel or reach an operation that absorbs them.
llvm::LogicalResult sinkTransposes(mlir::ModuleOp module, tn::WeightStore &weights);

/// A product with constant weights whose result is only read in slices becomes one product a slice:
/// the heads of a fused QKV projection are then written where attention reads them, without copies.
llvm::LogicalResult splitProducts(mlir::ModuleOp module, tn::WeightStore &weights);

/// Spellings of GELU (erf and tanh form) become `tn.gelu`.
llvm::LogicalResult recognizeGelu(mlir::ModuleOp module, tn::WeightStore &weights);

/// Spellings of the sigmoid and of x * sigmoid(x) become `tn.sigmoid` and `tn.silu`.
llvm::LogicalResult recognizeSilu(mlir::ModuleOp module, tn::WeightStore &weights);

/// exp / sum, with or without the maximum taken off, becomes `tn.softmax`.
llvm::LogicalResult recognizeSoftmax(mlir::ModuleOp module, tn::WeightStore &weights);

/// Layer and RMS normalization over trailing dims written out become `tn.layer_norm`,
/// `tn.rms_norm`.
llvm::LogicalResult recognizeNorm(mlir::ModuleOp module, tn::WeightStore &weights);

/// Product, scale, mask, softmax and product become `tn.attention`, which reads and writes split
/// heads in place (`headsInner`), so that no transposes are left around it.
llvm::LogicalResult recognizeAttention(mlir::ModuleOp module, tn::WeightStore &weights);

/// A transpose of the last two dims before a product becomes `transposeA` or `transposeB`.
llvm::LogicalResult foldTransposes(mlir::ModuleOp module, tn::WeightStore &weights);

/// A transposed convolution becomes one convolution, or one for each remainder of the stride, whose
/// results are put together.
llvm::LogicalResult transposedConvs(mlir::ModuleOp module, tn::WeightStore &weights);

/// Convolutions and poolings work channels-last, where the inner loop reads contiguous channels;
/// the transposes around them meet and cancel, so that one is left at each picture input.
llvm::LogicalResult channelsLast(mlir::ModuleOp module, tn::WeightStore &weights);

/// Reshapes that split dims around slices, concatenations and elementwise operations go behind
/// them.
llvm::LogicalResult sinkReshapes(mlir::ModuleOp module, tn::WeightStore &weights);

/// A convolution over single positions, or over patches that do not overlap, becomes a product.
llvm::LogicalResult convsToProducts(mlir::ModuleOp module, tn::WeightStore &weights);

/// Products of one value with several constants become one, read in slices. The opposite of
/// `splitProducts`, for devices that read slices in place.
llvm::LogicalResult mergeProducts(mlir::ModuleOp module, tn::WeightStore &weights);

/// Products and convolutions of quantized numbers with constant weights become those of 8-bit
/// integers, whose scales and zero points stand behind them; activations between stay in 8 bits.
llvm::LogicalResult integerProducts(mlir::ModuleOp module, tn::WeightStore &weights);

/// Elementwise operations with a transcendental function among them, from one tensor of 8-bit
/// numbers to another, become tables.
llvm::LogicalResult tabulateChains(mlir::ModuleOp module, tn::WeightStore &weights);

/// Weights of products of floats that are integers behind scales become rows of blocks of 4 or 8
/// bits, which the products' kernels take apart; all other constants behind scales become floats.
llvm::LogicalResult lowBitWeights(mlir::ModuleOp module, tn::WeightStore &weights);

/// Scalars that quantized models add, multiply and divide by become weights.
llvm::LogicalResult shareParameters(mlir::ModuleOp module, tn::WeightStore &weights);

/// Says of products with a quantized operand that compute in floats why they do.
llvm::LogicalResult noteWideProducts(mlir::ModuleOp module, tn::WeightStore &weights);

/// Quantization and its inverse, also of inputs, as the elementwise operations that they are made
/// of.
llvm::LogicalResult expandAllQuantize(mlir::ModuleOp module, tn::WeightStore &weights);

/// Products with one column, or of one row with a transposed operand, become sums along rows.
llvm::LogicalResult dotProducts(mlir::ModuleOp module, tn::WeightStore &weights);

/// Reductions of long rows to a few numbers, or of few columns, become two: parts of them, and
/// their results.
llvm::LogicalResult splitReductions(mlir::ModuleOp module, tn::WeightStore &weights);

/// Attention with heads wider than any attention kernel's becomes products and softmax.
llvm::LogicalResult expandAttention(mlir::ModuleOp module, tn::WeightStore &weights);

/// Convolutions as the library takes them: two spatial dims, the same padding at both ends, f16 and
/// bf16 channels in multiples of 8.
llvm::LogicalResult fitConvs(mlir::ModuleOp module, tn::WeightStore &weights);

/// Convolutions of bf16 get as many input channels as CPUs multiply at once.
llvm::LogicalResult padChannelsToVnni(mlir::ModuleOp module, tn::WeightStore &weights);

/// `convertPrecision` (ConvertPrecision.h) without its record: for tools and tests, by name.
llvm::LogicalResult convertToFp16(mlir::ModuleOp module, tn::WeightStore &weights);
llvm::LogicalResult convertToBf16(mlir::ModuleOp module, tn::WeightStore &weights);

struct Pass {
  llvm::StringLiteral name;
  llvm::LogicalResult (*run)(mlir::ModuleOp, tn::WeightStore &);
};

/// Every pass by its name, for tools and tests.
llvm::ArrayRef<Pass> allPasses();

/// Predicted microseconds of a product or convolution of narrow numbers, and of FP32 with what it
/// takes to widen its operands.
struct ProductTimes {
  double narrow = 0, wide = 0;
  int64_t number = 0; ///< of the price, for records
  /// Predictions are 10 to 20 % off, and narrow weights and activations also spare memory.
  bool isWideFaster() const { return wide < 0.9 * narrow; }
};
/// Of a product of floats with two quantized operands, or of bf16. `channels` are the input
/// channels of a group of a convolution's narrow form, filled up to what its kernels multiply at
/// once.
using PriceProduct = std::function<ProductTimes(mlir::Operation *product, int64_t channels)>;

/// The same, but for products that are faster as those of FP32: these stay, with the reason
/// (graph/WideReason.h).
llvm::LogicalResult integerProducts(mlir::ModuleOp module, tn::WeightStore &weights,
                                    const PriceProduct &price);

/// Products of bf16 with constant weights that are faster as those of FP32 become such.
llvm::LogicalResult widenProducts(mlir::ModuleOp module, tn::WeightStore &weights,
                                  const PriceProduct &price);

struct OptimizeOptions {
  /// Called after each pass with its name; failure stops. `--verify` compares numbers here.
  std::function<llvm::LogicalResult(llvm::StringRef pass, mlir::ModuleOp module)> afterPass;
  /// Run after the others. Tests plant a wrong pass here that `--verify` must catch.
  std::vector<Pass> extraPasses;
  /// On CPUs: without, no product is one of FP32 for its price.
  PriceProduct price = {};
};

/// The forms that one kind of device likes: for its own copy of the optimized module, after any
/// change of precision and before dispatch. As `optimize`.
llvm::LogicalResult optimizeForGpu(mlir::ModuleOp module, tn::WeightStore &weights,
                                   const OptimizeOptions &options);
llvm::LogicalResult optimizeForCpu(mlir::ModuleOp module, tn::WeightStore &weights,
                                   const OptimizeOptions &options);

/// Runs the passes in order. Fails, with a diagnostic, if a pass or `afterPass` does.
llvm::LogicalResult optimize(mlir::ModuleOp module, tn::WeightStore &weights,
                             const OptimizeOptions &options);

} // namespace tenon::opt
