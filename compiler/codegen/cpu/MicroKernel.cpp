// Builds the product micro-kernels: a loop over k whose body multiplies one row of a B panel with one
// element of each row of A, all of C in registers. Relies on the backend keeping iter_args in registers.
#include "compiler/codegen/cpu/MicroKernel.h"

#include "compiler/codegen/cpu/Levels.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tenon::codegen::cpu {

int64_t maxRows(engine::CpuLevel level) { return level == engine::CpuLevel::X86_64_V3 ? 6 : 14; }

std::string productSymbol(int64_t rows, bool accumulate) {
  return llvm::formatv("tenon_product_f32_{0}{1}", accumulate ? "acc_" : "", rows);
}

namespace {

/// Rows whose addresses share a base register: x86 addresses base + {1, 2} * lda, and 3 * lda is one
/// more register, so 14 rows need six registers.
constexpr int64_t kRowGroup = 4;

/// The registers of one kernel are `rows` x `vectors`; wider panels are done in parts.
int64_t vectorsPerPart(engine::CpuLevel level, int64_t rows) {
  int64_t whole = kPanel / floatLanes(level);
  return level == engine::CpuLevel::X86_64_V3 && rows > 2 ? whole / 2 : whole;
}

class ProductBuilder {
public:
  ProductBuilder(ModuleOp module, engine::CpuLevel level)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()), level(level),
        pointer(LLVM::LLVMPointerType::get(builder.getContext())), f32(builder.getF32Type()),
        vector(VectorType::get(floatLanes(level), f32)) {}

