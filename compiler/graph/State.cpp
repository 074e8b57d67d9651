// Finds inputs and outputs by name and marks them. Relies on the first function being the model.
#include "compiler/graph/State.h"

#include "compiler/graph/Constraints.h"
#include "compiler/graph/Shape.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::tn {
namespace {

constexpr llvm::StringLiteral kPresets = "tn.presets";
constexpr std::string_view kUse = "--state INPUT=OUTPUT needs names as tenon inspect prints them";

std::string_view nameIn(DictionaryAttr attributes, StringRef key) {
  StringAttr name = attributes ? attributes.getAs<StringAttr>(key) : StringAttr();
  return name ? std::string_view(name.getValue()) : std::string_view();
}

/// Of inputs or outputs.
std::vector<std::string> namesOf(ArrayAttr ports) {
  std::vector<std::string> names;
  for (Attribute port : ports ? ports.getValue() : ArrayRef<Attribute>()) {
    names.emplace_back(nameIn(cast<DictionaryAttr>(port), "tn.name"));
  }
  return names;
}

std::optional<unsigned> findInput(func::FuncOp function, StringRef name, StringRef key) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (nameIn(function.getArgAttrDict(i), key) == std::string_view(name)) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<unsigned> findOutput(func::FuncOp function, StringRef name, StringRef key) {
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (nameIn(function.getResultAttrDict(i), key) == std::string_view(name)) {
      return i;
    }
  }
  return std::nullopt;
}

Status refuse(StringRef input, StringRef output, std::string_view why, std::string_view remedy) {
  return Status::error(
      ErrorId::BadArgument,
      strCat("state ", std::string_view(input), '=', std::string_view(output), ": ", why),
      std::string(remedy));
}

} // namespace

namespace {

/// What the `*` of a pattern stands for in a name that fits it.
std::optional<StringRef> fit(StringRef pattern, StringRef name) {
  auto [before, after] = pattern.split('*');
  bool fits = name.size() >= before.size() + after.size() && name.starts_with(before) &&
              name.ends_with(after);
  return fits ? std::optional(name.drop_front(before.size()).drop_back(after.size()))
              : std::nullopt;
}

Status declareOne(func::FuncOp function, StringRef input, StringRef output) {
  std::optional<unsigned> argument = findInput(function, input, "tn.name");
  std::optional<unsigned> result = findOutput(function, output, "tn.name");
  if (!argument) {
    return refuse(input, output, "the model has no such input",
                  didYouMean(input, namesOf(function.getArgAttrsAttr()), kUse));
  }
  if (!result) {
    return refuse(input, output, "the model has no such output",
                  didYouMean(output, namesOf(function.getResAttrsAttr()), kUse));
  }
  if (function.getArgAttr(*argument, kState) || function.getResultAttr(*result, kState)) {
    return refuse(input, output, "the input or the output is part of another state", kUse);
  }
  RankedTensorType before = cast<RankedTensorType>(function.getArgumentTypes()[*argument]);
  RankedTensorType after = cast<RankedTensorType>(function.getResultTypes()[*result]);
  if (before != after) {
    return refuse(input, output, "the two have different shapes or element types",
                  "a state must be replaced by one of its own shape and type");
  }
  StringAttr name = StringAttr::get(function.getContext(), input);
  function.setArgAttr(*argument, kState, name);
  function.setResultAttr(*result, kState, name);
  return Status::ok();
}

} // namespace

Status declareState(ModuleOp module, StringRef input, StringRef output) {
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  if (input.count('*') != 1 || output.count('*') != 1) {
    return declareOne(function, input, output);
  }
  bool isUsed = false;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    StringRef name(nameIn(function.getArgAttrDict(i), "tn.name"));
    if (std::optional<StringRef> text = fit(input, name)) {
      auto [before, after] = output.split('*');
      TENON_TRY(declareOne(function, name, (before + *text + after).str()));
      isUsed = true;
    }
  }
  return isUsed ? Status::ok() : refuse(input, output, "no input of the model matches", kUse);
}

SmallVector<State> statesOf(func::FuncOp function) {
  SmallVector<State> states;
  for (BlockArgument argument : function.getArguments()) {
    StringAttr name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kState);
    std::optional<unsigned> result =
        name ? findOutput(function, name.getValue(), kState) : std::nullopt;
    if (result) {
      states.push_back({argument, *result});
    }
  }
  return states;
}

llvm::SmallSetVector<unsigned, 4> sessionSymbols(func::FuncOp function) {
  llvm::SmallSetVector<unsigned, 4> named;
  for (const State &state : statesOf(function)) {
    for (AffineExpr dim : statedDims(function, state.argument.getArgNumber())) {
      dim.walk([&](AffineExpr part) {
        if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part)) {
          named.insert(symbol.getPosition());
        }
      });
    }
  }
  return named;
}

Status setPreset(ModuleOp module, StringRef symbol, int64_t value) {
  SymbolList symbols(module);
  std::vector<std::string> names;
  const Symbol *found = nullptr;
  for (unsigned i : sessionSymbols(*module.getOps<func::FuncOp>().begin())) {
    const Symbol &each = symbols.symbols()[i];
    names.push_back(each.name);
    found = StringRef(each.name) == symbol ? &each : found;
  }
  if (!found) {
    return Status::error(
        ErrorId::BadArgument,
        strCat("no state has '", std::string_view(symbol), "' in its dimensions"),
        didYouMean(symbol, names, "--state and --shape decide which symbols a session has"));
  }
  if (value < found->min || value > found->max) {
    return Status::error(ErrorId::BadArgument,
                         strCat("'", found->name, "' of sessions is to be ", value,
                                ", but its range is ", found->min, " to ", found->max),
                         "give a value in this range, or a wider --shape range");
  }
  NamedAttrList presets(module->getAttrOfType<DictionaryAttr>(kPresets));
  presets.set(symbol, Builder(module.getContext()).getI64IntegerAttr(value));
  module->setAttr(kPresets, presets.getDictionary(module.getContext()));
  return Status::ok();
}

int64_t presetOf(ModuleOp module, const Symbol &symbol) {
  DictionaryAttr presets = module->getAttrOfType<DictionaryAttr>(kPresets);
  IntegerAttr preset = presets ? presets.getAs<IntegerAttr>(symbol.name) : IntegerAttr();
  return preset ? preset.getInt() : symbol.max;
}

} // namespace tenon::tn
