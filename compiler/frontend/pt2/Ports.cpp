// The program's inputs with their symbolic dims and the user's words about them, its outputs, and
// the buffers that it writes, which become state of a session.
#include "compiler/frontend/pt2/Call.h"
#include "compiler/frontend/pt2/SizeText.h"
#include "mlir/IR/TypeUtilities.h"
#include "support/Shape.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"

#include <bit>

using namespace mlir;

namespace tenon::pt2 {
namespace {

using Kind = Argument::Kind;
using frontend::DimOverride;
using frontend::FixedInput;
using frontend::ShapeOverride;

Status overrideError(std::string_view input, std::string_view what) {
  return Status::error(ErrorId::OnnxBadOverride, strCat("option for input '", input, "': ", what),
                       "'tenon inspect MODEL' lists the inputs with their dimensions");
}

} // namespace

frontend::Gap portGap(std::string_view kind, std::string_view name, std::string why,
                      std::string workaround) {
  frontend::Gap gap;
  gap.opType = kind;
  gap.domain = "torch";
  gap.node = name;
  gap.why = std::move(why);
  gap.workaround = std::move(workaround);
  return gap;
}

//===--- Inputs ---===//

AffineExpr Importer::symbolNamed(const std::string &name) {
  auto known = symbolsByName.find(name);
  return known == symbolsByName.end() ? AffineExpr() : known->second;
}

Result<AffineExpr> Importer::sizeOf(const Size &size) {
  if (size.constant) {
    return symbols.constant(*size.constant);
  }
  TENON_ASSIGN(AffineExpr expression,
               parseSize(size.expression, &context,
                         [&](const std::string &name) { return symbolNamed(name); }));
  return symbols.canonical(expression);
}

/// torch.export assumes that a dim is neither 0 nor 1 and writes a range from 2 without an end
/// where no Dim bounds it (Dim.AUTO, Dim.DYNAMIC); the program runs one nevertheless, as PyTorch
/// does.
constexpr int64_t kAssumedMin = 2;
/// Ends from here on are torch's way to write none.
constexpr int64_t kUnlimited = int64_t{1} << 40;

/// The end of a dim that has none: `most`, unless it was larger when the program was traced.
int64_t endOf(const Size &size, int64_t most) {
  int64_t traced = size.traced.value_or(0);
  return traced > most && traced < kUnlimited
             ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(traced) + 1))
             : most;
}

/// A dim that is a symbol by itself gives the symbol its range, or its value where the user does.
Result<AffineExpr> Importer::inputDim(const std::string &input, size_t index, const Size &size,
                                      const DimOverride *override) {
  if (override && override->kind == DimOverride::Kind::Keep) {
    override = nullptr;
  }
  if (override && (override->min < 0 || override->max < override->min)) {
    return overrideError(input, strCat("dimension ", index, " has no valid range"));
  }
  if (size.constant) {
    if (*size.constant < 0) {
      return Status::error(ErrorId::Pt2BadGraph,
                           strCat("input '", input, "' has the dimension ", *size.constant),
                           kSaveAgain);
    }
    if (override && (override->min != *size.constant || override->max != *size.constant)) {
      return overrideError(input,
                           strCat("dimension ", index, " is ", *size.constant,
                                  " in the model; export it with dynamic_shapes to change it"));
    }
    return symbols.constant(*size.constant);
  }
  std::string alone;
  TENON_ASSIGN(AffineExpr parsed,
               parseSize(size.expression, &context, [&](const std::string &name) {
                 alone = name;
                 return getAffineSymbolExpr(0, &context);
               }));
  bool isSymbol = parsed && isa<AffineSymbolExpr>(parsed);
  if (!isSymbol) {
    alone = strCat(input, ".", index);
  }
  auto range = program.ranges.find(alone);
  bool isBounded = range != program.ranges.end() && isSymbol;
  bool hasEnd = isBounded && range->second.max < kUnlimited;
  bool isAsked = isBounded && (hasEnd || range->second.min != kAssumedMin);
  // Torch writes 0 of each Dim without a least size too: it holds where all nodes take no elements.
  int64_t stated = isAsked ? range->second.min : 0;
  int64_t least = takesEmpty && hasEnd && isAsked ? stated : std::max(stated, options.symbolMin);
  int64_t most = hasEnd ? range->second.max : std::max(least, endOf(size, options.symbolMax));
  if (AffineExpr known = symbolNamed(alone)) {
    tn::SymbolList::Range own = symbols.bounds(known);
    if (override && (own.min != override->min || own.max != override->max)) {
      return overrideError(
          input, strCat("dimension ", index, " ('", alone, "') already has another size or range"));
    }
    return known;
  }
  if (override && isBounded && (override->min < stated || override->max > most)) {
    return overrideError(input,
                         strCat("dimension ", index, " was exported for ", stated, " to ", most));
  }
  least = override ? override->min : least;
  most = override ? override->max : most;
  AffineExpr expression =
      override && least == most
          ? symbols.constant(least)
          : symbols.get(alone, least, most, override || isBounded, static_cast<uint32_t>(index));
  symbolsByName[alone] = expression;
  return expression;
}

