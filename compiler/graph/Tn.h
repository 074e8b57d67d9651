// The `tn` dialect: declarations generated from TnDialect.td and TnOps.td, and the traits they use.
// Relies on MLIR's builtin tensors; symbolic shapes are read through graph/Shape.h.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tenon::tn {

/// Each result element depends on the elements of the operands at the same (broadcast) position.
template <typename Op> class TnElementwise : public mlir::OpTrait::TraitBase<Op, TnElementwise> {};
/// A sum of products: what the product micro-kernel and the matrix libraries compute.
template <typename Op> class TnContraction : public mlir::OpTrait::TraitBase<Op, TnContraction> {};
/// Each result row depends on one row of the operands.
template <typename Op> class TnRowWise : public mlir::OpTrait::TraitBase<Op, TnRowWise> {};
/// Each result element is an element of an operand, or a filling one: nothing is computed.
template <typename Op> class TnMovement : public mlir::OpTrait::TraitBase<Op, TnMovement> {};

/// True if two lists of types are equal up to dims that one of them states more precisely.
bool typesAgree(mlir::TypeRange left, mlir::TypeRange right);

class Assumptions;

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
#define GET_OP_CLASSES
#include "compiler/graph/TnOps.h.inc"
