// Evaluates with the reference interpreter, reusing every value whose definition (operation,
// attributes, operands, recursively) was evaluated before. Relies on operations being pure and
// weight ids never changing their bytes.
#include "compiler/pipeline/NumericCheck.h"

#include "compiler/dispatch/Names.h"
#include "compiler/graph/Constraints.h"
#include "compiler/graph/State.h"
#include "compiler/graph/Tn.h"
#include "compiler/reference/Compare.h"
#include "support/LanguageStep.h"
#include "support/text/Text.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

using namespace mlir;

namespace tenon::pipeline {
namespace {

using reference::Tensor;

/// Values of symbols, one after the other: small, and different, so that mixed-up dims show.
constexpr int64_t kSymbolValues[] = {2, 5, 3, 7};
/// Between the inputs of one seed and those of the next.
constexpr uint64_t kSeedStride = 1 << 20;
/// Largest error of a result, relative to the largest magnitude of the true one.
constexpr double kRelativeToLargest = 1e-4;

/// Names every value of a function by what computes it.
class ValueKeys {
public:
  explicit ValueKeys(func::FuncOp function) {
    Block &block = function.getBody().front();
    for (BlockArgument argument : block.getArguments()) {
      keys[argument] = hashText(strCat("input ", argument.getArgNumber()));
    }
    addBlock(block);
  }

  Hash128 operator[](Value value) const { return keys.lookup(value); }

private:
  void addBlock(Block &block) {
    for (Operation &op : block) {
      if (tn::RegionOp region = dyn_cast<tn::RegionOp>(op)) {
        addRegion(region);
      } else {
        addOp(op);
      }
    }
  }

  /// A region's results are those of the operations inside.
  void addRegion(tn::RegionOp region) {
    Block &body = region.getBody().front();
    for (auto [argument, input] : llvm::zip_equal(body.getArguments(), region.getInputs())) {
      keys[argument] = keys.lookup(input);
    }
    addBlock(body);
    for (auto [result, value] :
         llvm::zip_equal(region.getResults(), body.getTerminator()->getOperands())) {
      keys[result] = keys.lookup(value);
    }
  }

  void addOp(Operation &op) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << op.getName() << op.getAttrDictionary();
    for (Type type : op.getResultTypes()) {
      stream << type;
    }
    for (Value operand : op.getOperands()) {
      stream << ' ' << keys.lookup(operand).hex();
    }
    for (OpResult result : op.getResults()) {
      keys[result] = hashText(strCat(text, '#', result.getResultNumber()));
    }
  }

  llvm::DenseMap<Value, Hash128> keys;
};

/// The tolerance for results computed in a 16-bit type, in whatever type they are held:
/// `operations` roundings that add up as independent errors do, relative to the largest element.
reference::Comparison compareNarrow(const Tensor &expected, const Tensor &actual, DType computed,
                                    int64_t operations) {
  if (!reference::isFloat(expected.dtype())) {
    return reference::compareTensors(expected, actual);
  }
  double largest = reference::compareTensors(expected, actual).largestMagnitude;
  double rounding = computed == DType::F16 ? 0x1p-11 : 0x1p-8;
  double error = rounding * std::sqrt(static_cast<double>(operations));
  return reference::compareTensors(expected, actual, {.relative = 0, .absolute = error * largest});
}

/// The tolerance for results of whole models: relative to the largest element.
reference::Comparison compareResult(const Tensor &expected, const Tensor &actual) {
  reference::Tolerance tolerance = reference::toleranceOf(expected.dtype());
  if (tolerance.relative == 0 && tolerance.absolute == 0) {
    return reference::compareTensors(expected, actual);
  }
  double largest = reference::compareTensors(expected, actual).largestMagnitude;
  double scale = tolerance.relative / reference::toleranceOf(DType::F32).relative;
  return reference::compareTensors(
      expected, actual,
      {.relative = 0, .absolute = scale * kRelativeToLargest * largest + tolerance.absolute});
}

/// Inputs of a language model's step say where its tokens stand, in agreement with each other.
void fillStep(func::FuncOp function, std::vector<Tensor> &inputs) {
  std::map<std::string, Tensor *> ofRole;
  const Tensor *cache = nullptr;
  for (auto [index, tensor] : llvm::enumerate(inputs)) {
    if (StringAttr role = function.getArgAttrOfType<StringAttr>(index, tn::kRole)) {
      ofRole[role.str()] = &tensor;
    } else if (!ofRole.empty()) {
      cache = &tensor;
    }
  }
  auto size = [&](const char *role, size_t dim) {
    auto found = ofRole.find(role);
    return found == ofRole.end() ? 0 : found->second->dims()[dim];
  };
  StepSizes sizes = {.tokens = size("tokens", 0),
                     .rows = size("rows", 0),
                     .context = size("context", 0),
                     .sequences = size("pages", 0),
                     .table = size("pages", 1)};
  if (sizes.sequences > 0 && cache) {
    sizes.page = cache->dims()[2];
    sizes.pages = cache->dims()[0];
    sizes.longest = (sizes.table - 1) * sizes.page + 1; // which any engine of such a table has
  }
  for (auto &[role, tensor] : ofRole) {
    std::optional<std::vector<int64_t>> numbers = stepInput(role, sizes);
    if (numbers && tensor->dtype() == DType::I64 &&
        static_cast<int64_t>(numbers->size()) == tensor->count()) {
      std::ranges::copy(*numbers, tensor->as<int64_t>());
    }
  }
}

func::FuncOp mainOf(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

} // namespace

/// Floats in [-1, 1), integers and bools 0 or 1 (valid as token, mask and index), the same on every
/// machine. Each row of integers begins with a 1: as a mask it shows a key, since what a query sees
/// that sees none depends on the precision.
Result<Tensor> seededTensor(DType dtype, llvm::ArrayRef<int64_t> dims, uint64_t seed) {
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  auto next = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 40;
  };
  constexpr double kHalf = 1 << 23;
  TENON_ASSIGN(Tensor tensor, Tensor::create(dtype, dims));
  TENON_ASSIGN(
      Tensor reals,
      Tensor::create(DType::F64, reference::isFloat(dtype) ? dims : llvm::ArrayRef<int64_t>(0)));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double unit = (static_cast<double>(next()) - kHalf) / kHalf;
    if (reference::isFloat(dtype)) {
      reals.as<double>()[i] = unit;
      continue;
    }
    // Little-endian: the first byte of an integer holds 0 or 1.
    bool isFirst = tensor.rank() > 0 && i % tensor.dims().back() == 0;
    tensor.mutableBytes()[i * (bitWidth(dtype) / 8)] = unit > 0 || isFirst ? 1 : 0;
  }
  return reference::isFloat(dtype) ? reference::convert(reals, dtype) : Result<Tensor>(tensor);
}

