// Arguments, results and failures of one node.
// Relies on the importer calling an operator only when none of its arguments depends on a gap.
#include "compiler/frontend/pt2/Call.h"

#include "compiler/frontend/pt2/SizeText.h"
#include "compiler/frontend/pt2/SourceLine.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {

using Kind = Argument::Kind;

Call::Call(Importer &importer, const Node &theNode, const Graph &theGraph, Scope &theScope)
    : Emitter(importer, locationOf(theNode, &importer.context)), node(theNode),
      target(parseTarget(theNode.target)), owner(importer), graph(theGraph), scope(theScope) {
  listOutputs();
}

void Call::listOutputs() {
  auto add = [&](const Argument &output) {
    outputNames.push_back(output.isName() ? output.text : "");
  };
  for (const Argument &output : node.outputs) {
    if (output.kind == Kind::List) {
      llvm::for_each(output.elements, add);
    } else {
      add(output);
    }
  }
  outputs.resize(outputNames.size());
}

std::string Call::label() const { return node.name; }

//===--- Arguments ---===//

const Argument *Call::argument(StringRef name) {
  for (const NamedArgument &input : node.inputs) {
    if (name == input.name) {
      reads.insert(&input.value);
      return &input.value;
    }
  }
  return nullptr;
}

const Argument *Call::positional(size_t index) {
  if (index >= node.inputs.size()) {
    return nullptr;
  }
  reads.insert(&node.inputs[index].value);
  return &node.inputs[index].value;
}

bool Call::has(StringRef name) const {
  return llvm::any_of(node.inputs, [&](const NamedArgument &input) {
    return name == input.name && input.value.kind != Kind::None;
  });
}

void Call::ignore(std::initializer_list<StringRef> names) {
  for (StringRef name : names) {
    argument(name);
  }
}

std::string Call::unread() const {
  for (const NamedArgument &input : node.inputs) {
    if (!reads.contains(&input.value) && input.value.kind != Kind::None) {
      return input.name;
    }
  }
  return "";
}

pt2::Value *Call::find(const Argument &argument) {
  auto found = argument.isName() ? scope.find(argument.text) : scope.end();
  if (found == scope.end()) {
    error(ErrorId::Pt2BadGraph,
          "it reads '" + Twine(argument.text) + "', which nothing before it defines");
    return nullptr;
  }
  return &found->second;
}

std::shared_ptr<Tensor> Call::tensorOf(const Argument &argument, StringRef name) {
  if (hasFailed || argument.kind == Kind::None) {
    return nullptr;
  }
  pt2::Value *found = argument.kind == Kind::Tensor ? find(argument) : nullptr;
  if (!found || !found->tensor) {
    error(ErrorId::Pt2BadGraph, "its argument '" + name + "' is not a tensor");
    return nullptr;
  }
  return readsImaginary && found->imaginary ? found->imaginary : found->tensor;
}

mlir::Value Call::value(StringRef name) {
  const Argument *given = argument(name);
  std::shared_ptr<Tensor> tensor = given ? tensorOf(*given, name) : nullptr;
  return tensor ? tensor->value(*this) : mlir::Value();
}

mlir::Value Call::imaginary(StringRef name) {
  const Argument *given = argument(name);
  pt2::Value *found = given && given->kind == Kind::Tensor ? find(*given) : nullptr;
  return found && found->imaginary ? found->imaginary->value(*this) : mlir::Value();
}

SmallVector<mlir::Value> Call::optionalValues(StringRef name) {
  SmallVector<mlir::Value> result;
  const Argument *given = argument(name);
  for (const Argument &element : given ? given->elements : std::vector<Argument>()) {
    std::shared_ptr<Tensor> tensor = tensorOf(element, name);
    result.push_back(tensor ? tensor->value(*this) : mlir::Value());
  }
  return result;
}

SmallVector<mlir::Value> Call::values(StringRef name) {
  SmallVector<mlir::Value> result = optionalValues(name);
  if (llvm::is_contained(result, mlir::Value())) {
    error(ErrorId::Pt2BadGraph, "its argument '" + name + "' lacks a tensor");
    result.clear();
  }
  return result;
}

RankedTensorType Call::type(StringRef name) {
  mlir::Value x = value(name);
  return x ? cast<RankedTensorType>(x.getType()) : RankedTensorType();
}

