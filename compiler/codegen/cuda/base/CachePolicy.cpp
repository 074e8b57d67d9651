// Assembly: the NVVM dialect has no copy or load with a policy.
#include "compiler/codegen/cuda/base/CachePolicy.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

Value loadWords(const ThreadBuilder &t, StringRef text, StringRef inputs, ValueRange operands) {
  constexpr int64_t words = 4;
  Type type = LLVM::LLVMStructType::getLiteral(t.builder.getContext(),
                                               SmallVector<Type>(words, t.i32Type()));
  Value loaded = t.assembly(type, text, ("=r,=r,=r,=r," + inputs + ",~{memory}").str(), operands);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < words; ++i) {
    parts.push_back(t.member(loaded, i));
  }
  return t.pack(parts);
}

} // namespace

Value loadOnce(const ThreadBuilder &t, Value global) {
  return loadWords(t, "ld.global.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4];", "l", global);
}

Value keepingPolicy(const ThreadBuilder &t) {
  return t.assembly(t.i64Type(), "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;", "=l", {});
}

Value loadKept(const ThreadBuilder &t, Value global, Value policy) {
  return loadWords(t, "ld.global.L2::cache_hint.v4.b32 {$0, $1, $2, $3}, [$4], $5;", "l,l",
                   {global, policy});
}

void copyKept(const ThreadBuilder &t, Value shared, Value global, Value bytes, Value policy) {
  t.assembly(Type(), "cp.async.cg.shared.global.L2::cache_hint [$0], [$1], 16, $2, $3;",
             "l,l,r,l,~{memory}", {shared, global, bytes, policy});
}

Value hiddenZero(const ThreadBuilder &t, Value thread) {
  return t.assembly(t.i32Type(),
                    "{\n.reg .b32 same;\nmov.u32 same, %laneid;\n"
                    "shfl.sync.idx.b32 same, $1, same, 31, -1;\nsub.s32 $0, same, $1;\n}",
                    "=r,r", thread);
}

} // namespace tenon::codegen::cuda