/// Where a dim is an expression over others ("2*s0"), it is so by a constraint, which every run
/// checks.
Status Importer::relateDims(const std::string &name, ArrayRef<AffineExpr> dims) {
  const TensorMeta &meta = program.graph.tensors.at(name);
  symbols.setNode(name);
  for (auto [index, size] : llvm::enumerate(meta.sizes)) {
    TENON_ASSIGN(AffineExpr stated, sizeOf(size));
    if (stated && !symbols.assume(tn::ConstraintKind::equal, dims[index], stated)) {
      return overrideError(
          name, strCat("dimension ", index, " contradicts what the program states about it"));
    }
  }
  return Status::ok();
}

Result<mlir::Value> Importer::fixedValue(const FixedInput &fixed, Type element) {
  RankedTensorType type = RankedTensorType::get(fixed.dims, elementType(fixed.type));
  std::optional<int64_t> bytes = byteSize(fixed.type, fixed.dims);
  if (type.getElementType() != element || !bytes ||
      static_cast<uint64_t>(*bytes) != fixed.bytes.size()) {
    return overrideError(fixed.input,
                         "the fixed value does not have the input's type or its own size");
  }
  return constantValue(type, fixed.bytes, fixed.input);
}

Status Importer::importUserInput(const InputSpec &spec, Scope &scope) {
  const std::string &name = spec.argument.text;
  auto meta = program.graph.tensors.find(name);
  if (spec.argument.kind == Kind::SymInt) {
    auto size = program.graph.sizes.find(name);
    TENON_ASSIGN(AffineExpr known, size == program.graph.sizes.end()
                                       ? Result<AffineExpr>(AffineExpr())
                                       : sizeOf(size->second));
    if (!known) {
      addGap(portGap("Input", name,
                     "it is a number that decides sizes, but not a dimension of a tensor", ""),
             "make it a constant, or a dimension of an input, and export again");
    }
    scope[name] = {.size = known};
    return Status::ok();
  }
  if (spec.argument.kind != Kind::Tensor || meta == program.graph.tensors.end()) {
    return Status::ok(); // A constant of the program, which nothing reads by name.
  }
  std::optional<DType> dtype = dtypeOf(meta->second.scalarType);
  Type element = dtype ? elementType(*dtype) : Type();
  if (!element || !meta->second.isStrided) {
    addGap(portGap("Input", name, "only dense tensors of numbers and bools can be inputs", ""),
           "move the part of the model that needs it outside");
    scope[name] = Value();
    return Status::ok();
  }
  for (const FixedInput &fixed : options.fixed) {
    if (fixed.input == name) {
      TENON_ASSIGN(mlir::Value value, fixedValue(fixed, element));
      scope[name] = {.tensor = std::make_shared<Tensor>(value)};
      return Status::ok();
    }
  }
  const ShapeOverride *override = nullptr;
  for (const ShapeOverride &candidate : options.shapes) {
    override = candidate.input == name ? &candidate : override;
  }
  if (override && override->dims.size() != meta->second.sizes.size()) {
    return overrideError(name, strCat("gives ", override->dims.size(), " dimensions, the model ",
                                      meta->second.sizes.size()));
  }
  tn::Dims dims;
  for (auto [index, size] : llvm::enumerate(meta->second.sizes)) {
    TENON_ASSIGN(AffineExpr dim,
                 inputDim(name, index, size, override ? &override->dims[index] : nullptr));
    dims.push_back(dim);
  }
  mlir::Value value = addInput(name, dims, element);
  TENON_TRY(checkValueType(value.getType(), name));
  scope[name] = {.tensor = std::make_shared<Tensor>(value)};
  userInputs[name] = {scope[name].tensor, dims};
  return Status::ok();
}

