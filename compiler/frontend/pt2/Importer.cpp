// Walks the nodes of a program in order and imports each through its row of the operator table.
#include "compiler/frontend/pt2/Importer.h"

#include "compiler/frontend/common/CustomKernel.h"
#include "compiler/frontend/common/EvaluateConstant.h"
#include "compiler/frontend/pt2/Autocast.h"
#include "compiler/frontend/pt2/Call.h"
#include "compiler/frontend/pt2/Liveness.h"
#include "compiler/graph/DimText.h"
#include "compiler/graph/State.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

using Kind = Argument::Kind;

constexpr unsigned kMaxGraphDepth = 64;

/// As descriptions of kernels name the operator: "example::vector_add" of "example.vector_add".
std::string kernelName(const Target &target) {
  auto [space, name] = target.name.split('.');
  return (space + "::" + name).str();
}

/// Writes the result of a form like "add_" to its first argument, in whose type and shape it stays.
void writeInPlace(Call &c) {
  const Argument *self = c.positional(0);
  Value *target = self && !c.failed() ? c.find(*self) : nullptr;
  Value *result = c.failed() ? nullptr : c.output(0);
  if (!target || !target->tensor || !result || !result->tensor) {
    return;
  }
  mlir::Value before = target->tensor->value(c), after = result->tensor->value(c);
  if (!before || !after) {
    return;
  }
  after = c.broadcast(c.cast(after, getElementTypeOrSelf(before)), tn::getDims(before.getType()));
  if (after && !target->tensor->write(c, after)) {
    return c.gap("it writes to a view that several elements of a tensor share",
                 "clone the tensor before it is written");
  }
  c.setValue(0, *target);
}

/// What is imported must be what PyTorch says: a difference would be a fault of the import.
void checkStated(Call &c, const OpRow &row, unsigned i, RankedTensorType type,
                 const TensorMeta &meta) {
  if ((c.output(i)->imaginary != nullptr) != partsOf(meta.scalarType).has_value()) {
    return c.gap("its result is complex but PyTorch's is not, or the other way round");
  }
  if (!c.importer().statesUntrueTypes() && type.getElementType() != c.resultElement(i)) {
    std::string text;
    llvm::raw_string_ostream(text) << type.getElementType();
    return c.gap("its result has elements of type " + Twine(text) + " but PyTorch's are " +
                 StringRef(nameOfScalarType(meta.scalarType)));
  }
  bool fits = !row.statesShapes || type.getRank() == static_cast<int64_t>(meta.sizes.size());
  for (int64_t d = 0; fits && row.statesShapes && d < type.getRank(); ++d) {
    fits = type.isDynamicDim(d) || !meta.sizes[d].constant ||
           *meta.sizes[d].constant == type.getDimSize(d);
  }
  if (!fits) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (const Size &size : meta.sizes) {
      stream << (size.constant ? std::to_string(*size.constant) : "?") << " ";
    }
    stream << "where it is imported as";
    for (AffineExpr dim : tn::getDims(type)) {
      stream << " " << dim;
    }
    c.gap("its result " + Twine(i) + " has another shape than PyTorch states: " + text);
  }
}

} // namespace

Importer::Importer(const Program &theProgram, const frontend::ImportOptions &theOptions,
                   MLIRContext &owner, tn::WeightStore &theStore,
                   const std::set<std::string> &statefulBuffers, bool takesEmptyInputs)
    : ModuleBuilder(owner, theStore), program(theProgram), options(theOptions),
      stateful(statefulBuffers), takesEmpty(takesEmptyInputs) {}

Result<frontend::ImportResult> Importer::run() {
  beginModule();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    lastDiagnostic = tn::nameSymbols(diagnostic.str(), symbols.all());
    return success();
  });
  tn::ScopedAssumptions listening(&context, symbols);
  Scope scope;
  TENON_TRY(importInputs(scope));
  for (const Node &node : program.graph.nodes) {
    TENON_TRY(importNode(node, program.graph, scope));
  }
  TENON_TRY(importGuards(scope));
  TENON_TRY(finish(scope));
  frontend::ImportResult result;
  if (!gaps.empty()) {
    result.gaps = std::move(gaps);
    return result;
  }
  TENON_ASSIGN(result.module, takeModule());
  for (const auto &[argument, name] : states) {
    TENON_TRY(tn::declareState(*result.module, argument, name));
  }
  return result;
}

