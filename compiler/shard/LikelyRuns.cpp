// Relies on the names of a step's symbols (frontend/language).
#include "compiler/shard/LikelyRuns.h"

#include "compiler/graph/Shape.h"
#include "support/LikelySize.h"
#include "support/text/Text.h"

#include <algorithm>

using namespace mlir;

namespace tenon::shard {

std::vector<LikelyRun> likelyRuns(ModuleOp module, func::FuncOp function, int64_t context) {
  SmallVector<tn::Symbol> symbols(tn::SymbolList(module).symbols());
  auto has = [&](llvm::StringRef name) {
    return llvm::any_of(symbols, [&](const tn::Symbol &each) { return each.name == name; });
  };
  bool isStep = has("tokens") && has("rows");
  std::vector<LikelyRun> runs;
  for (int64_t tokens : isStep ? std::vector<int64_t>{1, kLikelyPrompt} : std::vector<int64_t>{0}) {
    LikelyRun run{tokens == 0   ? "a run"
                  : tokens == 1 ? "a token"
                                : strCat("a prompt of ", tokens, " tokens"),
                  {}};
    for (const tn::Symbol &symbol : symbols) {
      unsigned first = 1;
      for (Type type : llvm::reverse(function.getArgumentTypes())) {
        for (auto [dim, expression] : llvm::enumerate(tn::getDims(type))) {
          std::optional<tn::LinearDim> line = expression ? tn::linearDim(expression) : std::nullopt;
          first = line && symbols[line->symbol].name == symbol.name ? dim : first;
        }
      }
      int64_t size = likelySize(first, symbol.min, symbol.max);
      if (isStep) {
        size = symbol.name == "tokens"    ? tokens
               : symbol.name == "context" ? std::max(tokens, context)
                                          : 1;
      }
      run.symbols.push_back(size);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

} // namespace tenon::shard
