// Checks kernels by what the engine holds: the code object, symbol and sizes of their steps.
// Relies on the interpreter for what a reference gives.
//
// One file: what the runs of a kernel must show, with what makes and names their inputs.
#include "compiler/pipeline/KernelCheck.h"

#include "compiler/dispatch/Names.h"
#include "compiler/graph/Constraints.h"
#include "compiler/kernels/Call.h"
#include "compiler/pipeline/KernelReference.h"
#include "compiler/pipeline/NumericCheck.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/Shape.h"
#include "support/text/Text.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace tenon::pipeline {
namespace {

using kernels::Kernel;
using reference::Tensor;

/// Values of symbols, one after the other, within their ranges: tails and whole vectors, and more
/// than a grid point has.
constexpr int64_t kSizes[][4] = {{1, 2, 1, 3}, {5, 3, 7, 2}, {64, 16, 32, 48}, {777, 65, 33, 17}};
/// What outputs are filled with: an element that holds both fillings was not written.
constexpr int kFillings[] = {0xA5, 0x3C};

/// A region whose only operation is one of the user's, and what the engine has of it.
struct CheckedRegion {
  tn::RegionOp region;
  tn::CustomOp op;
  Kernel kernel;
  const codegen::RegionCode *code;
  const codegen::RegionStep *step;
  ArrayRef<AffineExpr> symbols;                ///< of the region, over those of the model
  std::optional<ReferenceCode> reference = {}; ///< a function beside which it is checked

  /// What it is checked beside; empty for nothing.
  std::string truth() {
    return reference ? strCat(kernel.referenceSymbol, " of ", kernel.referenceFile)
           : op.getReference().empty() ? ""
                                       : kernel.reference;
  }

  std::string name() const {
    return strCat("node '", dispatch::nameOf(region), "' (", kernel.op, ", kernel '", kernel.symbol,
                  "')");
  }
};

/// One call: the symbols of the model, and tensors in the order of the operation's operands.
struct Sample {
  SmallVector<int64_t> symbols;
  std::vector<Tensor> inputs;
};

class KernelChecker {
public:
  KernelChecker(const CompileOptions &compileOptions, ModuleOp checked,
                const CompiledRegions &regions)
      : options(compileOptions), module(checked), compiled(regions),
        interpreter(nullptr, {reference::Precision::Native, options.threads}) {}

  /// The sentence for the record.
  Result<std::string> check(CheckedRegion &region);
  /// The times of single calls, first at the sizes of `records`, then at ever larger ones that the
  /// model allows; none if the kernel does not run here.
  Result<std::vector<dispatch::MeasuredTime>> measure(CheckedRegion &region,
                                                      const dispatch::Records &records);

private:
  std::vector<SmallVector<int64_t>> symbolSets();
  Result<Sample> sampleAt(CheckedRegion &region, ArrayRef<int64_t> symbols) const;
  Result<kernels::TrialResult> run(CheckedRegion &region, const Sample &sample, int filling);
  Result<kernels::Trial> trialOf(CheckedRegion &region, const Sample &sample, int filling) const;
  Status checkAt(CheckedRegion &region, const Sample &sample);
  Status compare(CheckedRegion &region, const Sample &sample, const kernels::TrialResult &result);
  Result<std::vector<Tensor>> expected(CheckedRegion &region, const Sample &sample);
  Status checkWritten(CheckedRegion &region, const Sample &sample, const kernels::TrialResult &one,
                      const kernels::TrialResult &other) const;
  Status checkRows(CheckedRegion &region, const Sample &sample);
  Status checkRowsOf(CheckedRegion &region, const Sample &part, const kernels::TrialResult &whole,
                     ArrayRef<int64_t> rows, int64_t count);
  /// The numbers of the operation's outputs that the region has.
  static SmallVector<unsigned> outputsOf(CheckedRegion &region);

