// The operations of TnRareOps.td. Apart from Tn.h, which nearly every file of the compiler
// includes.
#pragma once

#include "compiler/graph/BlockRows.h"
#include "compiler/graph/Tn.h"

#define GET_OP_CLASSES
#include "compiler/graph/TnRareOps.h.inc"

namespace tenon::tn {

/// An activation that a recurrent layer may have: its name in `tn.recurrence`, and its parameters
/// alpha and beta with what they are unless the layer states them.
struct CellActivation {
  /// A parameter that the activation lacks, or one that a layer has to state.
  enum class Parameter : uint8_t { none, stated, usual };
  llvm::StringLiteral name;
  Parameter alpha = Parameter::none;
  Parameter beta = Parameter::none;
  double usualAlpha = 0;
  double usualBeta = 0;
};

/// Null if there is none of that name.
const CellActivation *findCellActivation(llvm::StringRef name);

} // namespace tenon::tn
