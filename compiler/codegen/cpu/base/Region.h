// A region on its way to a CPU kernel: its `tn` function, the level that it is compiled for, and,
// once a family has emitted it, the kernel.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/codegen/cpu/base/KernelBuilder.h"
#include "compiler/graph/Invariance.h"
#include "compiler/target/Target.h"
#include "mlir/IR/AffineExpr.h"

namespace tenon::codegen::cpu {

class Region {
public:
  Region(mlir::func::FuncOp function, const target::Target &cpu) : source(function), cpu(cpu) {}

  llvm::StringRef strategy() {
    mlir::StringAttr name = source->getAttrOfType<mlir::StringAttr>("tn.strategy");
    return name ? name.getValue() : llvm::StringRef();
  }
  const target::Target &target() const { return cpu; }
  engine::CpuLevel level() const { return cpu.level; }

  /// Takes a kernel over; fails where its grid could not be said.
  mlir::LogicalResult finish(const KernelBuilder &builder,
                             mlir::FailureOr<mlir::AffineExpr> points) {
    kernel = builder.function();
    kernel->removeAttr(tn::kInvariant);
    grid = points.value_or(mlir::AffineExpr());
    mayOverwriteInputs = builder.mayOverwriteInputs;
    return mlir::success(mlir::succeeded(points));
  }

  mlir::func::FuncOp source;
  /// Where `emit` adds the kernel, and its name.
  mlir::ModuleOp kernels;
  std::string symbol;
  /// What it has added: the function, and the number of grid points over the region's symbols.
  mlir::func::FuncOp kernel;
  mlir::AffineExpr grid;
  bool mayOverwriteInputs = false; ///< KernelBuilder.h
  /// Of a region that is no kernel but what ranks exchange.
  std::optional<RegionStep> exchange;

private:
  const target::Target &cpu;
};

} // namespace tenon::codegen::cpu