  const CompileOptions &options;
  ModuleOp module;
  const CompiledRegions &compiled;
  reference::Interpreter interpreter;
};

Result<reference::Sizes> dimsOf(Type type, ArrayRef<int64_t> symbols) {
  reference::Sizes dims;
  for (AffineExpr dim : tn::getDims(type)) {
    std::optional<int64_t> size = tn::evaluate(dim, symbols);
    if (!size || *size < 0) {
      return Status::error(ErrorId::RunBadSize, "a dim has no size");
    }
    dims.push_back(*size);
  }
  return dims;
}

std::string sizesText(const Sample &sample) {
  std::string text;
  for (const Tensor &input : sample.inputs) {
    text +=
        strCat(text.empty() ? "" : ", ", formatDims({input.dims().data(), input.dims().size()}));
  }
  return strCat("inputs of ", text);
}

std::string position(int64_t index, ArrayRef<int64_t> dims) {
  std::string text;
  for (size_t i = dims.size(); i-- > 0;) {
    text = strCat(index % dims[i], text.empty() ? "" : ", ", text);
    index /= dims[i];
  }
  return strCat("[", text, "]");
}

std::vector<SmallVector<int64_t>> KernelChecker::symbolSets() {
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  tn::SymbolList list(module);
  ArrayRef<tn::Symbol> symbols = list.symbols();
  std::vector<SmallVector<int64_t>> sets;
  for (const auto &sizes : kSizes) {
    SmallVector<int64_t> values;
    for (auto [index, symbol] : llvm::enumerate(symbols)) {
      values.push_back(std::clamp(sizes[index % 4], symbol.min, symbol.max));
    }
    if (tn::satisfyConstraints(function, values) && !llvm::is_contained(sets, values)) {
      sets.push_back(std::move(values));
    }
  }
  return sets;
}

Result<Sample> KernelChecker::sampleAt(CheckedRegion &region, ArrayRef<int64_t> symbols) const {
  Sample sample{SmallVector<int64_t>(symbols), {}};
  for (auto [index, input] : llvm::enumerate(region.op.getInputs())) {
    // A value that the node reads twice is one buffer.
    size_t first = llvm::find(region.op.getInputs(), input) - region.op.getInputs().begin();
    if (first < index) {
      sample.inputs.push_back(sample.inputs[first]);
      continue;
    }
    TENON_ASSIGN(reference::Sizes dims, dimsOf(input.getType(), symbols));
    TENON_ASSIGN(Tensor tensor, seededTensor(region.kernel.inputs[index].type, dims, index + 1));
    sample.inputs.push_back(std::move(tensor));
  }
  return sample;
}

SmallVector<unsigned> KernelChecker::outputsOf(CheckedRegion &region) {
  SmallVector<unsigned> outputs;
  for (Value value : region.op->getBlock()->getTerminator()->getOperands()) {
    outputs.push_back(cast<OpResult>(value).getResultNumber());
  }
  return outputs;
}

Result<kernels::Trial> KernelChecker::trialOf(CheckedRegion &region, const Sample &sample,
                                              int filling) const {
  kernels::Trial trial;
  trial.symbol = region.step->symbol;
  trial.isAtStart = filling == kFillings[1];
  trial.threads = region.step->threads;
  SmallVector<int64_t> symbols;
  for (AffineExpr symbol : region.symbols) {
    symbols.push_back(tn::evaluate(symbol, sample.symbols).value_or(0));
  }
  auto valueOf = [&](const codegen::Program &program) {
    return program.empty() ? 0 : engine::evaluate(program, symbols).value_or(0);
  };
  llvm::transform(region.step->sizes, std::back_inserter(trial.sizes), valueOf);
  trial.grid = valueOf(region.step->grid);
  Block &body = region.region.getBody().front();
  unsigned inputs = body.getNumArguments();
  SmallVector<unsigned> outputs = outputsOf(region);
  for (uint32_t buffer : region.step->buffers) {
    if (buffer < inputs) {
      size_t operand = llvm::find(region.op.getInputs(), body.getArgument(buffer)) -
                       region.op.getInputs().begin();
      Bytes bytes = std::as_bytes(
          std::span(sample.inputs[operand].bytes(), sample.inputs[operand].byteCount()));
      trial.buffers.push_back({region.kernel.inputs[operand].name, false,
                               std::vector<std::byte>(bytes.begin(), bytes.end())});
    } else if (buffer < inputs + outputs.size()) {
      unsigned output = outputs[buffer - inputs];
      TENON_ASSIGN(reference::Sizes dims,
                   dimsOf(region.op.getOutputs()[output].getType(), sample.symbols));
      const kernels::Port &port = region.kernel.outputs[output];
      uint64_t bytes = reference::productOf(dims) * (bitWidth(port.type) / 8);
      trial.buffers.push_back(
          {port.name, true, std::vector<std::byte>(bytes, static_cast<std::byte>(filling))});
    } else { // of an output that nobody reads
      int64_t bytes = valueOf(region.code->temporaries[buffer - inputs - outputs.size()]);
      trial.buffers.push_back({"an output that is not read", true, std::vector<std::byte>(bytes)});
    }
  }
  trial.scratchBytes = valueOf(region.step->scratch);
  return trial;
}

/// On the best level that this machine runs; levels come in the order of their features.
Result<kernels::TrialResult> KernelChecker::run(CheckedRegion &region, const Sample &sample,
                                                int filling) {
  TENON_ASSIGN(kernels::Trial trial, trialOf(region, sample, filling));
  Status status;
  for (size_t level = compiled.levels.size(); level-- > 0;) {
    trial.level = compiled.levels[level].level;
    trial.code = std::as_bytes(std::span(compiled.code[level].data(), compiled.code[level].size()));
    Result<kernels::TrialResult> result = options.tryKernel(trial);
    if (result) {
      result->outputs.resize(outputsOf(region).size()); // those that are not read come last
    }
    if (result || result.status().id() != ErrorId::KernelUnchecked) {
      return result;
    }
    status = result.takeStatus();
  }
  return status;
}

/// The outputs that the region has, by the reference.
Result<std::vector<Tensor>> KernelChecker::expected(CheckedRegion &region, const Sample &sample) {
  std::vector<Tensor> outputs;
  if (!region.reference) {
    TENON_ASSIGN(std::vector<Tensor> all,
                 interpreter.evaluateOp(region.op, sample.inputs, sample.symbols));
    for (unsigned output : outputsOf(region)) {
      outputs.push_back(std::move(all[output]));
    }
    return outputs;
  }
  const ReferenceCode &code = *region.reference;
  CheckedRegion function = {region.region,         region.op,   region.kernel, &code.region,
                            &code.region.steps[0], code.symbols};
  TENON_ASSIGN(kernels::Trial trial, trialOf(function, sample, kFillings[0]));
  trial.level = code.level;
  trial.code = std::as_bytes(std::span(code.code.data(), code.code.size()));
  Result<kernels::TrialResult> result = options.tryKernel(trial);
  if (!result) {
    Status status = result.takeStatus();
    status.prefix(strCat("its reference, ", region.truth()));
    return status;
  }
  for (auto [index, output] : llvm::enumerate(outputsOf(region))) {
    ArrayRef<std::byte> bytes = result->outputs[index];
    TENON_ASSIGN(reference::Sizes dims,
                 dimsOf(region.op.getOutputs()[output].getType(), sample.symbols));
    TENON_ASSIGN(Tensor tensor,
                 Tensor::copy(region.kernel.outputs[output].type, dims,
                              {reinterpret_cast<const char *>(bytes.data()), bytes.size()}));
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

Status KernelChecker::compare(CheckedRegion &region, const Sample &sample,
                              const kernels::TrialResult &result) {
  TENON_ASSIGN(std::vector<Tensor> truths, expected(region, sample));
  for (auto [index, output] : llvm::enumerate(outputsOf(region))) {
    ArrayRef<std::byte> bytes = result.outputs[index];
    const kernels::Port &port = region.kernel.outputs[output];
    const Tensor &truth = truths[index];
    TENON_ASSIGN(Tensor actual,
                 Tensor::copy(port.type, truth.dims(),
                              {reinterpret_cast<const char *>(bytes.data()), bytes.size()}));
    double tolerance = region.kernel.tolerance;
    reference::Comparison comparison = reference::compareTensors(
        truth, actual,
        tolerance > 0 ? reference::Tolerance{.relative = tolerance, .absolute = tolerance}
                      : reference::toleranceOf(port.type));
    if (!comparison.equal()) {
      return Status::error(ErrorId::KernelWrong,
                           strCat("output '", port.name, "': ", comparison.text(truth.dims()),
                                  ", with ", sizesText(sample)),
                           "correct the kernel, its reference, or \"tolerance\" in its "
                           "description");
    }
  }
  return Status::ok();
}

Status KernelChecker::checkWritten(CheckedRegion &region, const Sample &sample,
                                   const kernels::TrialResult &one,
                                   const kernels::TrialResult &other) const {
  for (auto [index, output] : llvm::enumerate(outputsOf(region))) {
    const kernels::Port &port = region.kernel.outputs[output];
    TENON_ASSIGN(reference::Sizes dims,
                 dimsOf(region.op.getOutputs()[output].getType(), sample.symbols));
    size_t width = bitWidth(port.type) / 8;
    ArrayRef<std::byte> first = one.outputs[index], second = other.outputs[index];
    for (size_t at = 0; at < first.size(); at += width) {
      auto isFilling = [&](ArrayRef<std::byte> bytes, int filling) {
        return llvm::all_of(bytes.slice(at, width),
                            [&](std::byte byte) { return byte == std::byte(filling); });
      };
      std::string where = strCat("element ", position(at / width, dims), " of output '", port.name,
                                 "', with ", sizesText(sample));
      if (isFilling(first, kFillings[0]) && isFilling(second, kFillings[1])) {
        return Status::error(ErrorId::KernelUnwritten, strCat("the kernel does not write ", where),
                             "have it write each element, or correct \"grid\" in its description");
      }
      if (first.slice(at, width) != second.slice(at, width)) {
        return Status::error(ErrorId::KernelWrong, strCat("two runs differ in ", where),
                             "have the kernel write each element itself, from its inputs alone");
      }
    }
  }
  return Status::ok();
}

/// These rows of a tensor, in this order.
Result<Tensor> rowsOf(const Tensor &tensor, ArrayRef<int64_t> rows) {
  SmallVector<int64_t> dims(tensor.dims());
  size_t bytes = tensor.byteCount() / dims[0];
  dims[0] = rows.size();
  TENON_ASSIGN(Tensor part, Tensor::create(tensor.dtype(), dims));
  for (auto [index, row] : llvm::enumerate(rows)) {
    std::copy_n(tensor.bytes() + row * bytes, bytes, part.mutableBytes() + index * bytes);
  }
  return part;
}

/// That a run on some rows of the inputs gives these rows of the outputs, bit for bit.
Status KernelChecker::checkRowsOf(CheckedRegion &region, const Sample &part,
                                  const kernels::TrialResult &whole, ArrayRef<int64_t> rows,
                                  int64_t count) {
  Sample sample{part.symbols, {}};
  for (auto [port, tensor] : llvm::zip_equal(region.kernel.inputs, part.inputs)) {
    bool hasRows = !port.dims.empty() && port.dims[0] == region.kernel.rows;
    TENON_ASSIGN(Tensor own, hasRows ? rowsOf(tensor, rows) : Result<Tensor>(tensor));
    sample.inputs.push_back(std::move(own));
  }
  TENON_ASSIGN(kernels::TrialResult result, run(region, sample, kFillings[0]));
  for (auto [index, output] : llvm::enumerate(outputsOf(region))) {
    ArrayRef<std::byte> all = whole.outputs[index], own = result.outputs[index];
    size_t bytes = all.size() / count;
    for (auto [at, row] : llvm::enumerate(rows)) {
      if (own.slice(at * bytes, bytes) != all.slice(row * bytes, bytes)) {
        return Status::error(ErrorId::KernelWrong,
                             strCat("row ", row, " of output '", region.kernel.outputs[output].name,
                                    "' depends on other rows, with ", sizesText(part)),
                             "leave \"rows\" out of its description, or correct the kernel");
      }
    }
  }
  return Status::ok();
}

/// What "rows" claims: in another order, and with fewer of them.
Status KernelChecker::checkRows(CheckedRegion &region, const Sample &sample) {
  if (!region.op.getRows()) {
    return Status::ok();
  }
  AffineExpr size = region.op.getSizes().getResult(*region.op.getRows());
  int64_t count = tn::evaluate(size, sample.symbols).value_or(0);
  if (count < 2 || tn::constantDim(size)) {
    return Status::ok(); // no batch that could meet others
  }
  TENON_ASSIGN(kernels::TrialResult whole, run(region, sample, kFillings[0]));
  SmallVector<int64_t> reversed = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, count)));
  TENON_TRY(checkRowsOf(region, sample, whole, reversed, count));
  AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(size);
  if (!symbol) {
    return Status::ok();
  }
  int64_t least = std::max<int64_t>(tn::SymbolList(module).symbols()[symbol.getPosition()].min, 1);
  Sample fewer = sample;
  fewer.symbols[symbol.getPosition()] = std::min(least, count);
  return checkRowsOf(region, fewer, whole,
                     llvm::to_vector(llvm::seq<int64_t>(0, std::min(least, count))), count);
}

