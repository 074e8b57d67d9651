// Patterns over the graph as text; tenon/graph.h has the grammar in words.
#pragma once

#include "mlir/IR/Value.h"
#include "support/Result.h"
#include "llvm/Support/JSON.h"

#include <string>
#include <utility>
#include <vector>

namespace tenon::rewrite {

struct Pattern {
  enum class Kind { Any, Number, Op };

  Kind kind = Kind::Any;
  std::string name; ///< what captures the value; empty for none
  double number = 0;
  std::vector<std::string> ops; ///< any of them; "constant" stands for every constant
  std::vector<Pattern> operands;
  bool mayHaveMore = false; ///< further operands
  std::vector<std::pair<std::string, llvm::json::Value>> attributes;
};

/// TN0408 with the place where the text stops being a pattern; the root is an operation.
Result<Pattern> parsePattern(llvm::StringRef text);

} // namespace tenon::rewrite
