// A guard over one symbol is tried at every size; one over several becomes an expression.
#include "compiler/frontend/pt2/GuardConstraints.h"

#include "compiler/frontend/pt2/GuardFormula.h"

#include <set>

using namespace mlir;

namespace tenon::pt2 {
namespace {

using Op = GuardTerm::Op;
using GuardKind = GuardMeaning::Kind;
using SizeRange = tn::SymbolList::Range;

/// Sizes that are tried even where the symbol's range ends before: a guard may be why it does.
constexpr int64_t kTriedSizes = 65536;
constexpr int64_t kMaxTried = int64_t{1} << 20;
constexpr int64_t kMaxPeriod = 1024;
/// Sizes of no limit of their own, for what holds of all sizes.
constexpr int64_t kAnySize = int64_t{1} << 31;
/// More runs of sizes that are allowed are no range.
constexpr size_t kMaxRuns = 8;
constexpr unsigned kMaxParts = 400;

void collectSymbols(const GuardTerm &term, std::set<unsigned> &symbols) {
  if (term.op == Op::Size) {
    symbols.insert(cast<AffineSymbolExpr>(term.size).getPosition());
  }
  for (const GuardTerm &operand : term.operands) {
    collectSymbols(operand, symbols);
  }
}

/// Whether reals are computed on the way.
bool hasReals(const GuardTerm &term) {
  bool isReal = term.op == Op::Real || term.op == Op::Divide || term.op == Op::Power ||
                term.op == Op::ToReal || term.op == Op::SquareRoot;
  return isReal || llvm::any_of(term.operands, hasReals);
}

size_t termsOf(const GuardTerm &term) {
  size_t count = 1;
  for (const GuardTerm &operand : term.operands) {
    count += termsOf(operand);
  }
  return count;
}

using Runs = SmallVector<std::pair<size_t, size_t>>; ///< first and last

Runs runsOf(ArrayRef<bool> allowed) {
  Runs runs;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i] && i > 0 && allowed[i - 1]) {
      runs.back().second = i;
    } else if (allowed[i]) {
      runs.emplace_back(i, i);
    }
  }
  return runs;
}

/// The least number of sizes after which what is allowed repeats; 0 for none.
size_t periodOf(ArrayRef<bool> allowed) {
  for (size_t period = 2; period <= kMaxPeriod && 2 * period < allowed.size(); ++period) {
    if (allowed.drop_front(period) == allowed.drop_back(period)) {
      return period;
    }
  }
  return 0;
}

class GuardReader {
public:
  GuardReader(const frontend::Symbols &theSymbols, int64_t &tries)
      : symbols(theSymbols),
        formula(theSymbols, [this](const GuardTerm &part) { return truthByTrying(part); }),
        budget(tries) {
    for (const tn::Symbol &symbol : symbols.all()) {
      anySize.add(symbol.name, 0, kAnySize);
    }
  }

  GuardMeaning read(const GuardTerm &guard) {
    std::set<unsigned> named;
    collectSymbols(guard, named);
    if (named.empty()) {
      SmallVector<int64_t> values(symbols.all().size());
      return {guardHolds(guard, values) ? GuardKind::Always : GuardKind::Never};
    }
    GuardMeaning tried =
        named.size() == 1 ? ofOneSymbol(guard, symbolOf(*named.begin())) : GuardMeaning();
    if (tried.kind == GuardKind::Always || tried.kind == GuardKind::Never ||
        (tried.kind == GuardKind::Needed && hasReals(guard))) {
      return tried;
    }
    GuardMeaning result{GuardKind::Always};
    require(guard, result);
    if (result.kind == GuardKind::Unknown) {
      return tried;
    }
    result.symbol = tried.symbol;
    result.range = tried.range;
    return result;
  }

private:
  /// Adds what the guard asks for; an `and` asks for both.
  void require(const GuardTerm &guard, GuardMeaning &result) {
    if (guard.op == Op::And) {
      require(guard.operands[0], result);
      return require(guard.operands[1], result);
    }
    bool isPlain = guard.isComparison() && guard.op != Op::NotEqual;
    AffineExpr value = isPlain ? formula.difference(guard) : AffineExpr();
    if (!value) {
      isPlain = false;
      value = formula.truth(guard);
    }
    if (!value) {
      result.kind = GuardKind::Unknown;
    } else if (isPlain && guard.op == Op::Equal) {
      add(tn::ConstraintKind::equal, value, symbols.constant(0), result);
    } else {
      add(tn::ConstraintKind::at_least, value, symbols.constant(isPlain ? 0 : 1), result);
    }
  }

  void add(tn::ConstraintKind kind, AffineExpr value, AffineExpr bound, GuardMeaning &result) {
    if (result.kind == GuardKind::Unknown || result.kind == GuardKind::Never) {
      return;
    }
    int64_t least = *tn::constantDim(bound);
    bool isEquality = kind == tn::ConstraintKind::equal;
    AffineExpr known = symbols.canonical(value);
    SizeRange range = symbols.bounds(value), any = anySize.bounds(known ? known : value);
    unsigned parts = 0;
    value.walk([&](AffineExpr) { ++parts; });
    if (any.min >= least && (!isEquality || any.max <= least)) {
      return;
    }
    if (range.max < least || (isEquality && range.min > least)) {
      result.kind = GuardKind::Never;
    } else if (parts > kMaxParts) {
      result.kind = GuardKind::Unknown;
    } else {
      result.kind = GuardKind::Needed;
      result.constraints.push_back({kind, value, bound, ""});
    }
  }

