// The operands of products of quantized numbers: what a product or convolution reads behind its
// scale and zero point, and the constants and parameters that its integer form has instead. Shared
// by IntegerProducts.cpp, IntegerConvolutions.cpp and QuantizedActivations.cpp.
#pragma once

#include "compiler/graph/NarrowIntegers.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "mlir/IR/TypeUtilities.h"

namespace tenon::opt {

/// What a u8 is more than the s8 of the same bits but the first.
inline constexpr int64_t kUnsignedShift = 128;

using tn::isSignedByte;
bool isByte(mlir::Type element);

/// tn.dequantize of 8-bit numbers, or null.
tn::DequantizeOp dequantizeOf(mlir::Value value);
/// Of one scale and one zero point.
bool isPerTensor(mlir::Operation *quantization);

/// A constant positive scale whose products with 8-bit numbers are far from the ends of f32.
bool isUsualScale(const Constants &constants, mlir::Value scale);

/// 8-bit numbers with their zero point, and their scale if the product is one of floats. A
/// parameter of one dim belongs to indices of `axis`.
struct Quantized {
  mlir::Value numbers;
  mlir::Value zero;  ///< null for none
  mlir::Value scale; ///< null for none
  int64_t axis = 0;
};

/// Constant weights less their zero points, which are s8 once `shifts` are taken off. A column is
/// what one element of the result is multiplied with: an index of dim `columnDim`.
struct Levels {
  mlir::RankedTensorType type;
  int64_t columnDim = 1;
  std::vector<int16_t> values; ///< row-major
  std::vector<int64_t> shifts; ///< of each column; 0 where its values are s8 as they are
  mlir::Value scale;           ///< f32: one, or one for each column; null for none

  int64_t columns() const { return type.getDimSize(columnDim); }
  int64_t depth() const { return type.getNumElements() / columns(); }
  int64_t columnOf(size_t i) const;
  bool isShifted() const;
  /// Whether they are s8 less their shifts: weights from elsewhere than 8 bits may have a wider
  /// range.
  bool fits() const;
  /// Whether i32 holds all sums of their products with 8-bit numbers.
  bool sumsFit() const;
  std::vector<int64_t> columnSums() const;
};

/// Reads and makes operands for one pattern.
class IntegerOperands {
public:
  explicit IntegerOperands(tn::WeightStore &weights) : constants(weights) {}

  /// tn.dequantize of what is no constant.
  static std::optional<Quantized> dequantized(mlir::Value operand);
  /// cast(x) or cast(x) - zero, of i32.
  static std::optional<Quantized> centered(mlir::Value operand);
  /// Behind tn.dequantize if the product is one of floats. None where a parameter belongs to
  /// another dim than that of columns.
  std::optional<Levels> levelsOf(mlir::Value weight, int64_t columnDim, bool isFloat) const;

  /// Numbers as u8: those of s8 with 128 more. What quantizes them does so at once.
  mlir::Value asUnsigned(mlir::PatternRewriter &rewriter, mlir::Value numbers) const;
  /// The same as s8, those of u8 with 128 less.
  mlir::Value asSigned(mlir::PatternRewriter &rewriter, mlir::Value numbers) const;
  /// A zero point or other numbers with 128 more, or `by`, in another type; a constant for a
  /// constant.
  mlir::Value shifted(mlir::PatternRewriter &rewriter, mlir::Value numbers, mlir::Type element,
                      int64_t by = kUnsignedShift) const;
  /// The zero point of the numbers as they are, as i32.
  mlir::Value wideZero(mlir::PatternRewriter &rewriter, const Quantized &x, mlir::Value zero) const;
  /// The zero point of what asUnsigned gives as i32.
  mlir::Value unsignedZero(mlir::PatternRewriter &rewriter, const Quantized &x,
                           mlir::Value zero) const;

  /// A constant named after a weight.
  template <typename T, typename From>
  mlir::Value integers(mlir::PatternRewriter &rewriter, mlir::Value weight,
                       mlir::RankedTensorType type, const std::vector<From> &values,
                       llvm::StringRef what) const {
    std::vector<T> narrow(values.begin(), values.end());
    const char *bytes = reinterpret_cast<const char *>(narrow.data());
    return make(rewriter, weight, type, std::vector<char>(bytes, bytes + narrow.size() * sizeof(T)),
                what);
  }
  /// The same of i32, one for each column.
  mlir::Value ofColumns(mlir::PatternRewriter &rewriter, mlir::Value weight,
                        const std::vector<int64_t> &values, llvm::StringRef what) const;

  /// Sums of i32 as f32, times what scales the operands.
  mlir::Value scaled(mlir::PatternRewriter &rewriter, mlir::Value sums, mlir::Value scale,
                     mlir::Value weightScale) const;

  Constants constants;

private:
  mlir::Value retyped(mlir::PatternRewriter &rewriter, mlir::Value numbers, mlir::Type byte,
                      int64_t by, int steps) const;
  mlir::Value make(mlir::PatternRewriter &rewriter, mlir::Value weight, mlir::RankedTensorType type,
                   std::vector<char> bytes, llvm::StringRef what) const;
};

/// A scalar of i32.
mlir::Value integerNumber(mlir::PatternRewriter &rewriter, mlir::Location location, int64_t value);
/// Of parameters that broadcast to each other.
mlir::Value multiplyParameters(mlir::PatternRewriter &rewriter, mlir::Location location,
                               mlir::Value a, mlir::Value b);

/// Of a product or convolution that could be one of narrow numbers: whether its price makes it one
/// of FP32. It then says so, and is not asked about again. `price` may be null.
struct PricedProduct {
  PricedProduct(const PriceProduct &price, mlir::Operation *op, int64_t channels);

  bool isWide() const { return times.isWideFaster(); }
  /// On the product of FP32.
  void keep(mlir::PatternRewriter &rewriter, mlir::Operation *op) const;
  /// On the product of narrow numbers.
  void note(mlir::Operation *product) const;

  ProductTimes times;
};
/// Whether an earlier answer keeps it so.
bool isKeptWide(mlir::Operation *op);

/// Whether a GPU has a kernel of integers for a product or convolution of floats of which both
/// operands are quantized, the weights being constant.
bool isIntegerOnGpu(mlir::Operation *op, const IntegerOperands &operands);
/// The same of a convolution (IntegerConvolutions.cpp).
bool isIntegerConvOnGpu(tn::ConvOp op, const IntegerOperands &operands);

/// What IntegerConvolutions.cpp makes of convolutions.
void addIntegerConvolutionPatterns(mlir::RewritePatternSet &patterns, tn::WeightStore &weights,
                                   const PriceProduct &price, bool isGpu);
/// Quantization behind such products by their own factors (see Requantize.cpp).
void addRequantizePatterns(mlir::RewritePatternSet &patterns, tn::WeightStore &weights);
/// Activations between products of quantized numbers stay in 8 bits (see QuantizedActivations.cpp),
/// unsigned where `areUnsigned`.
mlir::LogicalResult keepActivationsQuantized(mlir::ModuleOp module, tn::WeightStore &weights,
                                             bool areUnsigned);

} // namespace tenon::opt
