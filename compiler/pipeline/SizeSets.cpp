// Replaces shapes input by input. Relies on the first function being the model, its arguments
// carrying `tn.name`.
#include "compiler/pipeline/SizeSets.h"

#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// The inputs whose dims the model's only free size decides, with these dims.
Result<std::vector<ShapeArgument>> shapesOfOnlySize(int64_t size, ModuleOp module) {
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  std::vector<ShapeArgument> shapes;
  std::optional<unsigned> only;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    ShapeArgument shape{function.getArgAttrOfType<StringAttr>(i, "tn.name").str(), {}};
    bool isFree = false;
    for (AffineExpr dim : tn::getDims(function.getArgument(i).getType())) {
      std::optional<tn::LinearDim> line = tn::linearDim(dim);
      std::optional<int64_t> constant = tn::constantDim(dim);
      if (!constant && (!line || only.value_or(line->symbol) != line->symbol)) {
        return Status::error(ErrorId::BadArgument,
                             strCat("--optimize-for ", size, ": the model has several free sizes"),
                             "write the dimensions of its inputs: --optimize-for x:8x128");
      }
      if (constant) {
        shape.dims.push_back({*constant, *constant});
        continue;
      }
      only = line->symbol;
      isFree = true;
      int64_t value = size * line->factor + line->offset;
      shape.dims.push_back({value, value});
    }
    if (isFree) {
      shapes.push_back(std::move(shape));
    }
  }
  if (!only) {
    return Status::error(ErrorId::BadArgument,
                         strCat("--optimize-for ", size, ": all sizes of the model are fixed"),
                         "leave it out, or free a size: --shape x:[1..32]x128");
  }
  return shapes;
}

} // namespace

Result<std::vector<ShapeArgument>> shapesFor(const SizesArgument &sizes,
                                             const CompileOptions &options, ModuleOp module) {
  std::vector<ShapeArgument> named = sizes.shapes;
  if (sizes.only) {
    TENON_ASSIGN(named, shapesOfOnlySize(*sizes.only, module));
  }
  std::vector<ShapeArgument> all = options.shapes;
  for (ShapeArgument &shape : named) {
    llvm::erase_if(all, [&](const ShapeArgument &other) { return other.input == shape.input; });
    all.push_back(std::move(shape));
  }
  return all;
}

} // namespace tenon::pipeline
