// Pieces of assembly as an instruction's operands and a list of statements: as much of PTX as
// products of warpgroups are written in.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::codegen::cuda {

/// "add.s64 a, $1, 2".
struct Statement {
  std::string name;
  std::vector<std::string> operands;
};

struct Input {
  size_t offset = 0, bytes = 0;
  std::optional<unsigned> tied; ///< to this output
};

/// A piece of assembly: its operands are $0 ... for outputs, then inputs.
struct Piece {
  unsigned outputs = 0;
  std::vector<Input> inputs;
  std::vector<Statement> statements;
  std::string fault;
};

/// Of "constraints|text"; read once.
const Piece &pieceOf(const std::string &assembly);

/// "{$0, $1}".
std::vector<unsigned> registersOf(llvm::StringRef list);

} // namespace tenon::codegen::cuda
