// Cuts a region out of the model and renumbers its symbols. Relies on MLIR's printer being
// deterministic and on regions being isolated.
#include "compiler/codegen/common/region/RegionSource.h"

#include "compiler/codegen/common/region/GivenArgument.h"
#include "compiler/dispatch/WeightLayout.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/State.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tenon::codegen {
namespace {

/// Gives the symbols of the model that a region uses new numbers, in order of first use.
class SymbolRenumbering {
public:
  AffineExpr operator()(AffineExpr expression) {
    llvm::DenseMap<AffineExpr, AffineExpr> replacements;
    expression.walk([&](AffineExpr part) {
      AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part);
      if (!symbol) {
        return;
      }
      auto [entry, isNew] = numbers.try_emplace(symbol.getPosition(), used.size());
      if (isNew) {
        used.push_back(part);
      }
      replacements[part] = getAffineSymbolExpr(entry->second, part.getContext());
    });
    return expression.replace(replacements);
  }

  Type operator()(Type type) {
    RankedTensorType tensor = cast<RankedTensorType>(type);
    if (tensor.hasStaticShape()) {
      return tensor;
    }
    tn::Dims dims = tn::getDims(tensor);
    for (AffineExpr &dim : dims) {
      dim = (*this)(dim);
    }
    return tn::makeTensor(dims, tensor.getElementType());
  }

  AffineMap operator()(AffineMap map) {
    SmallVector<AffineExpr> results;
    for (AffineExpr result : map.getResults()) {
      results.push_back((*this)(result));
    }
    return AffineMap::get(0, used.size(), results, map.getContext());
  }

  SmallVector<AffineExpr> used;

private:
  llvm::DenseMap<unsigned, unsigned> numbers;
};

void cloneOp(OpBuilder &builder, Operation &op, IRMapping &mapping, SymbolRenumbering &renumber) {
  Operation *copy = builder.clone(op, mapping);
  copy->setLoc(builder.getUnknownLoc());
  if (tn::RequireOp required = dyn_cast<tn::RequireOp>(copy)) {
    // For people only, like the location: the plan has it.
    required.setWhat("");
  }
  for (Value result : copy->getResults()) {
    result.setType(renumber(result.getType()));
  }
  for (NamedAttribute attribute : op.getAttrs()) {
    if (AffineMapAttr map = dyn_cast<AffineMapAttr>(attribute.getValue())) {
      copy->setAttr(attribute.getName(), AffineMapAttr::get(renumber(map.getValue())));
    }
  }
}

/// Of attention over pages: integers that the model is given.
bool isGivenTable(tn::RegionOp region, Value input) {
  BlockArgument argument = dyn_cast<BlockArgument>(input);
  func::FuncOp function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  return function && getElementTypeOrSelf(input.getType()).isInteger(64) &&
         !function.getArgAttr(argument.getArgNumber(), tn::kState) &&
         isa<tn::PagedAttentionOp>(region.getBody().front().front());
}

/// With these unit attributes of the model.
RegionSource outlined(tn::RegionOp region, ArrayRef<StringRef> kept) {
  MLIRContext *context = region.getContext();
  OpBuilder builder(context);
  Location location = builder.getUnknownLoc();
  SymbolRenumbering renumber;
  SmallVector<Type> inputs, outputs;
  for (Type type : region.getInputs().getTypes()) {
    inputs.push_back(renumber(type));
  }
  for (Type type : region.getOutputs().getTypes()) {
    outputs.push_back(renumber(type));
  }

  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  ModuleOp model = region->getParentOfType<ModuleOp>();
  for (StringRef name : kept) {
    if (Attribute attribute = model->getAttr(name)) {
      (*module)->setAttr(name, attribute);
    }
  }
  builder.setInsertionPointToEnd(module->getBody());
  func::FuncOp function =
      func::FuncOp::create(builder, location, "kernel", builder.getFunctionType(inputs, outputs));
  function->setAttr("tn.strategy", region.getStrategyAttr());
  if (Attribute kernel = region->getAttr(kKernelAttribute)) {
    function->setAttr(kKernelAttribute, kernel);
  }
  for (auto [i, input] : llvm::enumerate(region.getInputs())) {
    if (isa_and_nonnull<tn::WeightOp, tn::ConstantOp, tn::PackOp>(input.getDefiningOp())) {
      function.setArgAttr(i, kConstantArgument, builder.getUnitAttr());
    }
    if (isGivenTable(region, input)) {
      function.setArgAttr(i, kGivenArgument, builder.getUnitAttr());
    }
    if (dispatch::isPackable(input)) {
      function.setArgAttr(i, dispatch::kPackable, builder.getUnitAttr());
    }
  }
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  Block &body = region.getBody().front();
  IRMapping mapping;
  mapping.map(body.getArguments(), entry->getArguments());
  for (Operation &op : body.without_terminator()) {
    cloneOp(builder, op, mapping, renumber);
  }
  SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands()) {
    results.push_back(mapping.lookup(value));
  }
  func::ReturnOp::create(builder, location, results);

  tn::SymbolList declared(model);
  tn::SymbolList own;
  for (auto [index, symbol] : llvm::enumerate(renumber.used)) {
    tn::SymbolList::Range range = declared.bounds(symbol);
    own.add(("s" + Twine(index)).str(), range.min, range.max);
  }
  if (!renumber.used.empty()) {
    own.store(*module);
  }

  RegionSource source;
  llvm::raw_string_ostream stream(source.text);
  module->print(stream);
  source.symbols = std::move(renumber.used);
  return source;
}

} // namespace

RegionSource outline(tn::RegionOp region) { return outlined(region, {kAllowTf32, tn::kInvariant}); }

RegionSource outlineFreely(tn::RegionOp region) { return outlined(region, {kAllowTf32}); }

std::string withKernel(StringRef text, Attribute kernel) {
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(kernel.getContext()));
  func::FuncOp function = module ? module->lookupSymbol<func::FuncOp>("kernel") : func::FuncOp();
  if (!function) {
    return text.str();
  }
  function->setAttr(kKernelAttribute, kernel);
  std::string result;
  llvm::raw_string_ostream(result) << *module;
  return result;
}

} // namespace tenon::codegen
