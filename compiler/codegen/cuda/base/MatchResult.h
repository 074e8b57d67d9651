// What a family has to know of a region before it can compute it, or why the region is not one of
// its kind.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <utility>

namespace tenon::codegen::cuda {

struct MatchFailure {
  llvm::StringRef why; ///< static text
};

template <typename Facts> class MatchResult {
public:
  MatchResult(Facts value) : facts(std::move(value)) {}
  MatchResult(MatchFailure misfit) : reason(misfit.why) {}

  explicit operator bool() const { return facts.has_value(); }
  Facts &operator*() { return *facts; }
  const Facts &operator*() const { return *facts; }
  Facts *operator->() { return &*facts; }
  const Facts *operator->() const { return &*facts; }
  /// Empty if it fits.
  llvm::StringRef why() const { return reason; }

private:
  std::optional<Facts> facts;
  llvm::StringRef reason;
};

} // namespace tenon::codegen::cuda