Status KernelChecker::checkAt(CheckedRegion &region, const Sample &sample) {
  std::vector<kernels::TrialResult> results;
  for (int filling : kFillings) {
    Result<kernels::TrialResult> result = run(region, sample, filling);
    if (!result) {
      const Status &status = result.status();
      if (status.id() == ErrorId::KernelUnchecked) {
        return status;
      }
      return Status::error(status.id(), strCat(status.message(), ", with ", sizesText(sample)),
                           status.hint());
    }
    results.push_back(std::move(*result));
  }
  TENON_TRY(checkWritten(region, sample, results[0], results[1]));
  TENON_TRY(checkRows(region, sample));
  return region.truth().empty() ? Status::ok() : compare(region, sample, results[0]);
}

Result<std::string> KernelChecker::check(CheckedRegion &region) {
  if (!region.kernel.referenceSymbol.empty()) {
    TENON_ASSIGN(region.reference,
                 compileReference(region.region, region.kernel, options.kernelLibraries));
  }
  bool hasReference = !region.truth().empty();
  if (!hasReference && !options.uncheckedKernels) {
    return Status::error(
        ErrorId::KernelUnchecked, "it has no reference to be checked beside",
        "name an ONNX model or a function under \"reference\" in its description, or "
        "take it as it is with --unchecked-kernels");
  }
  std::vector<SmallVector<int64_t>> sets = symbolSets();
  for (ArrayRef<int64_t> symbols : sets) {
    TENON_ASSIGN(Sample sample, sampleAt(region, symbols));
    Status status = checkAt(region, sample);
    // Engines for a GPU are made on machines without one, and say so.
    bool isOfGpu = region.kernel.backend == kernels::kCuda;
    if (status.id() == ErrorId::KernelUnchecked && (options.uncheckedKernels || isOfGpu)) {
      if (isOfGpu && options.notice) {
        options.notice(strCat(region.name(), " is not checked: ", status.message()));
      }
      return strCat("not checked: ", status.message());
    }
    TENON_TRY(std::move(status));
  }
  std::string at = strCat(sets.size(), sets.size() == 1 ? " set of sizes" : " sets of sizes");
  return hasReference
             ? strCat("checked beside ", region.truth(), " at ", at, "; the time is measured")
             : strCat("run at ", at,
                      ", results not checked (--unchecked-kernels); the time is measured");
}

