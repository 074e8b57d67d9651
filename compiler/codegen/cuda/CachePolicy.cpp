// Assembly: the NVVM dialect has no copy or load with a policy.
#include "compiler/codegen/cuda/CachePolicy.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

LLVM::InlineAsmOp assembly(const ThreadBuilder &t, TypeRange result, StringRef text,
                           StringRef constraints, ValueRange operands) {
  return LLVM::InlineAsmOp::create(t.builder, t.location, result, operands, text, constraints,
                                   /*has_side_effects=*/true, /*is_align_stack=*/false,
                                   LLVM::TailCallKind::None, nullptr, nullptr);
}

} // namespace

Value keepingPolicy(const ThreadBuilder &t) {
  return assembly(t, t.i64Type(), "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;", "=l", {})
      .getRes();
}

Value loadKept(const ThreadBuilder &t, Value global, Value policy) {
  constexpr int64_t words = 4;
  Type type = LLVM::LLVMStructType::getLiteral(t.builder.getContext(),
                                               SmallVector<Type>(words, t.i32Type()));
  Value loaded = assembly(t, type, "ld.global.L2::cache_hint.v4.b32 {$0, $1, $2, $3}, [$4], $5;",
                          "=r,=r,=r,=r,l,l,~{memory}", {global, policy})
                     .getRes();
  SmallVector<Value> parts;
  for (int64_t i = 0; i < words; ++i) {
    parts.push_back(t.member(loaded, i));
  }
  return t.pack(parts);
}

void copyKept(const ThreadBuilder &t, Value shared, Value global, Value bytes, Value policy) {
  assembly(t, TypeRange(), "cp.async.cg.shared.global.L2::cache_hint [$0], [$1], 16, $2, $3;",
           "l,l,r,l,~{memory}", {shared, global, bytes, policy});
}

Value hiddenZero(const ThreadBuilder &t, Value thread) {
  return assembly(t, t.i32Type(),
                  "{\n.reg .b32 same;\nmov.u32 same, %laneid;\n"
                  "shfl.sync.idx.b32 same, $1, same, 31, -1;\nsub.s32 $0, same, $1;\n}",
                  "=r,r", thread)
      .getRes();
}

} // namespace tenon::codegen::cuda