Status Importer::importNode(const Node &written, const Graph &graph, Scope &scope) {
  std::optional<Node> changed =
      autocast.lower ? std::optional(withAutocast(*this, written, graph, scope)) : std::nullopt;
  const Node &node = changed ? *changed : written;
  Call call(*this, node, graph, scope);
  symbols.setNode(call.label());
  bool poisoned = false;
  std::function<void(const Argument &)> look = [&](const Argument &argument) {
    if (argument.isName()) {
      Value *value = call.find(argument);
      poisoned |= value && value->isPoisoned();
    }
    llvm::for_each(argument.elements, look);
  };
  for (const NamedArgument &input : node.inputs) {
    look(input.value);
  }
  size_t before = gaps.size();
  if (!poisoned && !call.failed()) {
    runOperator(call, graph);
  }
  TENON_TRY(std::move(pending));
  bool isNeeded = hasEffect(node) || llvm::any_of(call.outputNames, [&](const std::string &name) {
                    return isLive(name, graph);
                  });
  if (!isNeeded) {
    gaps.erase(gaps.begin() + static_cast<std::ptrdiff_t>(before), gaps.end());
  }
  for (auto [name, value] : llvm::zip_equal(call.outputNames, call.outputs)) {
    if (!name.empty()) {
      scope[name] = call.failed() || poisoned ? Value() : value;
      if (!options.extraOutputs.empty() && &graph == &program.graph && scope[name].tensor) {
        innerValues.emplace_back(name, scope[name].tensor->value(call));
      }
    }
  }
  return Status::ok();
}

bool Importer::isLive(const std::string &name, const Graph &graph) {
  auto [found, isNew] = liveNames.try_emplace(&graph);
  if (isNew) {
    found->second = liveValues(graph);
  }
  return found->second.count(name) != 0;
}

/// An operator of complex tensors that does the same with both parts.
void Importer::runParts(Call &call) {
  bool areComplex = call.givesComplex();
  for (const NamedArgument &input : call.node.inputs) {
    bool isData = input.name == "self" || input.name == "tensors";
    auto isReal = [&](const Argument &argument) {
      Value *value = argument.isName() ? call.find(argument) : nullptr;
      return value && value->tensor && !value->imaginary;
    };
    areComplex &= !isData || !(isReal(input.value) || llvm::any_of(input.value.elements, isReal));
  }
  if (!areComplex) {
    return call.gap("complex numbers together with real ones are not supported here",
                    "compute with real and imaginary parts");
  }
  call.importParts(table.find(call.target.name)->import);
}

/// By a kernel of the user's: tensors are its inputs, all else are attributes by the names of the
/// operator's schema.
void Importer::runKernel(Call &call) {
  std::string name = kernelName(call.target);
  frontend::CustomNode node{
      .op = name, .inputs = {}, .outputs = call.numOutputs(), .attribute = {}};
  for (const NamedArgument &input : call.node.inputs) {
    if (input.value.kind == Kind::Tensor) {
      node.inputs.push_back(call.value(input.name));
    }
  }
  if (call.failed() || !llvm::all_of(node.inputs, [](mlir::Value value) { return !!value; })) {
    return;
  }
  node.attribute = [&](StringRef attribute, bool isInteger, bool isList) {
    return !call.has(attribute) ? std::nullopt
           : !isInteger
               ? frontend::asNumbers(isList ? call.reals(attribute)
                                            : SmallVector<double>{call.real(attribute, 0)})
               : frontend::asNumbers(isList ? call.integers(attribute)
                                            : SmallVector<int64_t>{call.integer(attribute, 0)});
  };
  for (auto [i, result] : llvm::enumerate(emitCustom(call, *options.kernels, node))) {
    if (i < call.numOutputs()) {
      call.setOutput(i, result);
    }
  }
}

