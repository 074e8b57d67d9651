// Decides which operations stay in f32, by rules that need no data: what may leave the range of the
// narrow type, what must be exact, and what depends on either. Conservative; each rule has its
// reason.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/opt/ConvertPrecision.h"
#include "compiler/opt/precision/ConvertPrecisionRange.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace tenon::opt {

inline bool isF32(mlir::Value value) { return mlir::getElementTypeOrSelf(value).isF32(); }

inline constexpr PrecisionRule kGrows = {"may-overflow",
                                         "its result may leave the range of the narrow type"};
inline constexpr PrecisionRule kSquares = {
    "square", "squares span twice the range, and sums of them lose what a variance needs"};
inline constexpr PrecisionRule kDivides = {
    "divisor-near-zero", "the divisor varies and may be small, so the quotient may overflow"};
inline constexpr PrecisionRule kSums = {
    "large-sum", "a sum of that many elements may leave the range of the narrow type"};
inline constexpr PrecisionRule kRuns = {
    "running-sum", "each element is rounded again: the narrow type stops counting early"};
inline constexpr PrecisionRule kAccumulates = {
    "accumulating-scatter", "updates are added one after the other, and each is rounded"};
inline constexpr PrecisionRule kCounts = {
    "counts", "integers beyond the narrow type's mantissa would not be exact"};
inline constexpr PrecisionRule kConstant = {
    "constant-out-of-range",
    "a constant among its operands is too large or too small for the narrow type"};
inline constexpr PrecisionRule kFeedsInteger = {
    "feeds-integer",
    "it leads to a conversion to integers, where rounding would give another number"};
inline constexpr PrecisionRule kFeedsAngle = {
    "feeds-angle", "it leads to a sine or cosine, whose argument needs its absolute precision"};
inline constexpr PrecisionRule kFeedsLog = {
    "feeds-log", "it leads to a logarithm, whose argument may be close to zero"};
inline constexpr PrecisionRule kQuantizes = {
    "quantization", "scales and zero points of quantized values are exact in f32"};
inline constexpr PrecisionRule kIntegers = {
    "integers", "both of its operands are quantized: it multiplies 8-bit integers"};
inline constexpr PrecisionRule kFeedsQuantization = {
    "feeds-quantization", "it leads to quantization, where rounding would give another number"};
inline constexpr PrecisionRule kDraws = {
    "draws", "it draws from the logits that the model gives out, which are f32"};
inline constexpr PrecisionRule kOwnKernel = {
    "own-kernel", "a kernel of the user's computes it, in the types that its description states"};
inline constexpr PrecisionRule kFollows = {
    "reads-wider", "it reads a value that stays in f32 for its range or its exactness"};
/// For the list of what is clamped.
inline constexpr PrecisionRule kClamped = {
    "clamped", "numbers beyond the finite range of the narrow type become its largest"};

class PrecisionRules {
public:
  PrecisionRules(mlir::func::FuncOp function, Constants &constants, mlir::FloatType narrowType,
                 QuantizedProducts quantizedProducts);

  /// Why the operation computes in f32; null if it is narrow.
  const PrecisionRule *of(mlir::Operation *op) const { return wide.lookup(op); }
  /// Whether a value in f32 may lie beyond the narrow range where a narrow operation reads it.
  bool needsClamp(mlir::Value value) const;

private:
  /// Why narrow readers must be careful with a value that is in f32.
  enum class Risk { None, Range, Exactness };

  void findIntegers(mlir::Block &block, QuantizedProducts quantizedProducts);
  const PrecisionRule *demandOf(mlir::Operation *op) const;
  void demandThrough(mlir::Operation *op);
  void decide(mlir::Operation *op);
  const PrecisionRule *ownRule(mlir::Operation *op) const;
  const PrecisionRule *ruleOfReduce(tn::ReduceOp reduce) const;
  const PrecisionRule *ruleOfCast(tn::CastOp cast) const;
  Risk riskOf(mlir::Value value) const;
  Risk constantRisk(mlir::Value value) const;
  Risk operandRisk(mlir::Operation *op) const;
  Risk resultRisk(mlir::Operation *op, const PrecisionRule *rule, Risk operands) const;
  bool fits(mlir::Value value) const;
  bool isRescaled(mlir::Operation *op) const;

  Constants &constants;
  tn::SymbolList symbols;
  Ranges ranges;
  bool isHalf, keepsQuantized;
  llvm::DenseSet<mlir::Operation *> integers; ///< products that will be those of integers
  double largest;
  double largestInteger; ///< up to here every integer is exact
  llvm::DenseMap<mlir::Operation *, const PrecisionRule *> demanded;
  llvm::DenseMap<mlir::Operation *, const PrecisionRule *> wide;
  llvm::DenseMap<mlir::Value, Risk> risks;
};

} // namespace tenon::opt
