// Relies on the emulator for the generated side and on the reference interpreter for the truth.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/LowerRegion.h"
#include "compiler/codegen/cuda/base/EmitPtx.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "compiler/reference/LowBits.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/codegen/emulator/EmulatedRegion.h"
#include "test/unit/codegen/emulator/GpuEmulator.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <cstring>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Floats in [-scale, scale), integers in [0, 3); the same for the same seed.
reference::Tensor seeded(RankedTensorType type, ArrayRef<int64_t> symbols, uint64_t seed,
                         double scale) {
  SmallVector<int64_t> dims;
  for (AffineExpr dim : tn::getDims(type)) {
    dims.push_back(*tn::evaluate(dim, symbols));
  }
  Result<reference::Tensor> wide = reference::Tensor::create(DType::F64, dims);
  for (int64_t i = 0; i < wide->count(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double uniform = double(seed >> 40) / double(1 << 24);
    wide->as<double>()[i] = isa<FloatType>(type.getElementType()) ? (uniform * 2 - 1) * scale
                                                                  : double(int64_t(uniform * 3));
  }
  DType element = *reference::dtypeOf(type.getElementType());
  return element == DType::F8E4M3FN ? *reference::encode(*wide, element)
                                    : *reference::convert(*wide, element);
}

llvm::Expected<TestRegion> parse(const std::string &text, const std::string &symbol,
                                 const target::Target &gpu) {
  DialectRegistry registry;
  registerRegionDialects(registry);
  TestRegion result;
  result.context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  result.context->loadAllAvailableDialects();
  result.source = parseSourceString<ModuleOp>(text, ParserConfig(result.context.get()));
  if (!result.source) {
    return llvm::createStringError("does not parse:\n" + text);
  }
  result.region = std::make_unique<RegionBuilder>(
      result.source->lookupSymbol<func::FuncOp>("kernel"), symbol, gpu);
  return result;
}

/// A region with the kernels that an emitter makes of it.
llvm::Expected<TestRegion> compile(const std::string &text, const Emitter &emitter,
                                   const target::Target &gpu) {
  llvm::Expected<TestRegion> result = parse(text, "tested", gpu);
  if (!result) {
    return result;
  }
  FailureOr<bool> taken = emitter(*result->region);
  if (failed(taken) || !*taken) {
    return llvm::createStringError("the emitter does not take the region");
  }
  if (failed(verify(result->kernels())) || failed(lowerKernels(*result->region))) {
    return llvm::createStringError("the kernels are not valid");
  }
  return result;
}

/// `places` are those of the inputs and results.
std::string launchAll(TestRegion &compiled, const std::vector<void *> &places,
                      const RunOptions &options) {
  return llvm::toString(runSteps(*compiled.region->kernels, compiled.region->code, places,
                                 options.symbols, options.reversed));
}

/// Numbers next to a border between two codes may take either, which few are.
testing::AssertionResult compareCodes(const reference::Tensor &expected,
                                      const reference::Tensor &actual) {
  int64_t different = 0;
  for (size_t i = 0; i < expected.byteCount(); ++i) {
    different += expected.bytes()[i] != actual.bytes()[i];
  }
  reference::Comparison comparison = reference::compareTensors(
      *reference::decode(expected), *reference::decode(actual), {0.13, 0.002});
  if (comparison.equal() && different <= expected.count() / 50) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << different << " codes differ; " << comparison.text(actual.dims());
}

testing::AssertionResult compareResults(llvm::ArrayRef<reference::Tensor> expected,
                                        llvm::ArrayRef<void *> places) {
  for (auto [i, result] : llvm::enumerate(expected)) {
    reference::Tensor actual = *reference::Tensor::create(result.dtype(), result.dims());
    memcpy(actual.mutableBytes(), places[i], actual.byteCount());
    if (result.dtype() == DType::F8E4M3FN) {
      if (testing::AssertionResult same = compareCodes(result, actual); !same) {
        return same;
      }
      continue;
    }
    reference::Comparison comparison = reference::compareTensors(result, actual);
    if (!comparison.equal()) {
      return testing::AssertionFailure()
             << "result " << i << ": "
             << (comparison.mismatch.empty() ? comparison.text(actual.dims())
                                             : comparison.mismatch);
    }
  }
  return testing::AssertionSuccess();
}

} // namespace

TestRegion emptyRegion(const std::string &symbol) {
  return llvm::cantFail(
      parse("func.func @kernel() { return }", symbol, target::targetOf("sm_90a")));
}

testing::AssertionResult matchesReference(const std::string &text, const Emitter &emitter,
                                          const std::vector<int64_t> &symbols, double inputScale,
                                          bool reversed) {
  RunOptions options;
  options.symbols = symbols;
  options.inputScale = inputScale;
  options.reversed = reversed;
  return matchesReference(text, emitter, options);
}