  void addBound(AffineExpr value, GuardMeaning &result) {
    add(tn::ConstraintKind::at_least, value, symbols.constant(0), result);
  }

  /// Whether the guard holds for each size from 0 on of its only symbol; empty if they are too
  /// many.
  SmallVector<bool> tried(const GuardTerm &guard, AffineExpr symbol) {
    SizeRange range = symbols.bounds(symbol);
    int64_t count = std::max(range.max, kTriedSizes) + 1;
    int64_t work = count * static_cast<int64_t>(termsOf(guard));
    if (range.min < 0 || range.max > kMaxTried || work > budget) {
      return {};
    }
    budget -= work;
    SmallVector<bool> allowed(static_cast<size_t>(count));
    SmallVector<int64_t> values(symbols.all().size());
    for (size_t i = 0; i < allowed.size(); ++i) {
      values[cast<AffineSymbolExpr>(symbol).getPosition()] = static_cast<int64_t>(i);
      allowed[i] = guardHolds(guard, values);
    }
    return allowed;
  }

  GuardMeaning ofOneSymbol(const GuardTerm &guard, AffineExpr symbol) {
    SmallVector<bool> allowed = tried(guard, symbol);
    if (allowed.empty()) {
      return {};
    }
    if (llvm::all_of(allowed, [](bool is) { return is; })) {
      return {GuardKind::Always};
    }
    SizeRange range = symbols.bounds(symbol);
    size_t first = static_cast<size_t>(range.min), last = static_cast<size_t>(range.max);
    Runs inRange = runsOf(ArrayRef(allowed).slice(first, last - first + 1));
    if (inRange.empty()) {
      return {GuardKind::Never};
    }
    GuardMeaning result{GuardKind::Always};
    Runs runs = runsOf(allowed);
    if (runs.size() == 1) {
      auto [least, most] = runs.front();
      addBound(frontend::addSizes(symbol, symbols.constant(-static_cast<int64_t>(least))), result);
      if (most + 1 < allowed.size()) {
        AffineExpr end = symbols.constant(static_cast<int64_t>(most));
        addBound(frontend::subtractSizes(end, symbol), result);
      }
    } else if (AffineExpr isAllowed = truthOf(symbol, allowed)) {
      add(tn::ConstraintKind::at_least, isAllowed, symbols.constant(1), result);
    }
    if (inRange.size() == 1) {
      result.symbol = symbol;
      result.range = {range.min + static_cast<int64_t>(inRange[0].first),
                      range.min + static_cast<int64_t>(inRange[0].second)};
    }
    result.kind = result.kind == GuardKind::Always ? GuardKind::Unknown : result.kind;
    return result;
  }

  AffineExpr truthByTrying(const GuardTerm &part) {
    std::set<unsigned> named;
    collectSymbols(part, named);
    if (named.size() != 1) {
      return nullptr;
    }
    AffineExpr symbol = symbolOf(*named.begin());
    SmallVector<bool> allowed = tried(part, symbol);
    return allowed.empty() ? AffineExpr() : truthOf(symbol, allowed);
  }

  /// 1 for the sizes that are allowed, if those are few ranges or repeat.
  AffineExpr truthOf(AffineExpr symbol, ArrayRef<bool> allowed) {
    Runs runs = runsOf(allowed);
    AffineExpr value = symbol;
    size_t count = allowed.size();
    if (runs.size() > kMaxRuns) {
      count = periodOf(allowed);
      runs = runsOf(allowed.take_front(count));
      if (count == 0 || runs.size() > kMaxRuns) {
        return nullptr;
      }
      AffineExpr period = symbols.constant(static_cast<int64_t>(count));
      AffineExpr whole = frontend::multiplySizes(symbol.floorDiv(period), period);
      value = frontend::subtractSizes(symbol, whole);
    }
    AffineExpr isAllowed = symbols.constant(0);
    for (auto [first, last] : runs) {
      std::optional<int64_t> end =
          last + 1 == count ? std::nullopt : std::optional(static_cast<int64_t>(last));
      isAllowed =
          formula.either(isAllowed, formula.isWithin(value, static_cast<int64_t>(first), end));
    }
    return isAllowed;
  }

  AffineExpr symbolOf(unsigned index) const {
    return getAffineSymbolExpr(index, symbols.constant(0).getContext());
  }

  const frontend::Symbols &symbols;
  GuardFormula formula;
  tn::SymbolList anySize;
  int64_t &budget;
};

} // namespace

GuardMeaning meaningOf(const GuardTerm &guard, const frontend::Symbols &symbols, int64_t &budget) {
  return GuardReader(symbols, budget).read(guard);
}

} // namespace tenon::pt2
