// Implements the bridge between the verbs and the compiler; it only converts and reads.

#include "tools/tenon/model/CompilerBridge.h"

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/graph/Constraints.h"
#include "compiler/graph/DimText.h"
#include "compiler/graph/GraphInfo.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/pipeline/CodeTarget.h"
#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/KernelTable.h"
#include "compiler/pipeline/ModelKey.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Reports.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "support/files/MappedFile.h"
#include "tools/tenon/model/DeclaredInfo.h"
#include "tools/tenon/model/WeightRanges.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <set>

namespace tenon::tool {
namespace {

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

std::vector<SizeNeed> needsOf(mlir::ModuleOp module, llvm::ArrayRef<tn::Symbol> symbols) {
  std::vector<SizeNeed> needs;
  for (const tn::Constraint &constraint : tn::constraintsOf(module)) {
    addNeed(needs, constraint.node, tn::constraintText(constraint, symbols));
  }
  return needs;
}

/// Walks the model's function and notes what people want to see of it.
class InfoReader {
public:
  InfoReader(mlir::func::FuncOp function, const tn::SymbolList &symbolList,
             const tn::WeightStore &weightStore)
      : main(function), symbols(symbolList.symbols()), store(weightStore) {}

  ModelInfo read() {
    for (const tn::Symbol &symbol : symbols) {
      info.symbols.push_back({symbol.name, symbol.min, symbol.max});
    }
    for (mlir::BlockArgument argument : main.getArguments()) {
      unsigned index = argument.getArgNumber();
      producers[argument] = -1 - static_cast<int64_t>(index);
      info.inputs.push_back({tn::portName(main.getArgAttrDict(index), "input", index),
                             printType(argument.getType(), symbols)});
    }
    for (mlir::Operation &operation : main.getBody().front()) {
      readOperation(operation);
    }
    return std::move(info);
  }

private:
  void readOperation(mlir::Operation &operation) {
    if (operation.hasTrait<mlir::OpTrait::IsTerminator>()) {
      for (mlir::OpOperand &operand : operation.getOpOperands()) {
        unsigned index = operand.getOperandNumber();
        info.outputs.push_back({tn::portName(main.getResultAttrDict(index), "output", index),
                                printType(operand.get().getType(), symbols)});
      }
      return;
    }
    tn::CustomOp custom = llvm::dyn_cast<tn::CustomOp>(operation);
    std::string op = (custom ? custom.getName() : operation.getName().stripDialect()).str();
    if (op == "weight" || op == "constant") {
      countWeight(operation);
      return;
    }
    ++info.opCounts[op];
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
      producers[result] = static_cast<int64_t>(info.nodes.size());
    }
    info.nodes.push_back(std::move(node));
  }

  void countWeight(mlir::Operation &operation) {
    tn::WeightOp weight = llvm::dyn_cast<tn::WeightOp>(operation);
    const tn::WeightEntry *entry = weight ? store.find(weight.getId()) : nullptr;
    if (entry) {
      ++info.weightCount;
      info.weightBytes += entry->size;
    }
  }

  mlir::func::FuncOp main;
  llvm::ArrayRef<tn::Symbol> symbols;
  const tn::WeightStore &store;
  llvm::DenseMap<mlir::Value, int64_t> producers;
  ModelInfo info;
};

} // namespace

Result<pipeline::CompileSummary> compileModel(const pipeline::CompileOptions &options) {
  return pipeline::compile(options);
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

Result<ModelInfo> readInfo(const std::string &path, const std::vector<ShapeArgument> &shapes,
                           bool withRanges,
                           const std::vector<std::shared_ptr<const kernels::Library>> &libraries) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  tn::WeightStore store;
  frontend::ImportOptions options;
  options.shapes = pipeline::toOverrides(shapes);
  options.pages = static_cast<int64_t>(pipeline::pagesOf({}));
  TENON_ASSIGN(options.kernels, pipeline::kernelTable(libraries, {}));
  TENON_ASSIGN(frontend::ImportResult imported,
               frontend::importModel(path, options, context, store));
  ModelInfo declared;
  TENON_ASSIGN(frontend::Format format, frontend::formatOf(path));
  if (format == frontend::Format::Onnx) {
    TENON_ASSIGN(MappedFile file, MappedFile::open(path));
    TENON_ASSIGN(onnx::Model model, onnx::readModel(file.bytes()));
    declared = declaredInfo(model);
    declared.opsets = opsetsOf(model);
  }
  for (frontend::Asset &asset : imported.assets) {
    declared.records.emplace(std::move(asset.name), std::move(asset.json));
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
  ModelInfo info = InfoReader(main, symbols, store).read();
  info.opsets = declared.opsets;
  info.records = std::move(declared.records);
  info.overridable = declared.overridable;
  info.needs = needsOf(*imported.module, symbols.symbols());
  auto ranges = [&](llvm::StringRef id, mlir::Type element) {
    return withRanges ? rangeOf(element, store.bytes(id)) : std::nullopt;
  };
  info.graph = tn::graphInfo(*imported.module, ranges);
  return info;
}

} // namespace

void containCrashes() { pipeline::containCrashes(); }
ContainedCrashes::ContainedCrashes() { pipeline::beginContaining(); }
ContainedCrashes::~ContainedCrashes() { pipeline::endContaining(); }

Result<ModelInfo>
importModel(const std::string &path, const std::vector<ShapeArgument> &shapes, bool withRanges,
            const std::vector<std::shared_ptr<const kernels::Library>> &libraries) {
  Result<ModelInfo> info = Status::error(ErrorId::InternalError, "no information");
  if (std::optional<std::string> crash =
          pipeline::crashOf([&] { info = readInfo(path, shapes, withRanges, libraries); })) {
    return Status::error(ErrorId::CompilerFault, "in phase 'import': " + *crash,
                         "report this with the model");
  }
  return info;
}

Result<std::string> assetOf(const std::string &path, const std::string &name) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  tn::WeightStore store;
  frontend::ImportOptions options;
  options.pages = static_cast<int64_t>(pipeline::pagesOf({}));
  TENON_ASSIGN(frontend::ImportResult imported,
               frontend::importModel(path, options, context, store));
  if (!imported.gaps.empty()) {
    return pipeline::gapReport(path, imported.gaps);
  }
  for (frontend::Asset &asset : imported.assets) {
    if (asset.name == name) {
      return std::move(asset.json);
    }
  }
  return std::string();
}

} // namespace tenon::tool
