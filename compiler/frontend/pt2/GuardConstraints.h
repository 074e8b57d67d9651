// What a guard of an export asks of the symbols, as constraints of the module.
#pragma once

#include "compiler/frontend/common/Symbols.h"
#include "compiler/frontend/pt2/GuardText.h"

namespace tenon::pt2 {

struct GuardMeaning {
  enum class Kind : uint8_t {
    Always,  ///< the sizes of the inputs, or what is checked already, imply it
    Never,   ///< no sizes in the symbols' ranges satisfy it
    Needed,  ///< exactly where `constraints` hold
    Unknown, ///< no constraint can say it
  };
  Kind kind = Kind::Unknown;
  llvm::SmallVector<tn::Constraint, 2> constraints = {}; ///< without a node
  /// Of the only symbol, where what is allowed is a range; `symbol` is null otherwise.
  mlir::AffineExpr symbol = {};
  tn::SymbolList::Range range = {0, 0};
};

/// `budget`: how many terms may be evaluated to try sizes, less those that were.
GuardMeaning meaningOf(const GuardTerm &guard, const frontend::Symbols &symbols, int64_t &budget);

} // namespace tenon::pt2