/// After a call of so many seconds, or before one of more bytes, no larger sizes are measured.
constexpr double kEnoughSeconds = 1e-4;
constexpr int64_t kEnoughBytes = 64 << 20;

Result<std::vector<dispatch::MeasuredTime>>
KernelChecker::measure(CheckedRegion &region, const dispatch::Records &records) {
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  tn::SymbolList list(module);
  ArrayRef<tn::Symbol> symbols = list.symbols();
  SmallVector<int64_t> values;
  for (const tn::Symbol &symbol : symbols) {
    auto size =
        llvm::find_if(records.sizes, [&](const auto &named) { return named.first == symbol.name; });
    values.push_back(size == records.sizes.end() ? symbol.min : size->second);
  }
  std::vector<dispatch::MeasuredTime> times;
  while (tn::satisfyConstraints(function, values)) {
    TENON_ASSIGN(Sample sample, sampleAt(region, values));
    TENON_ASSIGN(kernels::Trial trial, trialOf(region, sample, kFillings[0]));
    int64_t bytes = 0;
    for (const kernels::TrialBuffer &buffer : trial.buffers) {
      bytes += buffer.bytes.size();
    }
    if (!times.empty() && (bytes <= times.back().bytes || bytes > kEnoughBytes)) {
      break;
    }
    Result<kernels::TrialResult> result = run(region, sample, kFillings[0]);
    if (!result) {
      return result.status().id() == ErrorId::KernelUnchecked
                 ? Result<std::vector<dispatch::MeasuredTime>>(std::move(times))
                 : result.takeStatus();
    }
    times.push_back({bytes, result->seconds * 1e6});
    SmallVector<int64_t> before = values;
    for (auto [value, symbol] : llvm::zip_equal(values, symbols)) {
      value = std::min(2 * value, symbol.max);
    }
    if (result->seconds > kEnoughSeconds || values == before) {
      break;
    }
  }
  return times;
}