Status Importer::importInputs(Scope &scope) {
  // Tensors before numbers: the dims of tensors give numbers their meaning.
  for (const InputSpec &spec : program.inputs) {
    if (spec.kind == InputSpec::Kind::User && spec.argument.kind == Kind::Tensor) {
      TENON_TRY(importUserInput(spec, scope));
    }
  }
  for (const auto &[name, input] : userInputs) {
    TENON_TRY(relateDims(name, input.dims));
  }
  for (const InputSpec &spec : program.inputs) {
    if (spec.kind == InputSpec::Kind::User && spec.argument.kind != Kind::Tensor) {
      TENON_TRY(importUserInput(spec, scope));
    } else if (spec.kind == InputSpec::Kind::Other) {
      addGap(portGap("Input", spec.target,
                     strCat("inputs of kind '", spec.target, "' are not supported"), ""),
             "export a model without it");
    } else if (spec.kind != InputSpec::Kind::User && spec.kind != InputSpec::Kind::Value) {
      TENON_TRY(importWeight(spec, scope));
    }
  }
  bringUpToDate();
  return checkOverridesUsed();
}

Status Importer::checkOverridesUsed() const {
  std::vector<std::string> inputs;
  for (const InputSpec &spec : program.inputs) {
    if (spec.kind == InputSpec::Kind::User) {
      inputs.push_back(spec.argument.text);
    }
  }
  std::vector<std::string> named;
  for (const ShapeOverride &override : options.shapes) {
    // The sizes of state are those of its buffer.
    bool isState =
        override.input == kStarted || llvm::any_of(program.inputs, [&](const InputSpec &spec) {
          return spec.kind == InputSpec::Kind::Buffer &&
                 override.input == strCat(spec.target, ".state");
        });
    if (!isState) {
      named.push_back(override.input);
    }
  }
  for (const FixedInput &fixed : options.fixed) {
    named.push_back(fixed.input);
  }
  for (const std::string &name : named) {
    if (!llvm::is_contained(inputs, name)) {
      Status status = overrideError(name, "the model has no such input");
      return Status::error(status.id(), status.message(), didYouMean(name, inputs, status.hint()));
    }
  }
  return Status::ok();
}

//===--- Outputs ---===//

