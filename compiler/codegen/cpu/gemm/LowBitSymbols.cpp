// The symbols of the micro-kernels for low-bit weights, and which builder makes each.
#include "compiler/codegen/cpu/gemm/LowBitKernels.h"
#include "compiler/codegen/cpu/gemm/MicroKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

std::string symbolOf(StringRef verb, const tn::BlockRows &layout) {
  return llvm::formatv("tenon_product_{0}_u{1}{2}", verb, layout.bits,
                       layout.hasZeroPoints ? "_zero" : "");
}

/// All kinds of panels that differ in code.
std::vector<tn::BlockRows> kinds() {
  std::vector<tn::BlockRows> all;
  for (int64_t bits : {4, 8}) {
    for (bool hasZeroPoints : {false, true}) {
      all.push_back({.bits = bits, .hasZeroPoints = hasZeroPoints});
    }
  }
  return all;
}

} // namespace

std::string decodeSymbol(const tn::BlockRows &layout) { return symbolOf("decode", layout); }

std::string decodeWordsSymbol(const tn::BlockRows &layout) {
  return symbolOf("decode_words", layout);
}

std::string scaleSymbol(const tn::BlockRows &layout) { return symbolOf("scale_rows", layout); }

std::string lowBitSymbol(const tn::BlockRows &layout) { return symbolOf("low_bits", layout); }

std::string roundSymbol(const tn::BlockRows &layout) { return symbolOf("round_rows", layout); }

std::string integerSymbol(const tn::BlockRows &layout) { return symbolOf("rounded", layout); }

std::vector<std::string> integerSymbols() {
  std::vector<std::string> names;
  for (const tn::BlockRows &kind : kinds()) {
    names.push_back(integerSymbol(kind));
  }
  return names;
}

std::vector<std::string> lowBitSymbols() {
  std::vector<std::string> names;
  for (const tn::BlockRows &kind : kinds()) {
    names.push_back(decodeSymbol(kind));
    names.push_back(decodeWordsSymbol(kind));
    names.push_back(scaleSymbol(kind));
    names.push_back(lowBitSymbol(kind));
    names.push_back(roundSymbol(kind));
    names.push_back(integerSymbol(kind));
  }
  return names;
}

OwningOpRef<ModuleOp> buildProductKernels(MLIRContext *context, engine::CpuLevel level,
                                          StringRef name) {
  for (const tn::BlockRows &kind : kinds()) {
    const std::string own[] = {decodeSymbol(kind), decodeWordsSymbol(kind), scaleSymbol(kind),
                               lowBitSymbol(kind), roundSymbol(kind),       integerSymbol(kind)};
    if (!llvm::is_contained(own, name)) {
      continue;
    }
    context->loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect, scf::SCFDialect,
                         vector::VectorDialect>();
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
    if (name == decodeSymbol(kind)) {
      buildDecode(*module, level, kind);
    } else if (name == decodeWordsSymbol(kind)) {
      buildDecodeWords(*module, level, kind);
    } else if (name == scaleSymbol(kind)) {
      buildScaleRows(*module, level, kind);
    } else if (name == roundSymbol(kind)) {
      buildRoundRows(*module, level, kind);
    } else if (name == integerSymbol(kind)) {
      buildIntegerProduct(*module, level, kind);
    } else {
      buildLowBitProduct(*module, level, kind);
    }
    return module;
  }
  return buildGemmKernels(context, level, name);
}

} // namespace tenon::codegen::cpu
