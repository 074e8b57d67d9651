// A kernel of the user's: one launch of an entry of its library's PTX, joined with the engine's.
// Relies on the library having been checked when it was read.
#include "compiler/codegen/cuda/library/UserKernel.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/kernels/Call.h"
#include "support/text/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using kernels::Argument;

StringRef textOf(const kernels::Library &library) {
  return {reinterpret_cast<const char *>(library.bytes.data()), library.bytes.size()};
}

std::array<int64_t, 3> blockOf(const kernels::Kernel &kernel) {
  std::array<int64_t, 3> block = {1, 1, 1};
  llvm::copy(kernel.block, block.begin());
  return block;
}

/// Widths that a parameter may have, in bytes: of pointers and F64 8, of F32 4, of whole numbers
/// either.
bool fitsArgument(const kernels::Kernel &kernel, const std::string &argument, uint64_t bytes) {
  for (const std::vector<kernels::Port> *ports : {&kernel.inputs, &kernel.outputs}) {
    for (const kernels::Port &port : *ports) {
      if (port.name == argument) {
        return bytes == 8;
      }
    }
  }
  for (const kernels::AttributeRule &rule : kernel.attributes) {
    for (size_t i = 0; i < rule.elements(); ++i) {
      if (rule.elementName(i) == argument && rule.type != DType::I64) {
        return bytes == (rule.type == DType::F32 ? 4 : 8);
      }
    }
  }
  return bytes == 4 || bytes == 8;
}

std::string namesOf(ArrayRef<PtxEntry> entries) {
  std::string names;
  for (const PtxEntry &entry : entries) {
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  return names;
}

/// Why the description does not say what the entry is; empty if it does.
std::string misfitOf(const kernels::Kernel &kernel, const PtxEntry &entry,
                     const target::Target &gpu) {
  size_t passed = kernel.arguments.size() + unnamedParameters(kernel, entry);
  if (passed != entry.parameters.size()) {
    return strCat("takes ", entry.parameters.size(), " parameters, 'arguments' has ",
                  kernel.arguments.size());
  }
  for (auto [i, argument] : llvm::enumerate(kernel.arguments)) {
    uint64_t bytes = entry.parameters[i].bytes;
    if (!fitsArgument(kernel, argument, bytes)) {
      return strCat("takes ", bytes, " bytes as parameter ", i + 1, ", which '", argument,
                    "' does not have");
    }
  }
  for (const kernels::Port &port : kernel.outputs) {
    if (llvm::count(kernel.arguments, port.name) != 1) {
      return strCat("is not passed the output '", port.name, "' once");
    }
  }
  std::array<int64_t, 3> block = blockOf(kernel);
  int64_t threads = block[0] * block[1] * block[2];
  if (entry.exactThreads != 0 && entry.exactThreads != threads) {
    return strCat("is compiled for blocks of ", entry.exactThreads, " threads, 'block' has ",
                  threads);
  }
  if (entry.mostThreads != 0 && threads > entry.mostThreads) {
    return strCat("is compiled for blocks of at most ", entry.mostThreads, " threads, 'block' has ",
                  threads);
  }
  int64_t dynamic = 0;
  bool isKnown = !StringRef(kernel.scratchBytes).getAsInteger(10, dynamic);
  if (isKnown && dynamic + entry.sharedBytes > gpu.sharedBytes) {
    return strCat("needs ", dynamic + entry.sharedBytes, " bytes of shared memory a block, ",
                  gpu.name, " has ", gpu.sharedBytes);
  }
  return "";
}

/// As 64 bits, of which a narrower parameter is the lowest.
Program bitsOf(TypedAttr attribute) {
  int64_t bits = 0;
  if (IntegerAttr integer = dyn_cast<IntegerAttr>(attribute)) {
    bits = integer.getInt();
  } else {
    bits = cast<FloatAttr>(attribute).getValue().bitcastToAPInt().getZExtValue();
  }
  return {{engine::ExprOp::Constant, bits}};
}

FamilyMatch matchUserKernel(RegionBuilder &region) {
  auto ops = region.source.getOps<tn::CustomOp>();
  if (ops.empty()) {
    return FamilyMatch::refuse("not an operator of the user's");
  }
  return kernels::callFor(*ops.begin(), kernels::kCuda)
             ? FamilyMatch::take(*ops.begin())
             : FamilyMatch::refuse("the user gave no kernel for GPUs");
}

/// The number of a buffer of the operation, inputs before outputs. A result that nobody reads has
/// none in the region.
unsigned bufferOf(RegionBuilder &region, tn::CustomOp op, unsigned number) {
  if (number < op.getInputs().size()) {
    return cast<BlockArgument>(op.getInputs()[number]).getArgNumber();
  }
  Value output = op.getOutputs()[number - op.getInputs().size()];
  ValueRange results = op->getBlock()->getTerminator()->getOperands();
  size_t index = llvm::find(results, output) - results.begin();
  if (index < results.size()) {
    return region.output(index);
  }
  AffineExpr bytes = getAffineConstantExpr(
      byteSize(storageType(getElementTypeOrSelf(output.getType()))), op.getContext());
  for (AffineExpr dim : tn::getDims(output.getType())) {
    bytes = bytes * dim;
  }
  return region.addTemporary(bytes);
}

LogicalResult emitUserKernel(RegionBuilder &region, const tn::CustomOp &matched,
                             const dispatch::KernelChoice &) {
  tn::CustomOp op = matched;
  kernels::Call call = *kernels::callFor(op, kernels::kCuda);
  auto library = llvm::find_if(
      region.libraries, [&](const auto &library) { return library->hash == call.kernel.library; });
  if (library == region.libraries.end()) {
    return op.emitError("the library of the kernel is not there");
  }
  llvm::Expected<UserPtx> ptx = UserPtx::parse(textOf(**library));
  const PtxEntry *entry = ptx ? ptx->find(call.kernel.symbol) : nullptr;
  if (!entry) {
    return op.emitError(ptx ? "the kernel is not in its library" : llvm::toString(ptx.takeError()));
  }
  RegionStep step;
  step.symbol = region.symbol;
  std::vector<unsigned> parameters, numbers;
  SmallVector<std::pair<unsigned, unsigned>> pointers; // buffer, parameter
  for (auto [i, argument] : llvm::enumerate(call.arguments)) {
    if (argument.kind == Argument::Kind::Buffer) {
      pointers.emplace_back(bufferOf(region, op, argument.buffer), i);
      continue;
    }
    numbers.push_back(i);
    step.sizes.push_back(argument.kind == Argument::Kind::Attribute ? bitsOf(argument.attribute)
                                                                    : programOf(argument.size));
  }
  llvm::sort(pointers); // what is read before what is written
  for (auto [buffer, parameter] : pointers) {
    parameters.push_back(parameter);
    step.buffers.push_back(buffer);
    step.reads += buffer < region.source.getNumArguments();
  }
  for (size_t i = call.arguments.size(); i < entry->parameters.size(); ++i) {
    numbers.push_back(i);
    step.sizes.push_back({{engine::ExprOp::Constant, 0}});
  }
  MLIRContext *context = op.getContext();
  AffineExpr blocks = getAffineConstantExpr(1, context);
  for (AffineExpr dim : call.grid) {
    blocks = blocks * dim;
  }
  call.grid.resize(3, getAffineConstantExpr(1, context));
  bool isFlat = call.kernel.grid.size() <= 1;
  for (AffineExpr dim : isFlat ? ArrayRef<AffineExpr>() : ArrayRef(call.grid)) {
    step.sizes.push_back(programOf(dim));
  }
  step.grid = programOf(tn::simplify(blocks));
  if (call.scratchBytes != getAffineConstantExpr(0, context)) {
    step.scratch = programOf(call.scratchBytes);
  }
  std::array<int64_t, 3> block = blockOf(call.kernel);
  step.threads = uint32_t(block[0] * block[1] * block[2]);
  llvm::append_range(parameters, numbers);
  llvm::Expected<std::string> code = ptx->take(
      {entry->name, region.symbol, std::move(parameters), block, isFlat ? 1u : 3u}, region.gpu);
  if (!code) {
    return op.emitError(llvm::toString(code.takeError()));
  }
  region.given = std::move(*code);
  region.code.steps.push_back(std::move(step));
  return success();
}

} // namespace

