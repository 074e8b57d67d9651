// Implements the bridge between the verbs and the compiler; it only converts and reads.

#include "tools/tenon/model/CompilerBridge.h"

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/graph/DimText.h"
#include "compiler/graph/GraphFacts.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/CodeTarget.h"
#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/ModelKey.h"
#include "compiler/pipeline/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "support/files/MappedFile.h"
#include "tools/plugin/GraphApi.h"
#include "tools/tenon/model/CompileOptionsOf.h"
#include "tools/tenon/model/DeclaredFacts.h"
#include "tools/tenon/model/WeightRanges.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <filesystem>
#include <set>

namespace tenon::tool {
namespace {

using pipeline::Phase;

constexpr std::array<std::pair<std::string_view, Phase>, 7> kPhases = {
    {{"import", Phase::Import},
     {"normalize", Phase::Normalize},
     {"optimize", Phase::Optimize},
     {"dispatch", Phase::Dispatch},
     {"codegen", Phase::Codegen},
     {"plan", Phase::Plan},
     {"export", Phase::Export}}};

/// Where in the whole compilation each phase begins, roughly; the last entry is the end.
constexpr std::array<double, 8> kPhaseStarts = {0, 0.03, 0.04, 0.15, 0.2, 0.85, 0.9, 1};

double overallFraction(Phase phase, double fraction) {
  size_t index = static_cast<size_t>(phase);
  return kPhaseStarts[index] + (kPhaseStarts[index + 1] - kPhaseStarts[index]) * fraction;
}

std::string_view nameOfPhase(Phase phase) {
  for (const auto &[name, value] : kPhases) {
    if (value == phase) {
      return name;
    }
  }
  return "";
}

pipeline::ShapeOption toShapeOption(const ShapeArgument &shape) {
  pipeline::ShapeOption option;
  option.input = shape.input;
  for (const ShapeArgument::Dim &dim : shape.dims) {
    option.dims.push_back({dim.min, dim.max, dim.keep});
  }
  return option;
}

/// None keeps the model's own types.
std::optional<opt::Precision> toPrecision(std::string_view name) {
  for (opt::Precision precision :
       {opt::Precision::Fp16, opt::Precision::Bf16, opt::Precision::Fp8}) {
    if (name == std::string_view(nameOf(precision))) {
      return precision;
    }
  }
  return std::nullopt;
}

std::string printType(mlir::Type type, llvm::ArrayRef<tn::Symbol> symbols) {
  mlir::RankedTensorType tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!tensor) {
    type.print(stream);
    return text;
  }
  tensor.getElementType().print(stream);
  stream << " [";
  llvm::ListSeparator comma;
  for (mlir::AffineExpr dim : tn::getDims(type)) {
    stream << comma << tn::dimText(dim, symbols);
  }
  stream << "]";
  return text;
}

std::string nameOfLocation(mlir::Location location) {
  if (mlir::NameLoc name = llvm::dyn_cast<mlir::NameLoc>(location)) {
    return name.getName().str();
  }
  if (mlir::FusedLoc fused = llvm::dyn_cast<mlir::FusedLoc>(location)) {
    return fused.getLocations().empty() ? "" : nameOfLocation(fused.getLocations().front());
  }
  return "";
}

std::string portName(mlir::DictionaryAttr attributes, llvm::StringRef fallback) {
  mlir::StringAttr name =
      attributes ? attributes.getAs<mlir::StringAttr>("tn.name") : mlir::StringAttr();
  return name ? name.str() : fallback.str();
}

/// Walks the model's function and notes what people want to see of it.
class FactsReader {
public:
  FactsReader(mlir::func::FuncOp function, const tn::SymbolList &symbolList,
              const tn::WeightStore &weightStore)
      : main(function), symbols(symbolList.symbols()), store(weightStore) {}

  ModelFacts read() {
    for (const tn::Symbol &symbol : symbols) {
      facts.symbols.push_back({symbol.name, symbol.min, symbol.max});
    }
    for (mlir::BlockArgument argument : main.getArguments()) {
      unsigned index = argument.getArgNumber();
      producers[argument] = -1 - static_cast<int64_t>(index);
      facts.inputs.push_back({portName(main.getArgAttrDict(index), "input" + std::to_string(index)),
                              printType(argument.getType(), symbols)});
    }
    for (mlir::Operation &operation : main.getBody().front()) {
      readOperation(operation);
    }
    return std::move(facts);
  }

private:
  void readOperation(mlir::Operation &operation) {
    if (operation.hasTrait<mlir::OpTrait::IsTerminator>()) {
      for (mlir::OpOperand &operand : operation.getOpOperands()) {
        unsigned index = operand.getOperandNumber();
        facts.outputs.push_back(
            {portName(main.getResultAttrDict(index), "output" + std::to_string(index)),
             printType(operand.get().getType(), symbols)});
      }
      return;
    }
    std::string op = operation.getName().stripDialect().str();
    if (op == "weight" || op == "constant") {
      countWeight(operation);
      return;
    }
    ++facts.opCounts[op];
    ModelNode node{op, nameOfLocation(operation.getLoc()), "", {}};
    if (operation.getNumResults() > 0) {
      node.type = printType(operation.getResult(0).getType(), symbols);
    }
    for (mlir::Value operand : operation.getOperands()) {
      llvm::DenseMap<mlir::Value, int64_t>::iterator found = producers.find(operand);
      if (found != producers.end()) {
        node.producers.push_back(found->second);
      }
    }
    for (mlir::Value result : operation.getResults()) {
      producers[result] = static_cast<int64_t>(facts.nodes.size());
    }
    facts.nodes.push_back(std::move(node));
  }