/// Of the kernel that a region has, on all of its levels: what was checked, and the times measured.
void note(dispatch::Records &records, size_t index, const std::string &why,
          std::vector<dispatch::MeasuredTime> times) {
  dispatch::RegionRecord &region = records.regions[index];
  double microseconds = times.empty() ? 0 : times.front().microseconds;
  auto set = [&](std::vector<dispatch::CandidateRecord> &candidates) {
    for (dispatch::CandidateRecord &candidate : candidates) {
      if (candidate.verdict == "chosen") {
        candidate.why = why;
        candidate.microseconds = microseconds > 0 ? microseconds : candidate.microseconds;
      }
    }
  };
  set(region.candidates);
  for (dispatch::LevelRecord &level : region.levels) {
    set(level.candidates);
    level.microseconds = microseconds > 0 ? microseconds : level.microseconds;
  }
  if (microseconds > 0) {
    records.setKernelTime(index, microseconds);
  }
  region.measured = std::move(times);
}

} // namespace

Status checkBackend(const CompileOptions &options, ModuleOp module, bool isGpu) {
  Status status;
  std::string_view backend = isGpu ? kernels::kCuda : kernels::kCpu;
  module.walk([&](tn::CustomOp op) {
    if (status && !kernels::kernelFor(op, backend)) {
      status = Status::error(
          ErrorId::KernelMisfit,
          strCat("the kernels given for ", std::string_view(op.getName()), " include none for ",
                 isGpu ? "GPUs" : "CPUs"),
          strCat("add one whose \"backend\" is \"", backend, "\", or name another --target"));
    }
    if (status && options.guard) {
      status = Status::error(ErrorId::BadArgument,
                             strCat("--guard cannot check the accesses of the kernel for ",
                                    std::string_view(op.getName())),
                             "leave out --guard: kernels of the user's are checked by guard pages");
    }
  });
  return status;
}

