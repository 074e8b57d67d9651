// The `tn` dialect: declarations generated from TnDialect.td and TnOps.td, and the traits they use.
// Relies on MLIR's builtin tensors; symbolic shapes are read through graph/Shape.h.
#pragma once

#include "compiler/graph/Packing.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <functional>

namespace tenon::tn {

/// Each result element depends on the elements of the operands at the same (broadcast) position.
template <typename Op> class TnElementwise : public mlir::OpTrait::TraitBase<Op, TnElementwise> {};
/// A sum of products over dims that the operands share.
template <typename Op> class TnContraction : public mlir::OpTrait::TraitBase<Op, TnContraction> {};
/// Each result row depends on one row of the operands.
template <typename Op> class TnRowWise : public mlir::OpTrait::TraitBase<Op, TnRowWise> {};
/// Each result element is an element of an operand, or a filling one: nothing is computed.
template <typename Op> class TnMovement : public mlir::OpTrait::TraitBase<Op, TnMovement> {};
/// Stands between a constant as the model has it and as the engine stores it, or leads back in a
/// region, where what reads it reads the stored constant instead: nothing of it is left at run
/// time.
template <typename Op> class TnStoredForm : public mlir::OpTrait::TraitBase<Op, TnStoredForm> {};

/// Fills `out` with bytes [begin, begin + size) of a constant that is computed from all bytes of
/// another; begin and size are multiples of an element's size. May be called by several threads at
/// once.
using DerivedBytes =
    std::function<void(const char *operand, uint64_t begin, uint64_t size, char *out)>;

/// True if two lists of types are equal up to dims that one of them states more precisely.
bool typesAgree(mlir::TypeRange left, mlir::TypeRange right);

class Assumptions;

/// Of tn.pack and tn.unpack.
template <typename Op> Packing packingOf(Op op) {
  return {op.getOuterDimsPerm().vec(), op.getInnerDimsPos().vec(), op.getInnerTiles().vec()};
}
/// What tn.pack gives for a weight of constant sizes.
mlir::RankedTensorType packedType(mlir::RankedTensorType weight, const Packing &packing);

/// What the definitions generated from TnDialect.td call; written in graph/infer/Elementwise.cpp.
namespace infer {
llvm::LogicalResult test(std::optional<mlir::Location> location, mlir::Value x,
                         llvm::SmallVectorImpl<mlir::Type> &types);
llvm::LogicalResult binary(std::optional<mlir::Location> location, mlir::Value a, mlir::Value b,
                           llvm::SmallVectorImpl<mlir::Type> &types);
} // namespace infer

} // namespace tenon::tn

#include "compiler/graph/TnDialect.h.inc"
#include "compiler/graph/TnEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/graph/TnAttrs.h.inc"
#include "compiler/graph/TnInterfaces.h.inc"
#define GET_OP_CLASSES
#include "compiler/graph/TnOps.h.inc"
