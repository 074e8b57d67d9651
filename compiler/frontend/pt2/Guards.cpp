// The guards of an export: what its trace took for granted of the sizes. Those whose violation
// changes what the model computes become constraints; of the others the engine says that no run
// checks them.
#include "compiler/frontend/pt2/GuardConstraints.h"
#include "compiler/frontend/pt2/Importer.h"
#include "compiler/frontend/pt2/TracedSizes.h"
#include "support/text/ExportGuard.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// Of more guards than any export has, and of longer ones, the beginning counts.
constexpr size_t kMaxGuards = 4096;
constexpr size_t kMaxShownText = 400;
/// Terms that are evaluated to try sizes, for all guards of a program together: a second at most.
constexpr int64_t kMaxTries = int64_t{1} << 25;

std::string shown(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.size() <= kMaxShownText ? text : text.substr(0, kMaxShownText) + " ...";
}

/// As torch.export names its inputs: keys and positions, in small letters, joined.
std::string inputName(ArrayRef<std::string> path) {
  std::string name = llvm::join(path, "_");
  for (char &letter : name) {
    letter = llvm::isAlnum(letter) ? llvm::toLower(letter) : '_';
  }
  return name;
}

} // namespace

AffineExpr Importer::guardedSize(const GuardedSize &named, const Scope &scope) const {
  std::string name = inputName(named.path);
  // A strict export numbers the arguments.
  size_t number = 0;
  bool isNumber = named.path.size() == 2 && named.path[0] == "flat_args" &&
                  !StringRef(named.path[1]).getAsInteger(10, number);
  for (const InputSpec &spec : program.inputs) {
    if (isNumber && spec.kind == InputSpec::Kind::User && number-- == 0) {
      name = spec.argument.text;
      break;
    }
  }
  size_t dim = static_cast<size_t>(named.dim);
  if (auto input = userInputs.find(name); input != userInputs.end()) {
    return dim < input->second.dims.size() ? input->second.dims[dim] : AffineExpr();
  }
  for (const frontend::FixedInput &fixed : options.fixed) {
    if (fixed.input == name && dim < fixed.dims.size()) {
      return symbols.constant(fixed.dims[dim]);
    }
  }
  auto value = scope.find(name);
  AffineExpr integer = value == scope.end() || named.dim >= 0 ? AffineExpr() : value->second.size;
  return integer && isa<AffineSymbolExpr, AffineConstantExpr>(integer) ? integer : AffineExpr();
}

void Importer::requireGuard(const std::string &text, ArrayRef<tn::Constraint> constraints) {
  for (tn::Constraint constraint : constraints) {
    constraint.node = strCat(kExportGuard, shown(text));
    symbols.require(std::move(constraint));
  }
}

void Importer::noteUnchecked(const std::string &text, std::string_view why) {
  symbols.require({tn::ConstraintKind::at_least, symbols.constant(0), symbols.constant(0),
                   strCat(kUncheckedGuard, shown(text), "\n", why)});
}

Status Importer::importGuards(const Scope &scope) {
  if (program.guards.empty() || !gaps.empty()) {
    return Status::ok();
  }
  SizeOfGuard sizeOfGuard = [&](const GuardedSize &named) { return guardedSize(named, scope); };
  TracedSizes traced(program, symbols, [&](const Size &size) {
    Result<AffineExpr> known = sizeOf(size);
    return known ? *known : AffineExpr();
  });
  SmallVector<std::tuple<std::string, GuardTerm, std::string_view>> artefacts;
  std::set<std::pair<const void *, const void *>> required;
  int64_t budget = kMaxTries;
  SmallVector<int64_t> tracedSizes(symbols.all().size());
  bool areTraced = options.shapes.empty();
  for (const auto &[name, input] : userInputs) {
    for (auto [dim, size] : llvm::zip_equal(input.dims, program.graph.tensors.at(name).sizes)) {
      if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(dim)) {
        tracedSizes[symbol.getPosition()] = size.traced.value_or(0);
        areTraced &= size.traced.has_value();
      }
    }
  }
  for (const std::string &text : ArrayRef(program.guards).take_front(kMaxGuards)) {
    std::string why;
    std::optional<GuardTerm> guard = parseGuard(text, sizeOfGuard, why);
    if (!guard) {
      noteUnchecked(text, why);
      continue;
    }
    if (areTraced &&
        !guardHolds(*guard, tracedSizes)) { // as PyTorch 2.11 prints a quotient of quotients
      noteUnchecked(text, "it does not hold for the sizes of the export themselves");
      continue;
    }
    if (std::string_view artefact = traced.artefact(*guard); !artefact.empty()) {
      artefacts.emplace_back(text, std::move(*guard), artefact);
      continue;
    }
    GuardMeaning meaning = meaningOf(*guard, symbols, budget);
    if (meaning.kind == GuardMeaning::Kind::Never) {
      return Status::error(ErrorId::OnnxBadOverride,
                           strCat("the program was exported for sizes with ", shown(text),
                                  ", but none of the requested sizes meets it"),
                           "give sizes that meet it, or export the model with such an input");
    }
    if (meaning.kind == GuardMeaning::Kind::Unknown) {
      noteUnchecked(text, "no constraint of an engine can say it");
      continue;
    }
    llvm::erase_if(meaning.constraints, [&](const tn::Constraint &constraint) {
      return !required
                  .insert(
                      {constraint.left.getAsOpaquePointer(), constraint.right.getAsOpaquePointer()})
                  .second;
    });
    requireGuard(text, meaning.constraints);
    if (meaning.symbol) {
      symbols.narrowRange(meaning.symbol, meaning.range);
    }
  }
  for (const auto &[text, guard, why] : artefacts) {
    GuardMeaning::Kind kind = meaningOf(guard, symbols, budget).kind;
    if (kind != GuardMeaning::Kind::Always) {
      noteUnchecked(text, why);
    }
  }
  if (program.guards.size() > kMaxGuards) {
    noteUnchecked(strCat(program.guards.size() - kMaxGuards, " more"), "they are too many");
  }
  return Status::ok();
}

} // namespace tenon::pt2