Status checkKernels(const CompileOptions &options, ModuleOp module, const CompiledRegions &compiled,
                    dispatch::Records &records) {
  size_t index = 0;
  Status status;
  std::set<std::string> checked;
  KernelChecker checker(options, module, compiled);
  module.walk([&](tn::RegionOp region) {
    size_t own = index++;
    tn::CustomOp op = dyn_cast<tn::CustomOp>(region.getBody().front().front());
    if (!op || !status) {
      return;
    }
    const plan::LevelCode &level = compiled.levels.front();
    const codegen::RegionCode &code = level.regions[own];
    std::string_view backend = engine::isCudaLevel(level.level) ? kernels::kCuda : kernels::kCpu;
    CheckedRegion each{region,
                       op,
                       *kernels::kernelFor(op, backend),
                       &code,
                       &code.steps.front(),
                       compiled.regionSymbols[own]};
    Result<std::string> said =
        options.tryKernel
            ? checker.check(each)
            : Result<std::string>(Status::error(ErrorId::KernelUnchecked,
                                                "kernels cannot be run by this program",
                                                "compile with the command tenon"));
    if (!said) {
      status = said.takeStatus();
      status.prefix(each.name());
      return;
    }
    if (!region.getRecord()) {
      return; // of a dumped phase
    }
    Result<std::vector<dispatch::MeasuredTime>> times = checker.measure(each, records);
    if (!times) {
      status = times.takeStatus();
      status.prefix(each.name());
      return;
    }
    note(records, *region.getRecord(),
         strCat(each.kernel.symbol, " of ", each.kernel.file, ", ", *said), std::move(*times));
  });
  return status;
}

} // namespace tenon::pipeline