Result<std::vector<Tensor>> seededInputs(ModuleOp module, uint64_t seed) {
  func::FuncOp function = mainOf(module);
  llvm::SmallVector<int64_t> symbols;
  for (auto [index, symbol] : llvm::enumerate(tn::SymbolList(module).symbols())) {
    symbols.push_back(std::clamp(kSymbolValues[index % 4], symbol.min, symbol.max));
  }
  if (!tn::satisfyConstraints(function, symbols)) {
    return Status::error(ErrorId::BadArgument, "no small sizes meet the model's constraints",
                         "fix the dims with --shape");
  }
  std::vector<Tensor> inputs;
  for (Type type : function.getArgumentTypes()) {
    llvm::SmallVector<int64_t> dims;
    for (AffineExpr dim : tn::getDims(type)) {
      dims.push_back(dim ? tn::evaluate(dim, symbols).value_or(1) : 1);
    }
    std::optional<DType> dtype = reference::dtypeOf(cast<RankedTensorType>(type).getElementType());
    if (!dtype) {
      return Status::error(ErrorId::InternalError,
                           "an input has a type that the reference does not support");
    }
    TENON_ASSIGN(Tensor tensor, seededTensor(*dtype, dims, inputs.size() + 1 + seed * kSeedStride));
    inputs.push_back(std::move(tensor));
  }
  fillStep(function, inputs);
  return inputs;
}

NumericCheck::NumericCheck(tn::WeightStore &weights, unsigned threads)
    : interpreter(&weights, {.precision = reference::Precision::Native, .threads = threads}) {}

Result<std::vector<Tensor>> NumericCheck::evaluate(ModuleOp module) {
  func::FuncOp function = mainOf(module);
  ValueKeys keys(function);
  now.clear();
  reference::Hooks hooks;
  hooks.reuse = [&](Operation *op, llvm::ArrayRef<Tensor>) -> std::optional<std::vector<Tensor>> {
    std::vector<Tensor> results;
    for (Value result : op->getResults()) {
      KnownValues::const_iterator known = last.find(keys[result]);
      if (known == last.end()) {
        return std::nullopt;
      }
      results.push_back(known->second.tensor);
    }
    return results;
  };
  hooks.observe = [&](Operation *op, llvm::ArrayRef<Tensor>, llvm::ArrayRef<Tensor> results) {
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results)) {
      bool isNew = !last.contains(keys[result]);
      evaluatedOps += isNew && !isa<tn::RegionOp>(op) ? 1 : 0;
      now[keys[result]] = {dispatch::nodeNames(op->getLoc()), tensor};
    }
    return Status::ok();
  };
  // A pass may have changed the type of a state.
  std::vector<Tensor> converted;
  for (auto [input, type] : llvm::zip_equal(inputs, function.getArgumentTypes())) {
    std::optional<DType> dtype = reference::dtypeOf(cast<RankedTensorType>(type).getElementType());
    TENON_ASSIGN(Tensor tensor, reference::convert(input, dtype.value_or(input.dtype())));
    converted.push_back(std::move(tensor));
  }
  return interpreter.evaluate(function, converted, hooks);
}

