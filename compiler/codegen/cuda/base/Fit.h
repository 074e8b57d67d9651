// What a family has to know of a region before it can compute it, or why the region is not one of
// its kind.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <utility>

namespace tenon::codegen::cuda {

struct Misfit {
  llvm::StringRef why; ///< static text
};

template <typename Facts> class Fit {
public:
  Fit(Facts value) : facts(std::move(value)) {}
  Fit(Misfit misfit) : reason(misfit.why) {}

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
