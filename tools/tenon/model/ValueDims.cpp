// The dims of all values of an ONNX model, which the importer finds when each is an output.

#include "compiler/frontend/onnx/ExtraOutputs.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/Reports.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "support/text/Text.h"
#include "tools/tenon/model/CompilerBridge.h"

namespace tenon::tool {
namespace {

Result<std::map<std::string, std::vector<int64_t>>>
readDims(const std::string &path, const std::vector<ShapeArgument> &shapes) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  tn::WeightStore store;
  frontend::ImportOptions options;
  options.shapes = pipeline::toOverrides(shapes);
  TENON_ASSIGN(frontend::ImportResult imported,
               onnx::importWithExtraOutputs(path, {"*"}, options, context, store));
  if (!imported.module) {
    const frontend::Gap &gap = imported.gaps.front();
    return Status::error(ErrorId::ModelHasGaps,
                         strCat("Tenon lacks ", gap.opType, " '", gap.node, "': ", gap.why),
                         "'tenon check MODEL' lists everything that is missing");
  }
  mlir::func::FuncOp main = imported.module->lookupSymbol<mlir::func::FuncOp>("main");
  std::map<std::string, std::vector<int64_t>> dims;
  auto add = [&](mlir::StringAttr name, mlir::Type type) {
    if (!name || !llvm::isa<mlir::RankedTensorType>(type)) {
      return;
    }
    std::vector<int64_t> sizes;
    for (mlir::AffineExpr dim : tn::getDims(type)) {
      mlir::AffineConstantExpr size = llvm::dyn_cast<mlir::AffineConstantExpr>(dim);
      sizes.push_back(size ? size.getValue() : -1);
    }
    dims[name.str()] = std::move(sizes);
  };
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    add(main.getArgAttrOfType<mlir::StringAttr>(i, "tn.name"), main.getArgument(i).getType());
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    add(main.getResultAttrOfType<mlir::StringAttr>(i, "tn.name"), main.getResultTypes()[i]);
  }
  return dims;
}

} // namespace

Result<std::map<std::string, std::vector<int64_t>>>
dimsOfValues(const std::string &path, const std::vector<ShapeArgument> &shapes) {
  Result<std::map<std::string, std::vector<int64_t>>> dims =
      Status::error(ErrorId::InternalError, "no dims");
  if (std::optional<std::string> crash =
          pipeline::crashOf([&] { dims = readDims(path, shapes); })) {
    return Status::error(ErrorId::CompilerFault, "in phase 'import': " + *crash,
                         "report this with the model");
  }
  return dims;
}

} // namespace tenon::tool