size_t unnamedParameters(const kernels::Kernel &kernel, const PtxEntry &entry) {
  size_t named = kernel.arguments.size();
  return kernel.metadata.empty() || entry.parameters.size() < named
             ? 0
             : entry.parameters.size() - named;
}

Status checkUserPtx(const kernels::Library &library, const target::Target &gpu) {
  bool isForGpus = llvm::any_of(library.kernels, [](const kernels::Kernel &kernel) {
    return kernel.backend == kernels::kCuda;
  });
  if (!isForGpus) {
    return Status::ok();
  }
  auto refused = [&](const std::string &why, std::string_view hint) {
    return Status::error(ErrorId::BadKernelLibrary, strCat(library.path, ": ", why), hint);
  };
  llvm::Expected<UserPtx> ptx = UserPtx::parse(textOf(library));
  if (!ptx) {
    return refused(llvm::toString(ptx.takeError()),
                   "compile the kernel to PTX: nvcc -ptx -arch=compute_80, or Triton's .ptx");
  }
  if (llvm::Error error = ptx->fits(gpu)) {
    return refused(llvm::toString(std::move(error)),
                   "compile the kernel for an older architecture (nvcc -ptx -arch=compute_80), or "
                   "the model for a newer one (--target)");
  }
  for (const kernels::Kernel &kernel : library.kernels) {
    if (kernel.backend != kernels::kCuda) {
      continue;
    }
    const PtxEntry *entry = ptx->find(kernel.symbol);
    if (!entry) {
      return refused(
          strCat("it has no kernel '", kernel.symbol, "'; it has ", namesOf(ptx->entries())),
          "write one of these as 'symbol'; extern \"C\" keeps a function's name");
    }
    if (std::string why = misfitOf(kernel, *entry, gpu); !why.empty()) {
      return Status::error(ErrorId::BadKernelDescription,
                           strCat(library.path, ": '", kernel.symbol, "' ", why),
                           "change the description or the kernel so that both say the same");
    }
  }
  return Status::ok();
}

constexpr KernelFamily kUserKernel = {.name = "user_kernel",
                                      .what = "a kernel of the user's",
                                      .strategies = {dispatch::kSingle},
                                      .needs = {"custom"},
                                      .match = matchUserKernel,
                                      .emit = on<emitUserKernel>};

} // namespace tenon::codegen::cuda