testing::AssertionResult matchesReference(const std::string &text, const Emitter &emitter,
                                          const RunOptions &options) {
  llvm::Expected<TestRegion> compiled = compile(text, emitter, options.gpu);
  if (!compiled) {
    return testing::AssertionFailure() << llvm::toString(compiled.takeError());
  }
  std::vector<reference::Tensor> inputs;
  for (auto [i, type] : llvm::enumerate(compiled->region->source.getArgumentTypes())) {
    inputs.push_back(
        seeded(cast<RankedTensorType>(type), options.symbols, i + 1, options.inputScale));
  }
  if (options.edit) {
    options.edit(inputs);
  }
  reference::Interpreter interpreter(nullptr);
  Result<std::vector<reference::Tensor>> expected =
      interpreter.evaluate(compiled->region->source.getBody(), inputs, options.symbols);
  if (!expected) {
    return testing::AssertionFailure() << "reference: " << expected.status().message();
  }
  if (options.poison) {
    options.poison(inputs);
  }
  std::vector<GuardedBytes> memory;
  for (const reference::Tensor &input : inputs) {
    memory.emplace_back(input.byteCount());
    memcpy(memory.back().data(), input.bytes(), input.byteCount());
  }
  for (const reference::Tensor &result : *expected) {
    memory.emplace_back(result.byteCount());
    memset(memory.back().data(), 0xff, result.byteCount());
  }
  std::vector<void *> places;
  for (const GuardedBytes &bytes : memory) {
    places.push_back(bytes.data());
  }
  for (auto [result, input] : options.overwritten) {
    places[inputs.size() + result] = places[input];
  }
  std::string problem = launchAll(*compiled, places, options);
  if (!problem.empty()) {
    return testing::AssertionFailure() << problem;
  }
  if (options.result) {
    const std::byte *first = static_cast<const std::byte *>(places[inputs.size()]);
    options.result->assign(first, first + expected->front().byteCount());
  }
  return compareResults(*expected, llvm::ArrayRef(places).drop_front(inputs.size()));
}

llvm::Expected<std::string> emitTestPtx(const std::string &text, const Emitter &emitter,
                                        const target::Target &gpu) {
  llvm::Expected<TestRegion> compiled = compile(text, emitter, gpu);
  if (!compiled) {
    return compiled.takeError();
  }
  return emitPtx(*compiled->region->kernels, gpu);
}

/// Whether machine code has a copy to shared memory (LDGSTS) at the sum of a register and a uniform
/// one: with a policy of the cache ptxas 13.0 leaves the uniform one out, and the GPU refuses that.
static bool hasUniformCopy(StringRef cubin) {
  constexpr uint64_t instructionBytes = 16, mask = 0xfff, uniformCopy = 0xdae;
  for (size_t at = 0; at + instructionBytes <= cubin.size(); at += instructionBytes) {
    uint64_t word = llvm::support::endian::read64le(cubin.data() + at);
    if ((word & mask) == uniformCopy) {
      return true;
    }
  }
  return false;
}

testing::AssertionResult assembles(const std::string &ptx, const target::Target &gpu) {
  llvm::ErrorOr<std::string> ptxas = llvm::sys::findProgramByName("ptxas");
  if (!ptxas) {
    ptxas = llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
  }
  if (!ptxas) {
    return testing::AssertionSuccess() << "no ptxas on this machine";
  }
  SmallString<64> source, log, cubin;
  llvm::sys::fs::createTemporaryFile("kernel", "ptx", source);
  llvm::sys::fs::createTemporaryFile("kernel", "log", log);
  llvm::sys::fs::createTemporaryFile("kernel", "cubin", cubin);
  std::error_code problem;
  llvm::raw_fd_ostream(source, problem) << ptx;
  std::string name(gpu.variant());
  int status = llvm::sys::ExecuteAndWait(
      *ptxas, {*ptxas, "-v", "--warn-on-spills", "-arch", name, source, "-o", cubin}, std::nullopt,
      {StringRef(""), StringRef(log), StringRef(log)});
  std::string text = (*llvm::MemoryBuffer::getFile(log))->getBuffer().str();
  bool isRefused = StringRef(ptx).contains("cp.async.cg.shared.global.L2::cache_hint") &&
                   hasUniformCopy((*llvm::MemoryBuffer::getFile(cubin))->getBuffer());
  for (StringRef file : {source, log, cubin}) {
    llvm::sys::fs::remove(file);
  }
  if (isRefused) {
    return testing::AssertionFailure() << "a copy by a policy that the GPU refuses";
  }
  bool spills = false;
  for (StringRef line : llvm::split(text, '\n')) {
    spills |= line.contains("spill stores") && !line.contains(" 0 bytes spill stores");
  }
  return (status == 0 && !spills ? testing::AssertionSuccess() : testing::AssertionFailure())
         << text;
}

std::string regionText(const std::string &strategy, const std::string &signature,
                       const std::string &body, const std::string &symbols) {
  std::string attributes = symbols.empty() ? "" : " attributes {tn.symbols = [" + symbols + "]}";
  return "module" + attributes + " {\n  func.func @kernel" + signature +
         " attributes {tn.strategy = \"" + strategy + "\"} {\n" + body + "\n  }\n}\n";
}

Emitter byFamily(std::vector<std::string> names) {
  return [names](RegionBuilder &region) -> mlir::FailureOr<bool> {
    for (const std::string &name : names) {
      const KernelFamily *family = kernelFamilies().find(name);
      FamilyMatch match = kernelFamilies().match(*family, region);
      if (match) {
        if (failed(family->emit(region, match.problem, *match.choice))) {
          return mlir::failure();
        }
        return true;
      }
    }
    return false;
  };
}

} // namespace tenon::codegen::cuda