Status Importer::finish(Scope &scope) {
  Node node;
  node.target = node.name = "output";
  Call call(*this, node, program.graph, scope);
  SmallVector<mlir::Value> results;
  SmallVector<StringAttr> names;
  std::map<std::string, unsigned> uses;
  auto add = [&](const std::string &name, mlir::Value value) {
    if (value) {
      unsigned number = uses[name]++;
      results.push_back(value);
      names.push_back(builder.getStringAttr(number ? strCat(name, ".", number) : name));
    }
  };
  size_t position = 0;
  for (const OutputSpec &spec : program.outputs) {
    Value *value = spec.argument.isName() ? call.find(spec.argument) : nullptr;
    TENON_TRY(std::move(pending));
    if (spec.kind == OutputSpec::Kind::BufferMutation) {
      writtenBuffers.insert(spec.target);
      auto buffer = buffers.find(spec.target);
      if (buffer != buffers.end() && value && value->tensor) {
        buffer->second->write(call, value->tensor->value(call));
      }
    } else if (spec.kind != OutputSpec::Kind::User) {
      addGap(portGap("Output", spec.target,
                     "the program writes to its input, or has an output that is not a tensor", ""),
             "return a new tensor instead and export again");
    } else {
      std::string name =
          position < program.outputNames.size() ? program.outputNames[position] : "output";
      ++position;
      if (spec.argument.kind == Kind::Int || (value && value->size)) {
        AffineExpr size = value ? value->size : symbols.constant(spec.argument.integer);
        add(name, call.materialize(Sizes::scalar(size), builder.getI64Type()));
      } else if (value && value->imaginary) {
        addGap(portGap("Output", name, "complex outputs are not supported", ""),
               "return torch.view_as_real of it");
      } else if (value && value->tensor) {
        add(name, value->tensor->value(call));
      } else if (value && !value->isPoisoned()) {
        addGap(portGap("Output", name, "only tensors and integers can be outputs", ""),
               "return it as a tensor");
      }
    }
  }
  TENON_ASSIGN(std::vector<std::string> extraOutputs, chosenExtraOutputs());
  for (const auto &[name, value] : innerValues) {
    if (llvm::is_contained(extraOutputs, name)) {
      add(name, value);
    }
  }
  noteWrites();
  // A condition holds or ends the run wherever a result is read.
  for (const auto &[condition, what] : assertions) {
    if (!results.empty()) {
      results.front() =
          call.make<tn::RequireOp>(results.front(), condition, tn::Failure::constraint, what);
    }
  }
  finishState(call, add);
  if (results.empty() && gaps.empty()) {
    return Status::error(ErrorId::Pt2BadGraph, "the program has no outputs",
                         "return a tensor and export again");
  }
  endFunction(results, names);
  return std::move(pending);
}

Result<std::vector<std::string>> Importer::chosenExtraOutputs() const {
  std::vector<std::string> names, chosen;
  auto isOutput = [&](const std::string &name) {
    return llvm::any_of(program.outputs, [&](const OutputSpec &spec) {
      return spec.kind == OutputSpec::Kind::User && spec.argument.text == name;
    });
  };
  for (const Node &node : program.graph.nodes) {
    for (const Argument &output : node.outputs) {
      for (const Argument &result :
           output.kind == Kind::List ? output.elements : std::vector<Argument>{output}) {
        names.push_back(result.text);
      }
    }
  }
  for (const std::string &name : options.extraOutputs) {
    if (name != "*" && !llvm::is_contained(names, name)) {
      return Status::error(ErrorId::BadArgument,
                           strCat("no node of the model produces '", name, "'"),
                           didYouMean(name, names, "'tenon inspect MODEL' lists the nodes"));
    }
  }
  bool wantsAll = llvm::is_contained(options.extraOutputs, "*");
  llvm::copy_if(wantsAll ? names : options.extraOutputs, std::back_inserter(chosen),
                [&](const std::string &name) { return !isOutput(name); });
  return chosen;
}

void Importer::noteWrites() {
  for (const auto &[name, tensor] : buffers) {
    if (tensor->writes() > 0) {
      writtenBuffers.insert(name);
    }
  }
  for (const auto &[name, input] : userInputs) {
    if (input.tensor->writes() > 0) {
      addGap(portGap("Input", name, "the program writes to its input in place", ""),
             "clone it before the write, and return what the caller needs");
    }
  }
}

/// Each stateful buffer is a result too, beside the argument that holds it.
void Importer::finishState(Call &call,
                           llvm::function_ref<void(const std::string &, mlir::Value)> add) {
  for (const std::string &name : stateful) {
    auto found = buffers.find(name);
    if (found != buffers.end()) {
      add(strCat(name, ".next"), found->second->value(call));
      states.emplace_back(strCat(name, ".state"), strCat(name, ".next"));
    }
  }
  if (started) {
    add("started.next", call.integerConstant({1}, {}, builder.getI1Type()));
    states.emplace_back(kStarted, "started.next");
  }
}

} // namespace tenon::pt2
