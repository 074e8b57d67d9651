// Relies on LoadedCode for the generated side and on the reference interpreter for the truth.
#include "test/unit/codegen/RegionCheck.h"

#include "compiler/graph/Shape.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "engine/KernelAbi.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/SelectedText.h"
#include "test/unit/codegen/foreign/Emulation.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Floats in [-2, 2), integers in [0, 3), bools; the same for the same seed.
reference::Tensor seeded(RankedTensorType type, ArrayRef<int64_t> symbols, uint64_t seed) {
  SmallVector<int64_t> dims;
  for (AffineExpr dim : tn::getDims(type)) {
    dims.push_back(*tn::evaluate(dim, symbols));
  }
  Result<reference::Tensor> wide = reference::Tensor::create(DType::F64, dims);
  bool isFloat = isa<FloatType>(type.getElementType());
  bool isBool = type.getElementType().isInteger(1);
  for (int64_t i = 0; i < wide->count(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double uniform = double(seed >> 40) / double(1 << 24);
    wide->as<double>()[i] = isFloat ? uniform * 4 - 2 : double(int64_t(uniform * (isBool ? 2 : 3)));
  }
  return *reference::convert(*wide, *reference::dtypeOf(type.getElementType()));
}

/// Transformed filters are those of some weight: what transforming its taps gives.
void makeConsistent(func::FuncOp function, std::vector<reference::Tensor> &inputs,
                    reference::Interpreter &interpreter) {
  OpBuilder builder(function.getContext());
  builder.setInsertionPointToStart(&function.getBody().front());
  for (tn::WinogradTapsOp taps : llvm::to_vector(function.getOps<tn::WinogradTapsOp>())) {
    tn::UnpackOp unpack = taps.getFilter().getDefiningOp<tn::UnpackOp>();
    reference::Tensor &packed = inputs[cast<BlockArgument>(unpack.getPacked()).getArgNumber()];
    tn::WinogradFilterOp filter = tn::WinogradFilterOp::create(
        builder, taps.getLoc(), taps.getFilter().getType(), taps.getWeight(), taps.getM());
    tn::PackOp pack = tn::PackOp::create(builder, unpack.getLoc(), unpack.getPacked().getType(),
                                         filter.getFilter(), unpack.getOuterDimsPerm(),
                                         unpack.getInnerDimsPos(), unpack.getInnerTiles());
    reference::Tensor value = packed;
    for (Operation *op :
         {unpack.getOperation(), taps.getOperation(), filter.getOperation(), pack.getOperation()}) {
      value = (*interpreter.evaluateOp(op, {value})).front();
    }
    packed = value;
    pack->erase();
    filter->erase();
  }
}

} // namespace

namespace {

struct KernelRun {
  std::vector<reference::Tensor> outputs;
  int32_t status = 0;
};

std::vector<std::string> symbolsOf(const Kernel &kernel) {
  std::vector<std::string> symbols = {kernel.symbol};
  if (!kernel.preparing.empty()) {
    symbols.push_back(kernel.preparing);
  }
  return symbols;
}

/// In this process.
int32_t runLoaded(const Kernel &kernel, engine::CpuLevel level, ArrayRef<EmulatedBuffer> memory,
                  const std::vector<int64_t> &symbols, int64_t grid, uint64_t scratchBytes,
                  int pieces) {
  LoadedCode code(level, {kernel.object}, symbolsOf(kernel));
  std::vector<void *> buffers;
  std::vector<TenonRange> ranges;
  for (const EmulatedBuffer &buffer : memory) {
    buffers.push_back(buffer.bytes);
    ranges.push_back({buffer.bytes, buffer.rangeBytes, buffer.isWritable});
  }
  void *scratch = aligned_alloc(64, (scratchBytes + 127) / 64 * 64);
  memset(scratch, 0x7f, scratchBytes);
  ranges.push_back({scratch, scratchBytes, 1});
  TenonKernelContext context{TENON_KERNEL_ABI, 0, scratch, scratchBytes, ranges.data(),
                             ranges.size()};
  int32_t status = 0;
  if (!kernel.preparing.empty()) {
    status = code.function<std::remove_pointer_t<TenonKernelFn>>(kernel.preparing)(
        &context, buffers.data(), symbols.data(), 0, 1);
  }
  for (int piece = 0; piece < pieces; ++piece) {
    int64_t begin = grid * piece / pieces, end = grid * (piece + 1) / pieces;
    if (begin < end) {
      status = std::max(status, code.function<std::remove_pointer_t<TenonKernelFn>>(kernel.symbol)(
                                    &context, buffers.data(), symbols.data(), begin, end));
    }
  }
  free(scratch);
  return status;
}

KernelRun runKernel(const Kernel &kernel, engine::CpuLevel level,
                    ArrayRef<reference::Tensor> inputs, ArrayRef<reference::Tensor> results,
                    const std::vector<int64_t> &symbols, int pieces, int shortened) {
  KernelRun run;
  std::vector<EmulatedBuffer> buffers;
  auto addBuffer = [&](const char *bytes, uint64_t count, bool isWritable) {
    bool isShort = static_cast<int>(buffers.size()) == shortened;
    buffers.push_back(
        {const_cast<char *>(bytes), count, isWritable, count == 0 ? 64 : count - isShort});
  };
  for (const reference::Tensor &input : inputs) {
    addBuffer(input.bytes(), input.byteCount(), false);
  }
  run.outputs.reserve(results.size());
  for (const reference::Tensor &result : results) {
    run.outputs.push_back(*reference::Tensor::create(result.dtype(), result.dims()));
    memset(run.outputs.back().mutableBytes(), 0x7f, run.outputs.back().byteCount());
    addBuffer(run.outputs.back().bytes(), run.outputs.back().byteCount(), true);
  }
  std::vector<std::vector<char>> temporaries;
  for (const std::vector<engine::ExprTerm> &bytes : kernel.temporaries) {
    temporaries.emplace_back(*engine::evaluate(bytes, symbols), char(0x7f));
    addBuffer(temporaries.back().data(), temporaries.back().size(), true);
  }
  int64_t grid = *engine::evaluate(kernel.grid, symbols);
  uint64_t scratchBytes = *engine::evaluate(kernel.scratch, symbols);
  if (!isEmulated(level)) {
    run.status = runLoaded(kernel, level, buffers, symbols, grid, scratchBytes, pieces);
    return run;
  }
  std::string code = linkedCode(level, {kernel.object}, symbolsOf(kernel));
  if (!kernel.preparing.empty()) {
    Result<int32_t> prepared =
        runEmulated(level, {code, kernel.preparing, buffers, symbols, scratchBytes, 1, 1});
    EXPECT_TRUE(prepared) << prepared.status().message();
  }
  Result<int32_t> status =
      runEmulated(level, {code, kernel.symbol, buffers, symbols, scratchBytes, grid, pieces});
  EXPECT_TRUE(status) << status.status().message();
  run.status = status ? *status : -1;
  return run;
}

} // namespace