  void build(int64_t rowCount, bool accumulate) {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, productSymbol(rowCount, accumulate),
        builder.getFunctionType({pointer, i64, pointer, i64, pointer, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    rows = rowCount;
    vectors = vectorsPerPart(level, rows);
    lda = entry->getArgument(1);
    ldb = entry->getArgument(3);
    ldc = entry->getArgument(5);
    k = entry->getArgument(6);
    lda3 = arith::MulIOp::create(builder, loc, lda, constant(3));
    for (int64_t column = 0; column < kPanel; column += vectors * vector.getDimSize(0)) {
      buildPart(entry->getArgument(0), offset(entry->getArgument(2), constant(column)),
                offset(entry->getArgument(4), constant(column)), accumulate);
    }
    func::ReturnOp::create(builder, loc);
  }

  /// The function kProduct. Blocks differ by one row at most: 128 rows are 8 x 13 and 2 x 12, not 9 x 14
  /// and 1 x 2.
  void buildAnyRows() {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, kProduct,
        builder.getFunctionType({pointer, i64, pointer, i64, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    Value total = entry->getArgument(7);
    Value blocks = arith::CeilDivSIOp::create(builder, loc, total, constant(maxRows(level)));
    scf::ForOp loop = scf::ForOp::create(
        builder, loc, constant(0), blocks, constant(1),
        ValueRange{entry->getArgument(0), entry->getArgument(4)},
        [&](OpBuilder &, Location, Value block, ValueRange state) {
          Value smaller = arith::DivUIOp::create(builder, loc, total, blocks);
          Value rest = arith::RemUIOp::create(builder, loc, total, blocks);
          Value isLarger =
              arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, block, rest);
          Value more = arith::ExtUIOp::create(builder, loc, i64, isLarger);
          Value count = arith::AddIOp::create(builder, loc, smaller, more);
          callKernel(entry->getArguments(), state[0], state[1], count);
          Value a = offset(state[0], arith::MulIOp::create(builder, loc, count, entry->getArgument(1)));
          Value c = offset(state[1], arith::MulIOp::create(builder, loc, count, entry->getArgument(5)));
          scf::YieldOp::create(builder, loc, ValueRange{a, c});
        });
    builder.setInsertionPointAfter(loop);
    func::ReturnOp::create(builder, loc);
  }

private:
  /// Calls the kernel for `count` rows (accumulating if argument 8 is not 0).
  void callKernel(ValueRange arguments, Value a, Value c, Value count) {
    int64_t most = maxRows(level);
    Value accumulates = arith::MulIOp::create(builder, loc, arguments[8], constant(most));
    Value number = arith::AddIOp::create(builder, loc, count, accumulates);
    Value index = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), number);
    SmallVector<int64_t> cases = llvm::to_vector(llvm::seq<int64_t>(1, 2 * most + 1));
    scf::IndexSwitchOp chosen =
        scf::IndexSwitchOp::create(builder, loc, TypeRange(), index, cases, cases.size());
    OpBuilder::InsertionGuard guard(builder);
    for (auto [number, region] : llvm::zip(cases, chosen.getCaseRegions())) {
      builder.createBlock(&region);
      bool accumulate = number > most;
      func::CallOp::create(
          builder, loc, productSymbol(accumulate ? number - most : number, accumulate), TypeRange(),
          ValueRange{a, arguments[1], arguments[2], arguments[3], c, arguments[5], arguments[6]});
      scf::YieldOp::create(builder, loc);
    }
    builder.createBlock(&chosen.getDefaultRegion());
    scf::YieldOp::create(builder, loc);
  }

  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  Value offset(Value base, Value elements) {
    return LLVM::GEPOp::create(builder, loc, pointer, f32, base, ArrayRef<LLVM::GEPArg>{elements});
  }
  Value load(Type type, Value address) {
    return LLVM::LoadOp::create(builder, loc, type, address, /*alignment=*/4);
  }
  Value lanes(int64_t index) { return constant(index * vector.getDimSize(0)); }
  Value cAddress(Value c, int64_t row, int64_t column) {
    Value start = offset(c, arith::MulIOp::create(builder, loc, ldc, constant(row)));
    return offset(start, lanes(column));
  }
  Value aElement(ArrayRef<Value> groups, int64_t row) {
    Value base = groups[row / kRowGroup];
    switch (row % kRowGroup) {
    case 1:
      base = offset(base, lda);
      break;
    case 2:
      base = offset(base, arith::MulIOp::create(builder, loc, lda, constant(2)));
      break;
    case 3:
      base = offset(base, lda3);
      break;
    }
    return vector::BroadcastOp::create(builder, loc, vector, load(f32, base));
  }

  void buildPart(Value a, Value b, Value c, bool accumulate) {
    SmallVector<Value> state;
    for (int64_t row = 0; row < rows; row += kRowGroup) {
      state.push_back(offset(a, arith::MulIOp::create(builder, loc, lda, constant(row))));
    }
    size_t groupCount = state.size();
    state.push_back(b);
    Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(vector));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < vectors; ++column) {
        state.push_back(accumulate ? load(vector, cAddress(c, row, column)) : zero);
      }
    }
    scf::ForOp loop = scf::ForOp::create(
        builder, loc, constant(0), k, constant(1), state,
        [&](OpBuilder &, Location, Value, ValueRange args) { buildStep(args, groupCount); });
    ValueRange sums = loop.getResults().drop_front(groupCount + 1);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < vectors; ++column) {
        LLVM::StoreOp::create(builder, loc, sums[row * vectors + column], cAddress(c, row, column),
                              /*alignment=*/4);
      }
    }
  }

  void buildStep(ValueRange args, size_t groupCount) {
    SmallVector<Value> groups(args.take_front(groupCount));
    Value b = args[groupCount];
    SmallVector<Value> next;
    for (Value group : groups) {
      next.push_back(offset(group, constant(1)));
    }
    next.push_back(offset(b, ldb));
    SmallVector<Value> bRow;
    for (int64_t column = 0; column < vectors; ++column) {
      bRow.push_back(load(vector, offset(b, lanes(column))));
    }
    for (int64_t row = 0; row < rows; ++row) {
      Value element = aElement(groups, row);
      for (int64_t column = 0; column < vectors; ++column) {
        Value sum = args[groupCount + 1 + row * vectors + column];
        next.push_back(vector::FMAOp::create(builder, loc, element, bRow[column], sum));
      }
    }
    scf::YieldOp::create(builder, loc, next);
  }

  OpBuilder builder;
  Location loc;
  engine::CpuLevel level;
  Type pointer;
  Type f32;
  VectorType vector;
  int64_t rows = 0;
  int64_t vectors = 0;
  Value lda, lda3, ldb, ldc, k;
};

} // namespace

OwningOpRef<ModuleOp> buildProductKernels(MLIRContext *context, engine::CpuLevel level) {
  context->loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect, scf::SCFDialect,
                       vector::VectorDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  ProductBuilder builder(*module, level);
  for (int64_t rows = 1; rows <= maxRows(level); ++rows) {
    builder.build(rows, /*accumulate=*/false);
    builder.build(rows, /*accumulate=*/true);
  }
  builder.buildAnyRows();
  return module;
}

} // namespace tenon::codegen::cpu
