// Contexts that are lent to one region after the other: to load the dialects takes as long as to
// lower a small region.

#pragma once

#include "mlir/IR/MLIRContext.h"

#include <memory>
#include <mutex>
#include <vector>

namespace tenon::codegen {

/// Single-threaded contexts with all dialects of a registry loaded. Thread-safe; outlives what it
/// lent.
class ContextPool {
public:
  explicit ContextPool(mlir::DialectRegistry registry) : registry(std::move(registry)) {}

  /// A context that its owner has for itself, and that goes back at the end.
  class Lent {
  public:
    ~Lent() { pool.takeBack(std::move(kept)); }
    Lent(const Lent &) = delete;
    Lent &operator=(const Lent &) = delete;
    mlir::MLIRContext &context() { return *kept.context; }

  private:
    friend class ContextPool;
    struct Kept {
      std::unique_ptr<mlir::MLIRContext> context;
      unsigned uses = 0;
    };
    Lent(ContextPool &pool, Kept kept) : pool(pool), kept(std::move(kept)) {}
    ContextPool &pool;
    Kept kept;
  };

  Lent lend();

private:
  void takeBack(Lent::Kept kept);

  mlir::DialectRegistry registry;
  std::mutex mutex;
  std::vector<Lent::Kept> idle; // guarded by mutex
};

} // namespace tenon::codegen
