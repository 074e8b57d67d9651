#include "compiler/codegen/common/region/ContextPool.h"

namespace tenon::codegen {
namespace {

/// Types and attributes stay in a context for as long as it lives.
constexpr unsigned kMaxUses = 64;

} // namespace

ContextPool::Lent ContextPool::lend() {
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      Lent::Kept kept = std::move(idle.back());
      idle.pop_back();
      return {*this, std::move(kept)};
    }
  }
  std::unique_ptr<mlir::MLIRContext> context =
      std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return {*this, {std::move(context)}};
}

void ContextPool::takeBack(Lent::Kept kept) {
  if (++kept.uses < kMaxUses) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(kept));
  }
}

} // namespace tenon::codegen
