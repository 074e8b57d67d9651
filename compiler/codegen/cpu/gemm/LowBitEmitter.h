// What the builders of micro-kernels for low-bit weights are written in: addresses in words of 32
// bits, and vectors of them.
#pragma once

#include "compiler/codegen/cpu/gemm/LowBitKernels.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
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
  mlir::Value everyWord(int32_t value) {
    return mlir::arith::ConstantOp::create(
        builder, loc, mlir::DenseElementsAttr::get(words, builder.getI32IntegerAttr(value)));
  }
  /// The even (part 0) or the odd numbers of 4 bits of words, as bytes.
  mlir::Value bytesOf(mlir::Value read, int32_t part) {
    constexpr int32_t lowerHalves = 0x0F0F0F0F;
    mlir::Value moved =
        part == 0 ? read
                  : mlir::arith::ShRUIOp::create(builder, loc, read, everyWord(4)).getResult();
    return mlir::arith::AndIOp::create(builder, loc, moved, everyWord(lowerHalves));
  }

  /// A loop; `body` gives the next state.
  using LoopBody =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;
  llvm::SmallVector<mlir::Value> forRange(mlir::Value from, mlir::Value to, mlir::Value step,
                                          mlir::ValueRange state, LoopBody body) {
    mlir::scf::ForOp loop = mlir::scf::ForOp::create(
        builder, loc, from, to, step, state,
        [&](mlir::OpBuilder &, mlir::Location, mlir::Value at, mlir::ValueRange args) {
          mlir::scf::YieldOp::create(builder, loc, body(at, args));
        });
    return llvm::SmallVector<mlir::Value>(loop.getResults());
  }

  /// Of a block of weights, for a vector of columns.
  struct Header {
    mlir::Value scale, zero; ///< no zero where the layout has none
  };
  Header headerOf(mlir::Value panel) {
    mlir::Value scale = load(floats, panel);
    return {scale, layout.hasZeroPoints ? load(floats, offset(panel, constant(kPanel))) : nullptr};
  }
  /// The sums of floats with those of a block of rounded rows, which are integers: one row's, whose
  /// header is at `row`. All kernels of rounded rows scale and add so, and give the same bits.
  mlir::Value addScaled(mlir::Value integers, mlir::Value row, const Header &of, mlir::Value sum) {
    mlir::Value levels = mlir::arith::SIToFPOp::create(builder, loc, floats, integers);
    if (of.zero) {
      mlir::Value negative = mlir::arith::NegFOp::create(builder, loc, everyLane(row, constant(1)));
      levels = mlir::vector::FMAOp::create(builder, loc, negative, of.zero, levels);
    }
    mlir::Value scaled = mlir::arith::MulFOp::create(builder, loc, levels, of.scale);
    return mlir::vector::FMAOp::create(builder, loc, scaled, everyLane(row, constant(0)), sum);
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
