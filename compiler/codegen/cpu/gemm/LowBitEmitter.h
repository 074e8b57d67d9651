// What the builders of micro-kernels for low-bit weights are written in: addresses in words of 32
// bits, and vectors of them.
#pragma once

#include "compiler/codegen/cpu/gemm/LowBitKernels.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tenon::codegen::cpu {

class LowBitEmitter {
public:
  LowBitEmitter(mlir::ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()), level(level), layout(layout),
        pointer(mlir::LLVM::LLVMPointerType::get(builder.getContext())), i32(builder.getI32Type()),
        f32(builder.getF32Type()), lanes(floatLanes(level)),
        words(mlir::VectorType::get(lanes, i32)), floats(mlir::VectorType::get(lanes, f32)) {}

protected:
  mlir::Value constant(int64_t value) {
    return mlir::arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  mlir::Value mul(mlir::Value a, mlir::Value b) {
    return mlir::arith::MulIOp::create(builder, loc, a, b);
  }
  mlir::Value add(mlir::Value a, mlir::Value b) {
    return mlir::arith::AddIOp::create(builder, loc, a, b);
  }
  /// `elements` of 32 bits behind a pointer.
  mlir::Value offset(mlir::Value base, mlir::Value elements) {
    return mlir::LLVM::GEPOp::create(builder, loc, pointer, i32, base,
                                     llvm::ArrayRef<mlir::LLVM::GEPArg>{elements});
  }
  mlir::Value load(mlir::Type type, mlir::Value address) {
    return mlir::LLVM::LoadOp::create(builder, loc, type, address, /*alignment=*/4);
  }
  mlir::Value everyLane(mlir::Value base, mlir::Value at) {
    return mlir::vector::BroadcastOp::create(builder, loc, floats, load(f32, offset(base, at)));
  }

  mlir::OpBuilder builder;
  mlir::Location loc;
  engine::CpuLevel level;
  tn::BlockRows layout;
  mlir::Type pointer, i32, f32;
  int64_t lanes;
  mlir::VectorType words, floats;
};

} // namespace tenon::codegen::cpu
