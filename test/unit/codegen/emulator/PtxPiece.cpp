// Relies on statements ending with semicolons and on braces that only open and close scopes or
// lists of registers.
#include "test/unit/codegen/emulator/PtxPiece.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using llvm::StringRef;

namespace tenon::codegen::cuda {
namespace {

/// At commas that are not in braces.
std::vector<std::string> splitOperands(StringRef text) {
  std::vector<std::string> parts;
  unsigned depth = 0;
  std::string part;
  for (char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(StringRef(part).trim().str());
      part.clear();
    } else {
      part += c;
    }
  }
  parts.push_back(StringRef(part).trim().str());
  return parts;
}

void parseConstraints(StringRef constraints, Piece &piece) {
  size_t offset = 0;
  llvm::SmallVector<StringRef> parts;
  constraints.split(parts, ',');
  for (StringRef part : parts) {
    if (part.starts_with("=")) {
      bool isWord = part == "=f" || part == "=r";
      piece.fault = isWord ? piece.fault : "an output that is not a word";
      ++piece.outputs;
      continue;
    }
    if (part.starts_with("~")) {
      continue;
    }
    Input input;
    unsigned tied = 0;
    if (!part.getAsInteger(10, tied)) {
      input.tied = tied;
    }
    input.bytes = part == "l" ? 8 : part == "h" ? 2 : 4;
    input.offset = llvm::alignTo(offset, input.bytes);
    offset = input.offset + input.bytes;
    piece.inputs.push_back(input);
  }
}

Piece parse(StringRef assembly) {
  Piece piece;
  auto [constraints, text] = assembly.split('|');
  parseConstraints(constraints, piece);
  llvm::SmallVector<StringRef> statements;
  text.split(statements, ';');
  for (StringRef statement : statements) {
    statement = statement.ltrim(" \t\n{}").rtrim();
    auto [name, operands] = statement.split(' ');
    if (!name.empty() && name != ".reg") {
      piece.statements.push_back({name.str(), splitOperands(operands)});
    }
  }
  return piece;
}

} // namespace

const Piece &pieceOf(const std::string &assembly) {
  static std::map<std::string, Piece> known;
  auto found = known.find(assembly);
  return found != known.end() ? found->second
                              : known.emplace(assembly, parse(assembly)).first->second;
}

std::vector<unsigned> registersOf(StringRef list) {
  std::vector<unsigned> registers;
  llvm::SmallVector<StringRef> parts;
  list.trim("{} ").split(parts, ',');
  for (StringRef part : parts) {
    unsigned number = 0;
    part.trim(" $").getAsInteger(10, number);
    registers.push_back(number);
  }
  return registers;
}

} // namespace tenon::codegen::cuda
