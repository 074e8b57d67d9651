// How the parts of Lower.h work together: what is known of each value on the way, and what makes a
// call of each kind of operation. Internal to this folder.
#pragma once

#include "compiler/codegen/edge/FixedPoint.h"
#include "compiler/codegen/edge/Lower.h"
#include "compiler/opt/Constants.h"
#include "compiler/opt/Match.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <cmath>
#include <cstring>

namespace tenon::codegen::edge {

/// A value as it lies in a tensor: q stands for (q - zero) * scale.
struct View {
  int tensor = -1;
  double scale = 1;
  int32_t zero = 0;

  bool operator==(const View &) const = default;
};

/// What a quantizer makes of a result. Bounds are in 8-bit numbers.
struct Quantizer {
  double scale = 1;
  int32_t zero = 0;
  int32_t low = -128, high = 127;

  /// The nearest 8-bit number, halves to even.
  int32_t quantized(double value) const {
    double number = std::nearbyint(value / scale) + zero;
    return static_cast<int32_t>(std::min(127.0, std::max(-128.0, number)));
  }
};

/// Constant weights less their zero points, [column][depth].
struct EdgeWeights {
  std::vector<int8_t> values; ///< in the order of the constant
  std::vector<double> scales; ///< one, or one for each column
};

/// How a tensor meets the elements of a larger one: each of `period` elements `inner` neighbours,
/// again and again.
struct Repetition {
  int32_t period, inner;
};
std::optional<Repetition> repetitionOf(mlir::Value repeated, mlir::Value whole);

/// A copy of elements: dims with their strides on both sides.
struct Strided {
  llvm::SmallVector<int64_t> sizes, in, out;
  int64_t inOffset = 0, outOffset = 0;
};

class Lowering {
public:
  Lowering(mlir::ModuleOp lowered, tn::WeightStore &weights, bool twice)
      : module(lowered), constants(weights), roundsTwice(twice) {
    result.program.roundsTwice = twice;
  }

  Lowered run();

private:
  using Maybe = std::optional<int>; ///< the tensor that a call writes

  // Lower.cpp: the walk
  void visit(mlir::Operation *op);
  void visitQuantize(tn::QuantizeOp op);
  void visitDequantize(tn::DequantizeOp op);
  void visitReturn(mlir::Operation *op);
  // State.cpp: what lives from run to run
  void addStates();
  bool visitStateArithmetic(mlir::Operation *op);
  void keep(mlir::Operation *op, llvm::StringRef name, mlir::Value next);
  void addInput(mlir::BlockArgument argument, mlir::Value reader, const View &numbers);
  Maybe quantizedTensor(mlir::Value value, Quantizer quantizer);
  std::optional<View> quantizationOf(mlir::Operation *op, mlir::Value scale, mlir::Value zero,
                                     mlir::Type element);
  void reportRest();

  // Products.cpp
  Maybe conv(tn::ConvOp op, const Quantizer &quantizer);
  Maybe matmul(tn::MatmulOp op, mlir::Value bias, const Quantizer &quantizer);
  std::optional<EdgeWeights> weightsOf(mlir::Operation *op, mlir::Value weight, int64_t columnDim);
  struct Scales {
    std::vector<int32_t> bias, multipliers;
    std::vector<uint8_t> shifts;
  };
  std::optional<Scales> scalesOf(mlir::Operation *op, llvm::ArrayRef<int8_t> rows,
                                 llvm::ArrayRef<double> scales, int64_t columns, mlir::Value bias,
                                 const View &x, const Quantizer &quantizer);

  // Elementwise.cpp
  Maybe producer(mlir::Operation *op, const Quantizer &quantizer);
  Maybe sum(mlir::Operation *op, bool isDifference, const Quantizer &quantizer);
  Maybe product(mlir::Operation *op, const Quantizer &quantizer);
  Maybe affine(mlir::Operation *op, mlir::Value variable, llvm::ArrayRef<double> factors,
               llvm::ArrayRef<double> offsets, int32_t inner, const Quantizer &quantizer);
  Maybe rescaled(mlir::Operation *op, const View &x, int64_t count, const Quantizer &quantizer);
  Maybe table(mlir::Operation *op, mlir::Value value, const Quantizer &quantizer);

  // Lite.cpp: as TensorFlow Lite Micro rounds
  Maybe sumLite(mlir::Operation *op, const View &a, const View &b, const Repetition &repetition,
                bool isDifference, const Quantizer &quantizer);
  Maybe averageLite(tn::AvgPoolOp op, std::vector<int32_t> shape, const Quantizer &quantizer);
  Maybe softmaxLite(tn::SoftmaxOp op, const View &x, int64_t columns, const Quantizer &quantizer);
  /// None without a gap for a function that is the nearest number there too.
  Maybe tableLite(mlir::Operation *op, const Quantizer &quantizer);

  // Windows.cpp
  Maybe average(mlir::Operation *op, mlir::Value x, std::vector<int32_t> shape, double divisor,
                const Quantizer &quantizer);
  Maybe averagePool(tn::AvgPoolOp op, const Quantizer &quantizer);
  Maybe reduction(tn::ReduceOp op, const Quantizer &quantizer);
  Maybe softmax(tn::SoftmaxOp op, const Quantizer &quantizer);
  Maybe maximum(tn::MaxPoolOp op, int x);

  // Movement.cpp
  /// Makes views of results of movement whose operands are views; false if they are not.
  bool movement(mlir::Operation *op);
  Maybe moved(mlir::Operation *op, int tensor, const View &view);
  Maybe concat(tn::ConcatOp op, const Quantizer &quantizer);
  Maybe copy(mlir::Operation *op, int from, int to, Strided strided, bool completes);

  std::optional<View> viewOf(mlir::Value value) const;
  int newTensor(int64_t bytes);
  /// Adds a call of the kernel with these parameters.
  Call &call(mlir::Operation *op, Kernel kernel, std::vector<int> reads, int writes,
             std::vector<int32_t> shape);
  /// Notes why an operation has no kernel; always none.
  std::nullopt_t gap(mlir::Operation *op, std::string why, std::string workaround = "");

  mlir::ModuleOp module;
  opt::Constants constants;
  bool roundsTwice;
  Lowered result;
  llvm::DenseMap<mlir::Value, View> views;
  llvm::DenseSet<mlir::Operation *> lowered, reported;
  llvm::DenseMap<mlir::Value, size_t> states; ///< arguments, by their number in the program
};

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
inline int64_t countOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getNumElements();
}

/// An array for a call.
template <typename T>
Constant constantOf(std::string name, std::string type, const std::vector<T> &values) {
  Constant constant{std::move(name), std::move(type), sizeof(T), {}};
  constant.bytes.resize(values.size() * sizeof(T));
  std::memcpy(constant.bytes.data(), values.data(), constant.bytes.size());
  return constant;
}

/// Batch, height, width and channels of a tensor of rank 3 or 4, and how windows lie on it. With
/// channels first, each channel is one more of the batch.
struct Windows {
  int32_t batch, inH, inW, channels, outH, outW;
  int32_t kernelH, kernelW, strideH, strideW, dilationH, dilationW, padH, padW;
};
std::optional<Windows> windowsOf(mlir::Value x, mlir::Value y, llvm::ArrayRef<int64_t> kernel,
                                 llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> dilations,
                                 llvm::ArrayRef<int64_t> pads, bool areChannelsLast);

} // namespace tenon::codegen::edge