  void countWeight(mlir::Operation &operation) {
    tn::WeightOp weight = llvm::dyn_cast<tn::WeightOp>(operation);
    const tn::WeightEntry *entry = weight ? store.find(weight.getId()) : nullptr;
    if (entry) {
      ++facts.weightCount;
      facts.weightBytes += entry->size;
    }
  }

  mlir::func::FuncOp main;
  llvm::ArrayRef<tn::Symbol> symbols;
  const tn::WeightStore &store;
  llvm::DenseMap<mlir::Value, int64_t> producers;
  ModelFacts facts;
};

frontend::ShapeOverride toOverride(const ShapeArgument &shape) {
  frontend::ShapeOverride result;
  result.input = shape.input;
  for (const ShapeArgument::Dim &dim : shape.dims) {
    frontend::DimOverride::Kind kind = dim.keep             ? frontend::DimOverride::Kind::Keep
                                       : dim.min == dim.max ? frontend::DimOverride::Kind::Constant
                                                            : frontend::DimOverride::Kind::Range;
    result.dims.push_back({kind, dim.min, dim.max});
  }
  return result;
}

} // namespace

std::vector<std::string> phaseNames() {
  std::vector<std::string> names;
  for (const auto &[name, phase] : kPhases) {
    names.emplace_back(name);
  }
  return names;
}

frontend::ImportOptions importOptionsOf(const std::vector<ShapeArgument> &shapes) {
  frontend::ImportOptions options;
  for (const ShapeArgument &shape : shapes) {
    options.shapes.push_back(toOverride(shape));
  }
  return options;
}

pipeline::CompileOptions compileOptionsOf(const CompileRequest &request) {
  pipeline::CompileOptions options;
  options.model = request.model;
  options.output = request.output;
  for (const ShapeArgument &shape : request.shapes) {
    options.shapes.push_back(toShapeOption(shape));
  }
  for (const SizesArgument &sizes : request.optimizeFor) {
    options.optimizeFor.push_back({{}, sizes.only});
    for (const ShapeArgument &shape : sizes.shapes) {
      options.optimizeFor.back().shapes.push_back(toShapeOption(shape));
    }
  }
  for (const Tensor *tensor : request.fixed) {
    options.fixed.push_back({tensor->name, tensor->dtype, tensor->dims, tensor->data.bytes()});
  }
  for (const auto &[input, output] : request.states) {
    options.states.push_back({input, output});
  }
  options.levels = request.levels;
  options.addsLevels = request.addsLevels;
  options.cpu = request.cpu;
  options.gpus = request.gpus;
  options.precision = toPrecision(request.precision);
  options.allowTf32 = llvm::is_contained(request.allow, "tf32");
  options.allowTanhGelu = llvm::is_contained(request.allow, "tanh-gelu");
  if (!request.assembler.empty()) {
    options.assembler = pipeline::Assembler{request.assembler, request.assemble};
  }
  for (const tenon_pass &pass : request.passes) {
    options.passes.push_back(userPassOf(pass));
  }
  options.passDump = request.passDump;
  options.verify = request.verify;
  options.guard = request.guard;
  options.taps = request.taps;
  options.observed = request.observed;
  for (const auto &[node, kernel] : request.kernels) {
    options.kernels.push_back({node, kernel});
  }
  options.disabledFamilies = request.disabledFamilies;
  options.maxWeights = request.maxWeights;
  options.tuned = request.tuned;
  for (const auto &[name, phase] : kPhases) {
    if (name == request.stopAfter) {
      options.stopAfter = phase;
    }
  }
  options.dumpPhases = request.dumpPhases;
  options.cacheFolder = request.cacheFolder;
  options.reproducer = request.reproducer;
  options.threads = request.threads;
  options.notice = request.notice;
  options.cancel = request.cancel;
  if (request.progress) {
    options.progress = [&](Phase phase, double fraction) {
      request.progress(nameOfPhase(phase), overallFraction(phase, fraction));
    };
  }
  return options;
}