void Importer::runOperator(Call &call, const Graph &graph) {
  bool isComplex = call.isComplex();
  bool isCustom =
      !call.target.isInPlace && frontend::hasKernel(options.kernels.get(), kernelName(call.target));
  static const OpRow kUserRow = {.name = "", .import = nullptr};
  const OpRow *row = isCustom    ? &kUserRow
                     : isComplex ? table.findComplex(call.target.name)
                                 : table.find(call.target.name);
  if (isComplex && (!row || call.target.isInPlace)) {
    return call.gap("this operator is not supported for complex numbers",
                    "compute with real and imaginary parts");
  }
  if (!row) {
    return call.gap("Tenon does not support this operator",
                    "compile it in Python, which decomposes what it can: "
                    "tenon.compile('model.pt2')");
  }
  isCustom ? runKernel(call) : row->import ? row->import(call) : runParts(call);
  if (std::string unread = call.failed() ? "" : call.unread(); !unread.empty()) {
    return call.gap("its argument '" + Twine(unread) + "' is not supported",
                    "export again without it");
  }
  if (call.target.isInPlace) {
    writeInPlace(call);
  }
  // "view_copy" and the like import as the views that they are named after.
  for (unsigned i = 0; call.target.name.ends_with("_copy") && i < call.numOutputs(); ++i) {
    if (std::shared_ptr<Tensor> &tensor = call.outputs[i].tensor) {
      tensor = std::make_shared<Tensor>(tensor->value(call));
    }
  }
  for (unsigned i = 0; i < call.numOutputs() && !call.failed(); ++i) {
    auto meta = graph.tensors.find(call.outputNames[i]);
    bool isMissing = call.outputs[i].isPoisoned();
    if (call.outputNames[i].empty() || (isMissing && !isLive(call.outputNames[i], graph))) {
      continue;
    }
    if (isMissing) {
      call.gap("its output " + Twine(i) + " is not supported", "remove what uses that output");
    } else if (meta != graph.tensors.end() && call.outputs[i].tensor) {
      mlir::Value value = call.outputs[i].tensor->value(call);
      RankedTensorType type = value ? cast<RankedTensorType>(value.getType()) : RankedTensorType();
      if (Status fits = type ? checkValueType(type, call.outputNames[i]) : Status::ok(); !fits) {
        return setError(std::move(fits));
      }
      type ? checkStated(call, *row, i, type, meta->second)
           : call.gap("its result cannot be imported");
    }
  }
}

Result<std::vector<Value>> Importer::importGraph(const Graph &graph,
                                                 const std::vector<Value> &inputs) {
  if (inputs.size() != graph.inputs.size() || graphDepth == kMaxGraphDepth) {
    return Status::error(ErrorId::Pt2BadGraph, "a nested graph has another number of inputs",
                         "save the program again with torch.export.save");
  }
  ++graphDepth;
  Scope scope;
  for (auto [input, value] : llvm::zip_equal(graph.inputs, inputs)) {
    scope[input.text] = value;
  }
  for (const Node &node : graph.nodes) {
    TENON_TRY(importNode(node, graph, scope));
  }
  --graphDepth;
  std::vector<Value> results;
  for (const Argument &output : graph.outputs) {
    auto found = output.isName() ? scope.find(output.text) : scope.end();
    if (output.kind == Kind::Int) {
      results.push_back({.size = symbols.constant(output.integer)});
    } else if (found != scope.end()) {
      results.push_back(found->second);
    } else {
      return Status::error(ErrorId::Pt2BadGraph,
                           strCat("a nested graph uses '", output.text, "', which nothing defines"),
                           "save the program again with torch.export.save");
    }
  }
  return results;
}

std::optional<int64_t> Importer::constantInteger(mlir::Value value) {
  std::optional<reference::Tensor> tensor = frontend::evaluateConstant(value, store);
  Result<reference::Tensor> wide =
      tensor && isa<IntegerType>(getElementTypeOrSelf(value)) && tensor->count() == 1
          ? reference::convert(*tensor, DType::I64)
          : Result<reference::Tensor>(Status::error(ErrorId::InternalError, "no constant"));
  return wide ? std::optional(wide->as<int64_t>()[0]) : std::nullopt;
}

std::optional<Range> Importer::rangeOf(const std::string &symbol) const {
  auto found = program.ranges.find(symbol);
  return found == program.ranges.end() ? std::nullopt : std::optional(found->second);
}

std::optional<bool> Importer::constantTruth(mlir::Value value) {
  std::optional<reference::Tensor> tensor = frontend::evaluateConstant(value, store);
  bool isTruth = tensor && tensor->dtype() == DType::Bool && tensor->count() == 1;
  return isTruth ? std::optional(tensor->bytes()[0] != 0) : std::nullopt;
}

//===--- Failing ---===//

void Importer::setError(Status status) {
  if (pending.isOk()) {
    pending = std::move(status);
  }
}

void Importer::assertThat(mlir::Value condition, std::string what) {
  if (condition) {
    assertions.emplace_back(condition, std::move(what));
  }
}

void Importer::addGap(frontend::Gap gap, const Twine &workaround) {
  gap.workaround = notYetFollowed(workaround.str());
  gaps.push_back(std::move(gap));
}

} // namespace tenon::pt2