std::optional<int64_t> Call::constantOf(const Argument &argument, StringRef name) {
  AffineExpr size = hasFailed ? AffineExpr() : sizeOf(argument, name);
  std::optional<int64_t> known = size ? tn::constantDim(size) : std::nullopt;
  if (!known) {
    gap("its argument '" + name + "' is not a constant",
        "fix the shapes it depends on with --shape");
  }
  return known;
}

int64_t Call::integer(StringRef name, int64_t otherwise) {
  const Argument *given = argument(name);
  if (given && (given->kind == Kind::Bool || given->kind == Kind::ScalarType)) {
    return given->integer;
  }
  return given && given->kind != Kind::None ? constantOf(*given, name).value_or(otherwise)
                                            : otherwise;
}

double Call::real(StringRef name, double otherwise) {
  const Argument *given = argument(name);
  if (!given || given->kind == Kind::None) {
    return otherwise;
  }
  if (given->kind == Kind::Float) {
    return given->real;
  }
  if (given->kind == Kind::Bool) {
    return static_cast<double>(given->integer);
  }
  if (given->kind == Kind::SymFloat) {
    pt2::Value *found = find(*given);
    if (!found || !found->real) {
      gap("its argument '" + name + "' is not a constant", "make it a constant and export again");
      return otherwise;
    }
    return *found->real;
  }
  return static_cast<double>(constantOf(*given, name).value_or(0));
}

bool Call::truth(StringRef name, bool otherwise) {
  const Argument *given = argument(name);
  if (!given || given->kind == Kind::None) {
    return otherwise;
  }
  if (given->kind != Kind::Bool) {
    gap("its argument '" + name + "' is not a constant", "make it a constant and export again");
  }
  return given->integer != 0;
}

std::string Call::text(StringRef name, StringRef otherwise) {
  const Argument *given = argument(name);
  return given && given->kind == Kind::String ? given->text : otherwise.str();
}

SmallVector<int64_t> Call::integers(StringRef name, ArrayRef<int64_t> otherwise) {
  const Argument *given = argument(name);
  SmallVector<int64_t> result;
  if (!given || given->kind == Kind::None) {
    return SmallVector<int64_t>(otherwise);
  }
  if (given->kind != Kind::List) {
    return {constantOf(*given, name).value_or(0)};
  }
  for (const Argument &element : given->elements) {
    result.push_back(constantOf(element, name).value_or(0));
  }
  return result;
}

SmallVector<double> Call::reals(StringRef name) {
  const Argument *given = argument(name);
  SmallVector<double> result;
  for (const Argument &element : given ? given->elements : std::vector<Argument>()) {
    result.push_back(element.kind == Kind::Float
                         ? element.real
                         : static_cast<double>(constantOf(element, name).value_or(0)));
  }
  return result;
}

AffineExpr Call::size(StringRef name) {
  const Argument *given = argument(name);
  return given && given->kind != Kind::None ? sizeOf(*given, name) : AffineExpr();
}

tn::Dims Call::sizes(StringRef name) {
  const Argument *given = argument(name);
  tn::Dims result;
  if (given && given->kind != Kind::List && given->kind != Kind::None) {
    return {sizeOf(*given, name)};
  }
  for (const Argument &element : given ? given->elements : std::vector<Argument>()) {
    result.push_back(sizeOf(element, name));
  }
  return result;
}

AffineExpr Call::sizeAt(size_t index) {
  const Argument *given = positional(index);
  if (!given || given->kind == Kind::None) {
    error(ErrorId::Pt2BadGraph, "it lacks an argument");
    return AffineExpr();
  }
  return sizeOf(*given, node.inputs[index].name);
}

int64_t Call::normalizeAxis(int64_t axis, int64_t rank) {
  // PyTorch lets a scalar have an axis.
  int64_t bound = std::max<int64_t>(rank, 1);
  if (axis < -bound || axis >= bound) {
    error(ErrorId::Pt2BadGraph,
          "axis " + Twine(axis) + " is outside a tensor of rank " + Twine(rank));
    return 0;
  }
  return axis < 0 ? axis + bound : axis;
}

int64_t Call::axis(StringRef name, int64_t otherwise, int64_t rank) {
  return normalizeAxis(integer(name, otherwise), rank);
}