/// The first operation that is new and whose value is none of those that operations of the same
/// nodes had before.
std::string NumericCheck::firstSuspect(func::FuncOp function, const Compare &compare) const {
  ValueKeys keys(function);
  Operation *firstNew = nullptr;
  Operation *suspect = nullptr;
  function.walk([&](Operation *op) {
    if (op->getNumResults() == 0 || isa<tn::RegionOp>(op) ||
        last.contains(keys[op->getResult(0)])) {
      return WalkResult::advance();
    }
    KnownValues::const_iterator own = now.find(keys[op->getResult(0)]);
    if (own == now.end()) {
      return WalkResult::advance();
    }
    firstNew = firstNew ? firstNew : op;
    bool hasPeer = false;
    for (const auto &[key, before] : last) {
      bool isPeer = llvm::any_of(before.nodes, [&](const std::string &node) {
        return llvm::is_contained(own->second.nodes, node);
      });
      bool areFloats = reference::isFloat(before.tensor.dtype()) &&
                       reference::isFloat(own->second.tensor.dtype());
      if (!isPeer || before.tensor.dims() != own->second.tensor.dims() ||
          (before.tensor.dtype() != own->second.tensor.dtype() && !areFloats)) {
        continue;
      }
      hasPeer = true;
      if (compare(before.tensor, own->second.tensor).equal()) {
        return WalkResult::advance();
      }
    }
    suspect = hasPeer ? op : nullptr;
    return hasPeer ? WalkResult::interrupt() : WalkResult::advance();
  });
  Operation *named = suspect ? suspect : firstNew;
  if (!named) {
    return "no operation is new";
  }
  return strCat("first at '", dispatch::nameOf(named), "' (",
                std::string_view(named->getName().getStringRef()), ')');
}

std::string NumericCheck::firstSuspect(ModuleOp module) const {
  return firstSuspect(mainOf(module), compareResult);
}

Status NumericCheck::start(ModuleOp module) {
  TENON_ASSIGN(std::vector<Tensor> seeded, seededInputs(module));
  return start(module, std::move(seeded));
}

Status NumericCheck::start(ModuleOp module, std::vector<Tensor> given) {
  inputs = std::move(given);
  TENON_ASSIGN(truth, evaluate(module));
  accept();
  return Status::ok();
}

Status NumericCheck::check(llvm::StringRef pass, ModuleOp module) {
  return check(pass, module, compareResult).status();
}

Result<NumericCheck::Change> NumericCheck::changeBy(ModuleOp module) {
  TENON_ASSIGN(std::vector<Tensor> results, evaluate(module));
  Change change;
  for (auto [index, expected, actual] : llvm::enumerate(truth, results)) {
    reference::Comparison comparison = compareResult(expected, actual);
    double difference = std::abs(comparison.largest.actual - comparison.largest.expected);
    double share = difference == 0 ? 0 : difference / comparison.largestMagnitude;
    bool isMeasured = comparison.mismatch.empty() && !std::isnan(share);
    double relative = isMeasured           ? share
                      : comparison.equal() ? 0
                                           : std::numeric_limits<double>::infinity();
    change.isRounding &= comparison.equal();
    if (relative > change.relative) {
      StringAttr name = mainOf(module).getResultAttrOfType<StringAttr>(index, "tn.name");
      change.relative = relative;
      change.output = name ? name.str() : strCat("output ", index);
      change.what =
          comparison.mismatch.empty() ? comparison.text(expected.dims()) : comparison.mismatch;
    }
  }
  return change;
}

Status NumericCheck::checkLowered(llvm::StringRef pass, ModuleOp module, DType computed) {
  int64_t operations = llvm::count_if(mainOf(module).getOps(), [](Operation &op) {
    return !isa<tn::WeightOp, tn::ConstantOp>(op);
  });
  TENON_ASSIGN(truth, check(pass, module, [&](const Tensor &expected, const Tensor &actual) {
                 return compareNarrow(expected, actual, computed, operations);
               }));
  return Status::ok();
}

Result<std::vector<Tensor>> NumericCheck::check(llvm::StringRef pass, ModuleOp module,
                                                const Compare &compare) {
  func::FuncOp function = mainOf(module);
  Result<std::vector<Tensor>> results = evaluate(module);
  if (!results) {
    return results.takeStatus().prefix(
        strCat("evaluating after pass '", std::string_view(pass), "'"));
  }
  for (auto [index, expected, actual] : llvm::enumerate(truth, *results)) {
    reference::Comparison comparison = compare(expected, actual);
    if (comparison.equal()) {
      continue;
    }
    StringAttr name = function.getResultAttrOfType<StringAttr>(index, "tn.name");
    std::string what =
        comparison.mismatch.empty() ? comparison.text(expected.dims()) : comparison.mismatch;
    return Status::error(ErrorId::VerifyFailed,
                         strCat("after pass '", std::string_view(pass), "' output '",
                                std::string_view(name ? name.getValue() : "?"), "' differs: ", what,
                                "; ", firstSuspect(function, compare)),
                         "this is a bug in the pass; report it with the model");
  }
  accept();
  return results;
}

} // namespace tenon::pipeline
