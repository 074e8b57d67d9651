// Passes over products and norms for GPUs (Passes.h has the others).
#pragma once

#include "compiler/graph/WeightStore.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::opt {

/// Quantization and its inverse, of computed values, as the elementwise operations that they are
/// made of; transposes move through these.
llvm::LogicalResult expandQuantize(mlir::ModuleOp module, tn::WeightStore &weights);

/// As `integerProducts` (Passes.h) where tensor cores multiply bytes: products of 16 rows and more,
/// over depths of a multiple of 16; convolutions whose groups have multiples of 4 channels, of one
/// group, or depthwise, signed numbers as they are.
llvm::LogicalResult integerProductsOfGpu(mlir::ModuleOp module, tn::WeightStore &weights);

/// As `noteWideProducts` (Passes.h), by what the kernels of GPUs take.
llvm::LogicalResult noteWideProductsOfGpu(mlir::ModuleOp module, tn::WeightStore &weights);

/// Weights of few bits behind scales stay so where products of few rows read them, as by
/// `lowBitWeights` (Passes.h); all other constants behind scales become floats.
llvm::LogicalResult lowBitWeightsOfGpu(mlir::ModuleOp module, tn::WeightStore &weights);

/// Products and convolutions of 8-bit numbers less their zero points read these as f16, which holds
/// them exactly (graph/NarrowIntegers.h): tensor cores multiply f16.
llvm::LogicalResult narrowIntegerProducts(mlir::ModuleOp module, tn::WeightStore &weights);

/// Products whose operands have rows that do not begin on borders of 16 bytes read these padded, or
/// transposed, so that they do.
llvm::LogicalResult fitProducts(mlir::ModuleOp module, tn::WeightStore &weights);

/// Group norms of 16-bit floats with their channels last, where convolutions have these: means by
/// channel and group, then a factor and an offset for each channel.
llvm::LogicalResult splitGroupNorms(mlir::ModuleOp module, tn::WeightStore &weights);

} // namespace tenon::opt