SmallVector<int64_t> Call::axes(StringRef name, int64_t rank, bool emptyIsAll) {
  SmallVector<int64_t> list = integers(name);
  if (!has(name) || (list.empty() && emptyIsAll)) {
    return llvm::to_vector(llvm::seq<int64_t>(0, rank));
  }
  for (int64_t &entry : list) {
    entry = normalizeAxis(entry, rank);
  }
  llvm::sort(list);
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) {
    error(ErrorId::Pt2BadGraph, "an axis is listed twice");
  }
  if (rank == 0) {
    list.clear();
  }
  return list;
}

//===--- Results ---===//

void Call::setValue(unsigned i, pt2::Value value) {
  if (i < outputs.size() && !hasFailed) {
    outputs[i] = std::move(value);
  }
}

void Call::setOutput(unsigned i, mlir::Value value) {
  if (value) {
    setValue(i, {.tensor = std::make_shared<Tensor>(value)});
  }
}

void Call::setComplex(unsigned i, mlir::Value real, mlir::Value imaginary) {
  if (real && imaginary) {
    setValue(i, {.tensor = std::make_shared<Tensor>(real),
                 .imaginary = std::make_shared<Tensor>(imaginary)});
  }
}

void Call::importParts(void (*import)(Call &)) {
  import(*this);
  std::vector<pt2::Value> parts(outputs.size());
  std::swap(parts, outputs);
  readsImaginary = true;
  import(*this);
  readsImaginary = false;
  for (auto [real, imaginary] : llvm::zip_equal(parts, outputs)) {
    real.imaginary = imaginary.tensor;
  }
  outputs = std::move(parts);
}

void Call::setSize(AffineExpr size) {
  if (!size) {
    return gap("its result cannot be written as an expression of sizes",
               "fix the shapes it depends on with --shape");
  }
  setValue(0, {.size = size});
}

void Call::setView(unsigned i, StringRef name, ViewFunctions functions) {
  const Argument *given = argument(name);
  std::shared_ptr<Tensor> base = given ? tensorOf(*given, name) : nullptr;
  mlir::Value lookedAt = base ? base->value(*this) : mlir::Value();
  mlir::Value view = lookedAt ? functions.read(*this, lookedAt) : mlir::Value();
  if (view && !hasFailed) {
    setValue(i, {.tensor = std::make_shared<Tensor>(base, view, std::move(functions))});
  }
}

void Call::forward(StringRef name) {
  const Argument *given = argument(name);
  std::shared_ptr<Tensor> tensor = given ? tensorOf(*given, name) : nullptr;
  if (tensor) {
    setValue(0, {.tensor = tensor});
  }
}

//===--- Failing ---===//

void Call::gap(const Twine &why, const Twine &workaround) {
  if (hasFailed) {
    return;
  }
  hasFailed = true;
  frontend::Gap gap;
  StringRef name = node.target;
  name.consume_front("torch.ops.");
  gap.opType = name.str();
  gap.domain = "torch";
  gap.node = nameOf(node);
  gap.source = sourceOf(node);
  gap.why = why.str();
  for (const NamedArgument &input : node.inputs) {
    auto found = input.value.kind == Kind::Tensor ? scope.find(input.value.text) : scope.end();
    // A view that would have to be made again has no value any more, since this node has failed.
    mlir::Value operand = found != scope.end() && found->second.tensor
                              ? found->second.tensor->value(*this)
                              : mlir::Value();
    if (operand) {
      RankedTensorType type = cast<RankedTensorType>(operand.getType());
      llvm::raw_string_ostream(gap.dtype) << type.getElementType();
      gap.rank = static_cast<int>(type.getRank());
      break;
    }
  }
  owner.addGap(std::move(gap), workaround);
}

void Call::error(ErrorId id, const Twine &what) {
  if (id == ErrorId::OnnxBadNode) { // PyTorch has run the node: it is Tenon's rule that is narrower
    return gap(what, "write the operation in another way and export again");
  }
  if (hasFailed) {
    return;
  }
  hasFailed = true;
  std::string source = sourceOf(node);
  owner.setError(Status::error(id,
                               ("node '" + Twine(nameOf(node)) + "' (" + StringRef(node.target) +
                                ")" + (source.empty() ? "" : ", " + source) + ": " + what)
                                   .str(),
                               "save the program again with torch.export.save"));
}

} // namespace tenon::pt2
