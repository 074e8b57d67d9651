// Assembly where the NVVM dialect has no op that says the same in one line. Relies on nothing being
// moved over assembly that touches memory.
#include "compiler/codegen/cuda/base/AsyncCopy.h"

#include "compiler/codegen/cuda/base/Warpgroup.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {

static_assert(kBoxColumns == kTileColumns, "boxes are tiles");

namespace {

void assembly(const ThreadBuilder &t, StringRef text, StringRef constraints, ValueRange operands) {
  t.assembly(Type(), text, (constraints + ",~{memory}").str(), operands);
}

} // namespace

void initBarrier(const ThreadBuilder &t, Value barrier, int64_t arrivals) {
  assembly(t, "mbarrier.init.shared::cta.b64 [$0], $1;", "l,r", {barrier, t.i32(arrivals)});
}

void publishBarriers(const ThreadBuilder &t) {
  NVVM::FenceMbarrierInitOp::create(t.builder, t.location);
}

void arriveExpecting(const ThreadBuilder &t, Value barrier, Value bytes) {
  assembly(t, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "l,r", {barrier, bytes});
}

void arrive(const ThreadBuilder &t, Value barrier, int64_t count) {
  std::string times = count == 1 ? "" : ", " + std::to_string(count);
  assembly(t, "mbarrier.arrive.shared::cta.b64 _, [$0]" + times + ";", "l", barrier);
}

void waitForPhase(const ThreadBuilder &t, Value barrier, Value parity) {
  assembly(t,
           "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
           "@!done bra again;\n}",
           "l,r", {barrier, parity});
}

void storeAsync(const ThreadBuilder &t, Value target, Value word, Value barrier) {
  bool isWide = word.getType().getIntOrFloatBitWidth() == 64;
  std::string type = isWide ? ".b64" : ".b32";
  assembly(t, "st.async.shared::cluster.mbarrier::complete_tx::bytes" + type + " [$0], $1, [$2];",
           isWide ? "l,l,l" : "l,r,l", {target, word, barrier});
}

void prefetchTensorMap(const ThreadBuilder &t, Value map) {
  assembly(t, "prefetch.tensormap [$0];", "l", map);
}

void copyBox(const ThreadBuilder &t, Value map, Value column, Value row, Value shared,
             Value barrier) {
  assembly(t,
           "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
           "[$0], [$1, {$2, $3}], [$4];",
           "l,l,r,r,l", {shared, map, column, row, barrier});
}

void releaseRegisters(const ThreadBuilder &t, int64_t count) {
  NVVM::SetMaxRegisterOp::create(t.builder, t.location, count,
                                 NVVM::SetMaxRegisterAction::decrease);
}

void takeRegisters(const ThreadBuilder &t, int64_t count) {
  NVVM::SetMaxRegisterOp::create(t.builder, t.location, count,
                                 NVVM::SetMaxRegisterAction::increase);
}

} // namespace tenon::codegen::cuda
