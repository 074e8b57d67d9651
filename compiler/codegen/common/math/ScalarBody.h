// What each elementwise `tn` op does to one element, as arith and math ops. Used for the bodies of
// linalg.generic, so the same few lines serve scalars, vectors, CPU and GPU.
#pragma once

#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace tenon::codegen {

/// The element type as it lies in memory: bool and what has 8 bits or less is a byte, integers are
/// signless, wider floats unchanged.
mlir::Type storageType(mlir::Type element);

/// How roundings to the type that a value is stored in are marked, and the ways back: a kernel may
/// leave out such a pair, but not a cast of the model's. (Upstream folds pairs that are marked
/// `contract`, in every kernel.)
inline constexpr mlir::arith::FastMathFlags kForStorage = mlir::arith::FastMathFlags::afn;

/// A wide float as one of the narrow type that it is stored in.
mlir::Value roundForStorage(mlir::OpBuilder &builder, mlir::Location location, mlir::Type stored,
                            mlir::Value value);
/// The way back.
mlir::Value widenStored(mlir::OpBuilder &builder, mlir::Location location, mlir::Type wide,
                        mlir::Value value);

/// An element of a constant as it lies in memory.
mlir::TypedAttr storedElement(mlir::Attribute element, mlir::Type storage);

/// True if `op` has a scalar body.
bool hasScalarBody(mlir::Operation *op);

/// The result element of an elementwise op for the elements `args` of its operands, all in storage
/// types. Half-width floats are computed in f32 and rounded once.
mlir::Value emitScalarBody(mlir::OpBuilder &builder, mlir::Location location, mlir::Operation *op,
                           mlir::ValueRange args);

/// A float without a fraction as an integer `tn` element type: the nearest that it can hold.
mlir::Value saturate(mlir::OpBuilder &builder, mlir::Location location, mlir::Type element,
                     mlir::Value x);

} // namespace tenon::codegen
