// Each function makes one op, or folds it. Relies on createOrFold for constants.
#include "compiler/codegen/cuda/base/ThreadBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {

Type ThreadBuilder::pointerType(Space space) const {
  return LLVM::LLVMPointerType::get(builder.getContext(), static_cast<unsigned>(space));
}

Type ThreadBuilder::vectorType(int64_t lanes, Type element) const {
  return VectorType::get(lanes, element);
}

Value ThreadBuilder::i32(int64_t value) const {
  return arith::ConstantOp::create(builder, location, builder.getI32IntegerAttr(value));
}

Value ThreadBuilder::i64(int64_t value) const {
  return arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(value));
}

Value ThreadBuilder::f32(double value) const {
  return arith::ConstantOp::create(builder, location, builder.getF32FloatAttr(value));
}

Value ThreadBuilder::undefined(Type type) const {
  return LLVM::UndefOp::create(builder, location, type);
}

Value ThreadBuilder::constantOfType(Value a, int64_t value) const {
  return arith::ConstantOp::create(builder, location, builder.getIntegerAttr(a.getType(), value));
}

Value ThreadBuilder::add(Value a, Value b) const {
  return builder.createOrFold<arith::AddIOp>(location, a, b);
}
Value ThreadBuilder::sub(Value a, Value b) const {
  return builder.createOrFold<arith::SubIOp>(location, a, b);
}
Value ThreadBuilder::mul(Value a, Value b) const {
  return builder.createOrFold<arith::MulIOp>(location, a, b);
}
Value ThreadBuilder::div(Value a, Value b) const {
  return builder.createOrFold<arith::DivUIOp>(location, a, b);
}
Value ThreadBuilder::rem(Value a, Value b) const {
  return builder.createOrFold<arith::RemUIOp>(location, a, b);
}
Value ThreadBuilder::bitAnd(Value a, Value b) const {
  return builder.createOrFold<arith::AndIOp>(location, a, b);
}
Value ThreadBuilder::min(Value a, Value b) const {
  return builder.createOrFold<arith::MinSIOp>(location, a, b);
}
Value ThreadBuilder::max(Value a, Value b) const {
  return builder.createOrFold<arith::MaxSIOp>(location, a, b);
}
Value ThreadBuilder::isLess(Value a, Value b) const {
  return builder.createOrFold<arith::CmpIOp>(location, arith::CmpIPredicate::slt, a, b);
}
Value ThreadBuilder::isEqual(Value a, Value b) const {
  return builder.createOrFold<arith::CmpIOp>(location, arith::CmpIPredicate::eq, a, b);
}
Value ThreadBuilder::toI64(Value a) const {
  return a.getType() == i64Type() ? a
                                  : builder.createOrFold<arith::ExtSIOp>(location, i64Type(), a);
}
Value ThreadBuilder::toI32(Value a) const {
  return a.getType() == i32Type() ? a
                                  : builder.createOrFold<arith::TruncIOp>(location, i32Type(), a);
}
Value ThreadBuilder::select(Value condition, Value a, Value b) const {
  return builder.createOrFold<arith::SelectOp>(location, condition, a, b);
}
Value ThreadBuilder::bitcast(Type type, Value a) const {
  return a.getType() == type ? a : LLVM::BitcastOp::create(builder, location, type, a).getResult();
}

Value ThreadBuilder::addF(Value a, Value b) const {
  return arith::AddFOp::create(builder, location, a, b);
}
Value ThreadBuilder::subF(Value a, Value b) const {
  return arith::SubFOp::create(builder, location, a, b);
}
Value ThreadBuilder::mulF(Value a, Value b) const {
  return arith::MulFOp::create(builder, location, a, b);
}
Value ThreadBuilder::divF(Value a, Value b) const {
  return arith::DivFOp::create(builder, location, a, b);
}
Value ThreadBuilder::maxF(Value a, Value b) const {
  return LLVM::MaxNumOp::create(builder, location, a.getType(), a, b);
}
Value ThreadBuilder::negF(Value a) const { return arith::NegFOp::create(builder, location, a); }
Value ThreadBuilder::fma(Value a, Value b, Value c) const {
  return LLVM::FMAOp::create(builder, location, a.getType(), a, b, c);
}
Value ThreadBuilder::isLessF(Value a, Value b) const {
  return arith::CmpFOp::create(builder, location, arith::CmpFPredicate::ULT, a, b);
}
Value ThreadBuilder::exp2(Value a) const {
  return intrinsic("llvm.nvvm.ex2.approx.ftz.f32", f32Type(), a);
}

Value ThreadBuilder::toF32(Value a) const {
  unsigned width = a.getType().getIntOrFloatBitWidth();
  if (width == 32) {
    return a;
  }
  return width < 32 ? arith::ExtFOp::create(builder, location, f32Type(), a).getResult()
                    : arith::TruncFOp::create(builder, location, f32Type(), a).getResult();
}

Value ThreadBuilder::fromF32(Type element, Value a) const {
  unsigned width = element.getIntOrFloatBitWidth();
  if (width == 32) {
    return a;
  }
  return width < 32 ? arith::TruncFOp::create(builder, location, element, a).getResult()
                    : arith::ExtFOp::create(builder, location, element, a).getResult();
}

Value ThreadBuilder::packPair(Type element, Value low, Value high) const {
  // The instruction takes the upper half first.
  StringRef name = element.isBF16() ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
  return bitcast(i32Type(), intrinsic(name, vectorType(2, element), {high, low}));
}

