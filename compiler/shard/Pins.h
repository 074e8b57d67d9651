// Cuts that the user asks for: `--pin NODE=column|row|replicate`.
#pragma once

#include "mlir/IR/Operation.h"
#include "support/Result.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <string_view>

namespace tenon::shard {

struct Pin {
  enum class Kind : uint8_t { Column, Row, Replicate };
  std::string node; ///< of the model; `*` stands for any text
  Kind kind = Kind::Column;
};
std::string_view nameOf(Pin::Kind kind);

/// TN0105 for another form.
Result<Pin> parsePin(std::string_view text);
/// The last of the pins that name a node of the operation; null where none does.
const Pin *pinOf(llvm::ArrayRef<Pin> pins, mlir::Operation *op);

} // namespace tenon::shard
