// Short names for the ops that the code of one GPU thread is built from, with constants folded as
// they arise. Relies on the arith, scf, LLVM and NVVM dialects being loaded.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace tenon::codegen::cuda {

inline constexpr int64_t kWarp = 32;

/// Address spaces of pointers.
enum class Space : unsigned { Generic = 0, Global = 1, Shared = 3 };

class ThreadBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Values = llvm::SmallVector<mlir::Value>;

  ThreadBuilder(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}

  Type i32Type() const { return builder.getI32Type(); }
  Type i64Type() const { return builder.getI64Type(); }
  Type f32Type() const { return builder.getF32Type(); }
  Type pointerType(Space space) const;
  Type vectorType(int64_t lanes, Type element) const;

  Value i32(int64_t value) const;
  Value i64(int64_t value) const;
  Value f32(double value) const;
  Value undefined(Type type) const;

  // Integers of one type; quotients are of non-negative numbers.
  Value add(Value a, Value b) const;
  Value sub(Value a, Value b) const;
  Value mul(Value a, Value b) const;
  Value div(Value a, Value b) const;
  Value rem(Value a, Value b) const;
  Value add(Value a, int64_t b) const { return add(a, constantOfType(a, b)); }
  Value mul(Value a, int64_t b) const { return mul(a, constantOfType(a, b)); }
  Value div(Value a, int64_t b) const { return div(a, constantOfType(a, b)); }
  Value rem(Value a, int64_t b) const { return rem(a, constantOfType(a, b)); }
  Value ceilDiv(Value a, int64_t b) const { return div(add(a, b - 1), b); }
  Value bitAnd(Value a, Value b) const;
  Value min(Value a, Value b) const;
  Value max(Value a, Value b) const;
  Value isLess(Value a, Value b) const;
  Value isEqual(Value a, Value b) const;
  /// A constant of the type of `a`.
  Value constantOfType(Value a, int64_t value) const;
  /// i32 to i64 (signed) and back (the low half).
  Value toI64(Value a) const;
  Value toI32(Value a) const;
  Value select(Value condition, Value a, Value b) const;
  Value bitcast(Type type, Value a) const;

  // f32.
  Value addF(Value a, Value b) const;
  Value subF(Value a, Value b) const;
  Value mulF(Value a, Value b) const;
  Value divF(Value a, Value b) const;
  Value maxF(Value a, Value b) const;
  Value negF(Value a) const;
  Value fma(Value a, Value b, Value c) const;
  /// a < b, or one of them is not a number.
  Value isLessF(Value a, Value b) const;
  /// 2^a with a relative error below 2^-22; results below the smallest normal number are 0.
  Value exp2(Value a) const;
  /// A float of any width as f32, and an f32 rounded to another type.
  Value toF32(Value a) const;
  Value fromF32(Type element, Value a) const;
  /// Two f32 rounded to a 16-bit float type, as an i32; `low` is at the lower address.
  Value packPair(Type element, Value low, Value high) const;

  // Vectors and structs.
  Value extract(Value vector, int64_t lane) const;
  Value insert(Value vector, Value element, int64_t lane) const;
  Value pack(llvm::ArrayRef<Value> elements) const;
  Value member(Value structure, int64_t index) const;

  // Memory. Alignments are in bytes.
  Value toGlobal(Value genericPointer) const;
  /// pointer + index elements (i32 or i64).
  Value offset(Value pointer, Type element, Value index) const;
  Value offset(Value pointer, Type element, int64_t index) const;
  Value load(Type type, Value pointer, unsigned alignment) const;
  void store(Value value, Value pointer, unsigned alignment) const;

  // The thread's place: all i32.
  Value thread() const;
  Value block() const;
  Value lane() const { return rem(thread(), kWarp); }

  // Other threads.
  void barrier() const;
  /// Of the cluster's threads; what they stored before they arrived is visible after the wait.
  void arriveAtCluster() const;
  void waitForCluster() const;
  /// The same place in the shared memory of a block of the cluster, by its rank.
  Value remote(Value sharedPointer, Value rank) const;
  /// Of the warp's threads; what they stored before is visible to all of them after.
  void warpBarrier() const;
  /// The f32 or i32 of lane ^ mask.
  Value shuffleXor(Value value, int64_t mask) const;
  /// The f32 or i32 of one lane.
  Value shuffleFrom(Value value, int64_t lane) const;

  // Control.
  using LoopBody = llvm::function_ref<Values(const ThreadBuilder &, Value, mlir::ValueRange)>;
  /// for (i = first; i < end; i += step), signed; carries `inits` through and returns the last.
  Values loop(Value first, Value end, Value step, mlir::ValueRange inits, LoopBody body) const;
  void when(Value condition, llvm::function_ref<void(const ThreadBuilder &)> body) const;
  /// `then`'s values if the condition holds, else `otherwise`'s.
  using Branch = llvm::function_ref<Values(const ThreadBuilder &)>;
  Values choose(Value condition, Branch then, Branch otherwise) const;

  /// A piece of PTX that stays where it is; null for no result. Where it reads or writes memory its
  /// constraints say so.
  Value assembly(Type result, llvm::StringRef text, llvm::StringRef constraints,
                 mlir::ValueRange operands) const;
  /// Calls an intrinsic of LLVM by name; null for no result.
  Value intrinsic(llvm::StringRef name, Type result, mlir::ValueRange arguments) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
};

} // namespace tenon::codegen::cuda