Value ThreadBuilder::extract(Value vector, int64_t lane) const {
  return LLVM::ExtractElementOp::create(builder, location, vector, i32(lane));
}

Value ThreadBuilder::insert(Value vector, Value element, int64_t lane) const {
  return LLVM::InsertElementOp::create(builder, location, vector, element, i32(lane));
}

Value ThreadBuilder::pack(ArrayRef<Value> elements) const {
  Value vector = undefined(vectorType(elements.size(), elements.front().getType()));
  for (auto [lane, element] : llvm::enumerate(elements)) {
    vector = insert(vector, element, lane);
  }
  return vector;
}

Value ThreadBuilder::member(Value structure, int64_t index) const {
  return LLVM::ExtractValueOp::create(builder, location, structure, index);
}

Value ThreadBuilder::toGlobal(Value pointer) const {
  return LLVM::AddrSpaceCastOp::create(builder, location, pointerType(Space::Global), pointer);
}

Value ThreadBuilder::offset(Value pointer, Type element, Value index) const {
  return LLVM::GEPOp::create(builder, location, pointer.getType(), element, pointer,
                             ArrayRef<LLVM::GEPArg>{index});
}

Value ThreadBuilder::offset(Value pointer, Type element, int64_t index) const {
  return index == 0 ? pointer
                    : LLVM::GEPOp::create(builder, location, pointer.getType(), element, pointer,
                                          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)})
                          .getResult();
}

Value ThreadBuilder::load(Type type, Value pointer, unsigned alignment) const {
  return LLVM::LoadOp::create(builder, location, type, pointer, alignment);
}

void ThreadBuilder::store(Value value, Value pointer, unsigned alignment) const {
  LLVM::StoreOp::create(builder, location, value, pointer, alignment);
}

Value ThreadBuilder::thread() const {
  return NVVM::ThreadIdXOp::create(builder, location, i32Type());
}
Value ThreadBuilder::block() const {
  return NVVM::BlockIdXOp::create(builder, location, i32Type());
}

void ThreadBuilder::barrier() const { NVVM::BarrierOp::create(builder, location); }
void ThreadBuilder::arriveAtCluster() const {
  NVVM::ClusterArriveOp::create(builder, location, builder.getUnitAttr());
}
void ThreadBuilder::waitForCluster() const {
  NVVM::ClusterWaitOp::create(builder, location, builder.getUnitAttr());
}

Value ThreadBuilder::remote(Value pointer, Value rank) const {
  Type type = LLVM::LLVMPointerType::get(
      builder.getContext(), static_cast<unsigned>(NVVM::NVVMMemorySpace::SharedCluster));
  return NVVM::MapaOp::create(builder, location, type, pointer, rank);
}

void ThreadBuilder::warpBarrier() const { NVVM::SyncWarpOp::create(builder, location, i32(-1)); }

Value ThreadBuilder::shuffleXor(Value value, int64_t mask) const {
  return NVVM::ShflOp::create(builder, location, value.getType(), i32(-1), value, i32(mask),
                              i32(kWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
}
Value ThreadBuilder::shuffleFrom(Value value, int64_t lane) const {
  return NVVM::ShflOp::create(builder, location, value.getType(), i32(-1), value, i32(lane),
                              i32(kWarp - 1), NVVM::ShflKind::idx, UnitAttr());
}

ThreadBuilder::Values ThreadBuilder::loop(Value first, Value end, Value step, ValueRange inits,
                                          LoopBody body) const {
  scf::ForOp loop = scf::ForOp::create(
      builder, location, first, end, step, inits,
      [&](OpBuilder &inner, Location at, Value index, ValueRange carried) {
        scf::YieldOp::create(inner, at, body(ThreadBuilder(inner, at), index, carried));
      });
  return Values(loop.getResults());
}

void ThreadBuilder::when(Value condition,
                         llvm::function_ref<void(const ThreadBuilder &)> body) const {
  scf::IfOp::create(builder, location, condition, [&](OpBuilder &inner, Location at) {
    body(ThreadBuilder(inner, at));
    scf::YieldOp::create(inner, at);
  });
}

ThreadBuilder::Values ThreadBuilder::choose(Value condition, Branch then, Branch otherwise) const {
  auto branch = [](Branch body) {
    return [body](OpBuilder &inner, Location at) {
      scf::YieldOp::create(inner, at, body(ThreadBuilder(inner, at)));
    };
  };
  scf::IfOp choice =
      scf::IfOp::create(builder, location, condition, branch(then), branch(otherwise));
  return Values(choice.getResults());
}

Value ThreadBuilder::assembly(Type result, StringRef text, StringRef constraints,
                              ValueRange operands) const {
  return LLVM::InlineAsmOp::create(builder, location, result ? TypeRange(result) : TypeRange(),
                                   operands, text, constraints, /*has_side_effects=*/true,
                                   /*is_align_stack=*/false, LLVM::TailCallKind::None, nullptr,
                                   nullptr)
      .getRes();
}

Value ThreadBuilder::intrinsic(StringRef name, Type result, ValueRange arguments) const {
  StringAttr symbol = builder.getStringAttr(name);
  if (!result) {
    LLVM::CallIntrinsicOp::create(builder, location, symbol, arguments);
    return {};
  }
  return LLVM::CallIntrinsicOp::create(builder, location, result, symbol, arguments).getResult(0);
}

} // namespace tenon::codegen::cuda
