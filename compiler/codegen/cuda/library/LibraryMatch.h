// What matrix products and convolutions share when a region is read as a library call: its operands
// as strided views of the inputs, and the operations behind the root.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/dispatch/WeightLayout.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "engine/LibraryAbi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cstring>
#include <optional>

namespace tenon::codegen::cuda {

/// An input of the region with the strides, in elements, at which it is read.
struct View {
  uint32_t argument = 0;
  tn::Dims dims;
  tn::Dims strides;
};

/// Follows the values of one region; every op that the call covers is noted.
class Match {
public:
  explicit Match(mlir::func::FuncOp kernel) : kernel(kernel) {}

  /// The number of the input that this value is.
  std::optional<uint32_t> inputOf(mlir::Value value) const;
  /// An input, the tn.transpose of one, or weights that were packed in one panel.
  std::optional<View> viewOf(mlir::Value value);
  /// Reads the adds and the activation that follow `root`, up to the region's result.
  bool readEpilogue(mlir::Operation *root);
  void cover(mlir::Operation *op) { covered.insert(op); }
  /// Whether nothing but covered ops gives the region's only result.
  bool isWhole() const;

  /// Appends the buffers behind the operands (bias, residual, result) and the descriptor.
  template <typename Call> void complete(RegionStep &step, const Call &call) const {
    step.call.resize(sizeof(call));
    std::memcpy(step.call.data(), &call, sizeof(call));
    appendBuffers(step);
  }

  std::optional<uint32_t> bias;
  std::optional<uint32_t> residual;
  engine::LibraryActivation activation = engine::LibraryActivation::None;

private:
  std::optional<View> viewOfPanel(tn::UnpackOp unpack);
  bool readAdd(mlir::Value value, mlir::Operation *add);
  void appendBuffers(RegionStep &step) const;

  mlir::func::FuncOp kernel;
  llvm::SmallPtrSet<mlir::Operation *, 8> covered;
  mlir::Value result;
};

/// The floating-point types that the libraries take; none for others.
std::optional<DType> libraryType(mlir::Type tensor);

/// The readers of the kinds of root (LibraryMatmul.cpp, LibraryConv.cpp, LibraryAttention.cpp).
std::optional<RegionStep> matmulStep(mlir::func::FuncOp kernel, mlir::Operation *root,
                                     bool allowTf32);
/// Of 8-bit floats (graph/Float8.h).
std::optional<RegionStep> scaledMatmulStep(mlir::func::FuncOp kernel, tn::MatmulOp product);
std::optional<RegionStep> convStep(mlir::func::FuncOp kernel, mlir::Operation *root,
                                   bool allowTf32);
std::optional<RegionStep> attentionStep(mlir::func::FuncOp kernel);

/// [K, taps..., C / groups], as kernels read the weight of the region's convolution beside data
/// with channels last; none if it may not be laid out.
std::optional<dispatch::WeightLayout> channelsLastWeight(mlir::func::FuncOp kernel);
/// Whether the weight of a convolution lies so.
bool isChannelsLast(tn::UnpackOp unpack);

} // namespace tenon::codegen::cuda