Result<pipeline::CompileSummary> compileModel(const CompileRequest &request) {
  return pipeline::compile(compileOptionsOf(request));
}

Result<std::vector<pipeline::RegionTrials>> measureKernels(const CompileRequest &request,
                                                           const pipeline::TrialRequest &trials,
                                                           pipeline::Measurer &measurer) {
  return pipeline::measureKernels(compileOptionsOf(request), trials, measurer);
}

Status raceKernels(const CompileRequest &request, pipeline::Racer &racer) {
  return pipeline::raceKernels(compileOptionsOf(request), racer);
}

bool areFamiliesCurrent(std::string_view families) {
  llvm::SmallVector<llvm::StringRef> all;
  llvm::StringRef(families).split(all, ", ", -1, /*KeepEmpty=*/false);
  return llvm::all_of(all, [](llvm::StringRef each) {
    auto [family, revision] = each.split(' ');
    unsigned number = 0;
    return !revision.getAsInteger(10, number) && number == pipeline::kernelFamilyRevision(family) &&
           number > 0;
  });
}

std::vector<std::string> dataFilesOf(const std::string &model) {
  if (model.ends_with(".mlir")) {
    std::vector<std::string> files;
    std::error_code error;
    std::filesystem::path weights = std::filesystem::path(model).parent_path() / "weights";
    for (const std::filesystem::directory_entry &entry :
         std::filesystem::directory_iterator(weights, error)) {
      files.push_back(entry.path());
    }
    return files;
  }
  pipeline::CompileOptions options;
  options.model = model;
  Result<pipeline::ModelIdentity> identity = pipeline::identify(options);
  std::vector<std::string> files;
  for (const pipeline::InputFile &file :
       identity ? identity->data : std::vector<pipeline::InputFile>()) {
    files.push_back(file.path);
  }
  return files;
}

uint64_t bytesOfModel(const std::string &model) {
  auto bytesOf = [](const std::string &path) -> uint64_t {
    std::error_code error;
    uintmax_t bytes = std::filesystem::file_size(path, error);
    return error ? 0 : bytes;
  };
  uint64_t bytes = bytesOf(model);
  std::vector<std::string> named = dataFilesOf(model);
  for (const std::string &file : std::set<std::string>(named.begin(), named.end())) {
    bytes += bytesOf(file);
  }
  return bytes;
}

namespace {

Result<ModelFacts> readFacts(const std::string &path, const std::vector<ShapeArgument> &shapes,
                             bool withRanges) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  tn::WeightStore store;
  frontend::ImportOptions options = importOptionsOf(shapes);
  TENON_ASSIGN(frontend::ImportResult imported,
               frontend::importModel(path, options, context, store));
  ModelFacts declared;
  TENON_ASSIGN(frontend::Format format, frontend::formatOf(path));
  if (format == frontend::Format::Onnx) {
    TENON_ASSIGN(MappedFile file, MappedFile::open(path));
    TENON_ASSIGN(onnx::Model model, onnx::readModel(file.bytes()));
    declared = declaredFacts(model);
    declared.opsets = opsetsOf(model);
  }
  if (!imported.gaps.empty() || !imported.module) {
    for (frontend::Gap &gap : imported.gaps) {
      declared.gaps.push_back({gap.opType, gap.domain, gap.opset, gap.node, gap.source, gap.dtype,
                               gap.rank, gap.why, gap.workaround});
    }
    return declared;
  }
  tn::SymbolList symbols(*imported.module);
  mlir::func::FuncOp main = imported.module->lookupSymbol<mlir::func::FuncOp>("main");
  if (!main || main.getBody().empty()) {
    return Status::error(ErrorId::InternalError, "the imported module has no function @main");
  }
  ModelFacts facts = FactsReader(main, symbols, store).read();
  facts.opsets = declared.opsets;
  auto ranges = [&](llvm::StringRef id, mlir::Type element) {
    return withRanges ? rangeOf(element, store.bytes(id)) : std::nullopt;
  };
  facts.graph = tn::graphFacts(*imported.module, ranges);
  return facts;
}

} // namespace

void containCrashes() { pipeline::containCrashes(); }
ContainedCrashes::ContainedCrashes() { pipeline::beginContaining(); }
ContainedCrashes::~ContainedCrashes() { pipeline::endContaining(); }

Result<ModelFacts> importModel(const std::string &path, const std::vector<ShapeArgument> &shapes,
                               bool withRanges) {
  Result<ModelFacts> facts = Status::error(ErrorId::InternalError, "no facts");
  if (std::optional<std::string> crash =
          pipeline::crashOf([&] { facts = readFacts(path, shapes, withRanges); })) {
    return Status::error(ErrorId::CompilerFault, "in phase 'import': " + *crash,
                         "report this with the model");
  }
  return facts;
}

} // namespace tenon::tool
