// Constant weights in the layout that the kernel of their region reads. Dispatch says which weights
// may be laid out anew, the chosen family says how, and only then is tn.pack written
// (docs/adr/0015): the order is form, choose, pack.
#pragma once

#include "compiler/graph/Tn.h"
#include "compiler/target/Target.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace tenon::dispatch {

/// Unit attribute of tn.weight and tn.constant, and of an argument of @kernel that holds one: its
/// only readers are products, convolutions and recurrent layers, whose kernels may have it in a
/// layout of their own.
inline constexpr llvm::StringLiteral kPackable = "tn.packable";

/// What a weight becomes before it is packed: an operation of the model, and the one that stands in
/// a region between the packed constant and what reads the weight.
struct WeightTransform {
  mlir::RankedTensorType (*typeOf)(mlir::RankedTensorType weight);
  mlir::Value (*apply)(mlir::OpBuilder &builder, mlir::Value weight);
  mlir::Value (*undo)(mlir::OpBuilder &builder, mlir::Value transformed, mlir::Type weight);
};

/// How a kernel reads a weight: as the result of tn.pack.
struct WeightLayout {
  unsigned input = 0; ///< of the region
  tn::Packing packing;
  const WeightTransform *transform = nullptr; ///< null: the weight itself is packed

  bool operator==(const WeightLayout &) const = default;
};

/// Marks the packable weights of a function's block, before regions form.
void markPackable(mlir::Block *block, const target::Target &device);
/// Whether a value of the model is a constant that products may have in a layout of their own.
bool isPackable(mlir::Value weight);
/// The marks have no meaning once every region has its kernel.
void clearPackable(mlir::ModuleOp module);

/// What a weight takes in a layout; as it is without one.
int64_t weightBytes(mlir::RankedTensorType weight, const std::optional<WeightLayout> &layout);
/// Whether nothing of a region reads this input as it is once layOutWeight has run.
bool isLaidOutWhole(tn::RegionOp region, unsigned input);

/// The region gets a tn.pack of the weight as its first input, and what computes with it reads the
/// tn.unpack of that. Equal packs are made once.
void layOutWeight(tn::RegionOp region, const WeightLayout &layout);

} // namespace tenon::dispatch
