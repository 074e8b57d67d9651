// A region's text opened for the functions that choose kernels for it.
#pragma once

#include "compiler/codegen/cuda/LowerRegion.h"
#include "mlir/Parser/Parser.h"

#include <optional>

namespace tenon::codegen::cuda {

struct OpenedRegion {
  OpenedRegion(const std::string &text, const target::Target &gpu)
      : context(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(&context));
    region.emplace(module->lookupSymbol<mlir::func::FuncOp>("kernel"), "tested", gpu);
  }

  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    registerRegionDialects(registry);
    return registry;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<RegionBuilder> region;
};

} // namespace tenon::codegen::cuda