std::vector<reference::Tensor> runKernel(const Kernel &kernel, engine::CpuLevel level,
                                         ArrayRef<reference::Tensor> inputs,
                                         ArrayRef<reference::Tensor> results,
                                         const std::vector<int64_t> &symbols, int pieces,
                                         int32_t *status) {
  KernelRun run = runKernel(kernel, level, inputs, results, symbols, pieces, /*shortened=*/-1);
  if (status) {
    *status = run.status;
  } else {
    EXPECT_EQ(TENON_KERNEL_OK, run.status) << kernel.symbol << " failed";
  }
  return std::move(run.outputs);
}

int32_t guardedStatus(const Kernel &kernel, engine::CpuLevel level,
                      ArrayRef<reference::Tensor> inputs, ArrayRef<reference::Tensor> results,
                      const std::vector<int64_t> &symbols, int shortened) {
  return runKernel(kernel, level, inputs, results, symbols, /*pieces=*/1, shortened).status;
}

std::string kernelText(const std::string &strategy, const std::string &signature,
                       const std::string &body, const std::string &symbols) {
  std::string attributes = symbols.empty() ? "" : " attributes {tn.symbols = [" + symbols + "]}";
  return "module" + attributes + " {\n  func.func @kernel" + signature +
         " attributes {tn.strategy = \"" + strategy + "\"} {\n" + body + "\n  }\n}\n";
}

testing::AssertionResult
matchesReference(const std::string &text, const std::vector<int64_t> &symbols, int pieces,
                 double ofLargest,
                 llvm::function_ref<void(std::vector<reference::Tensor> &)> change) {
  MLIRContext context;
  context.loadDialect<tn::TnDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  if (!module) {
    return testing::AssertionFailure() << "does not parse:\n" << text;
  }
  func::FuncOp function = module->lookupSymbol<func::FuncOp>("kernel");
  std::vector<reference::Tensor> inputs;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    inputs.push_back(seeded(cast<RankedTensorType>(type), symbols, i + 1));
  }
  if (change) {
    change(inputs);
  }
  reference::Interpreter interpreter(nullptr);
  makeConsistent(function, inputs, interpreter);
  Result<std::vector<reference::Tensor>> expected =
      interpreter.evaluate(function.getBody(), inputs, symbols);
  if (!expected) {
    return testing::AssertionFailure() << "reference: " << expected.status().message();
  }
  for (engine::CpuLevel level : machineLevels()) {
    llvm::Expected<Kernel> kernel = compileRegion(selectedForCpu(text, level), "tested", level);
    if (!kernel) {
      return testing::AssertionFailure()
             << engine::nameOf(level) << ": " << llvm::toString(kernel.takeError());
    }
    std::vector<reference::Tensor> outputs =
        runKernel(*kernel, level, inputs, *expected, symbols, pieces);
    for (size_t i = 0; i < outputs.size(); ++i) {
      reference::Comparison comparison = reference::compareTensors((*expected)[i], outputs[i]);
      if (ofLargest > 0) {
        comparison = reference::compareTensors(
            (*expected)[i], outputs[i],
            {.relative = 0, .absolute = ofLargest * comparison.largestMagnitude});
      }
      if (!comparison.equal()) {
        return testing::AssertionFailure()
               << engine::nameOf(level) << ": result " << i << ": "
               << (comparison.mismatch.empty() ? comparison.text(outputs[i].dims())
                                               : comparison.mismatch);
      }
    }
  }
  return testing::AssertionSuccess();
}

} // namespace tenon::codegen::cpu
