// Builds the product micro-kernels: a loop over k whose body multiplies one row of a B panel with
// one element of each row of A, all of C in registers. Relies on the backend keeping iter_args in
// registers. One file: the kernels of vector registers and the function of any number of rows that
// chooses among these and those of other units.
#include "compiler/codegen/cpu/gemm/MicroKernel.h"

#include "compiler/codegen/cpu/gemm/ArmProduct.h"
#include "compiler/codegen/cpu/gemm/DotStep.h"
#include "compiler/codegen/cpu/gemm/PanelPacking.h"
#include "compiler/codegen/cpu/gemm/ScalableProduct.h"
#include "compiler/codegen/cpu/gemm/TileProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// AVX-512 has 32 registers of 16 lanes, AVX2 16 of 8 and NEON 32 of 4, so that both of these hold
/// the same block of C.
bool hasWideRegisters(engine::CpuLevel level) { return floatLanes(level) >= 16; }

/// RISC-V's vectors are groups of four registers: eight of 16 lanes, an instruction each, also
/// where registers are longer than the 128 bits of the level.
bool hasGroups(engine::CpuLevel level) {
  return engine::rowOf(level).architecture == engine::Architecture::RiscV64;
}
int64_t productLanes(engine::CpuLevel level) { return hasGroups(level) ? 16 : floatLanes(level); }

} // namespace

int64_t maxRows(engine::CpuLevel level, ProductType type) {
  if (multipliesOnTiles(level, type)) {
    return kMinTileRows - 1;
  }
  if (hasArmProduct(level, type)) {
    return mostArmRows(level, type);
  }
  if (hasGroups(level)) {
    // One holds words of B, and two or four what they are taken apart into.
    return type == ProductType::U8S8 ? 3 : type == ProductType::BF16 ? 4 : 6;
  }
  if (!DotStep::isOneInstruction(level, type)) {
    // Two registers for each of a row and of a vector of B, and one more for a mask.
    return hasWideRegisters(level) ? 10 : 4;
  }
  return hasWideRegisters(level) ? 14 : 6;
}

std::string anyRowsSymbol(ProductType type, int64_t columns) {
  constexpr llvm::StringRef names[] = {"f32", "i32", "u8s8", "bf16"};
  std::string name = ("tenon_product_" + names[static_cast<size_t>(type)]).str();
  return columns == kPanel ? name : name + "_by" + std::to_string(columns);
}

std::string invariantSymbol(ProductType type, int64_t columns) {
  std::string name = anyRowsSymbol(type, columns);
  return type == ProductType::BF16 ? name + "_invariant" : name;
}

std::string productSymbol(int64_t rows, bool accumulate, ProductType type, int64_t columns) {
  return llvm::formatv("{0}_{1}{2}", anyRowsSymbol(type, columns), accumulate ? "acc_" : "", rows);
}

namespace {

/// Rows whose addresses share a base register: x86 addresses base + {1, 2} * lda, and 3 * lda is
/// one more register, so 14 rows need six registers.
constexpr int64_t kRowGroup = 4;

/// Most of one chain of sums. The rows of B for it stay in the L1 cache while all rows of A meet
/// them, and short chains added up lose less than one long chain.
constexpr int64_t kDepthBlock = 128;

/// The registers of one kernel are `rows` x `vectors`; wider panels are done in parts. Of four
/// lanes a panel is eight vectors, of which each takes more than one register where it is taken
/// apart or summed for a row of zeros.
int64_t vectorsPerPart(engine::CpuLevel level, ProductType type, int64_t rows, int64_t columns) {
  if (hasGroups(level)) {
    return 1;
  }
  int64_t whole = columns / std::min(columns, floatLanes(level));
  int64_t most = kPanel / 2 / floatLanes(level);
  bool isTight = floatLanes(level) <= 4 && !DotStep::isOneInstruction(level, type);
  return !hasWideRegisters(level) && rows > (isTight ? 1 : 2) ? std::min(whole, most) : whole;
}

class ProductBuilder {
public:
  ProductBuilder(ModuleOp module, engine::CpuLevel level, ProductType type,
                 int64_t columns = kPanel)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()), level(level), type(type),
        columns(columns), pointer(LLVM::LLVMPointerType::get(builder.getContext())),
        element(sumsFloats(type) ? Type(builder.getF32Type()) : Type(builder.getI32Type())),
        vector(VectorType::get(std::min(columns, productLanes(level)), element)) {}

  void build(int64_t rowCount, bool accumulate) {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, productSymbol(rowCount, accumulate, type, columns),
        builder.getFunctionType({pointer, i64, pointer, i64, pointer, i64, i64, pointer, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    rows = rowCount;
    vectors = vectorsPerPart(level, type, rows, columns);
    lda = entry->getArgument(1);
    ldb = entry->getArgument(3);
    ldc = entry->getArgument(5);
    k = entry->getArgument(6);
    fetchStep = entry->getArgument(8);
    lda3 = arith::MulIOp::create(builder, loc, lda, constant(3));
    for (int64_t column = 0; column < columns; column += vectors * vector.getDimSize(0)) {
      buildPart(entry->getArgument(0), offset(entry->getArgument(2), constant(column)),
                offset(entry->getArgument(4), constant(column)), entry->getArgument(7), accumulate);
    }
    func::ReturnOp::create(builder, loc);
  }

  /// The function of any number of rows, of that name: blocks of the depth, and within each all
  /// rows. It calls kernels of at most `mostRows` with `suffix` behind their names.
  void buildAnyRows(StringRef name, int64_t mostRows, StringRef suffix = "") {
    most = mostRows;
    kernelSuffix = suffix;
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, name,
        builder.getFunctionType({pointer, i64, pointer, i64, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    Value depth = entry->getArgument(6);
    // Blocks of one length, as a short last one would read and write C for little work.
    Value blocks = arith::CeilDivSIOp::create(builder, loc, depth, constant(kDepthBlock));
    Value atLeastOne = arith::MaxSIOp::create(builder, loc, blocks, constant(1));
    Value step = arith::CeilDivSIOp::create(builder, loc, depth, atLeastOne);
    // Of no depth there is one block, which writes zeros.
    Value end = arith::MaxSIOp::create(builder, loc, depth, constant(1));
    scf::ForOp::create(
        builder, loc, constant(0), end, arith::MaxSIOp::create(builder, loc, step, constant(1)),
        ValueRange{entry->getArgument(0), entry->getArgument(2), entry->getArgument(8)},
        [&](OpBuilder &, Location, Value start, ValueRange state) {
          Value rest = arith::SubIOp::create(builder, loc, depth, start);
          SmallVector<Value> arguments(entry->getArguments());
          arguments[0] = state[0];
          arguments[2] = state[1];
          arguments[6] = arith::MinSIOp::create(builder, loc, rest, step);
          arguments[8] = state[2];
          buildRowBlocks(arguments);
          Value b = offset(state[1], arith::MulIOp::create(builder, loc, arguments[3], step));
          scf::YieldOp::create(builder, loc, ValueRange{offset(state[0], step), b, constant(1)});
        });
    func::ReturnOp::create(builder, loc);
  }

private:
  /// All rows for one block of the depth. Blocks of rows differ by one row at most: 128 rows are 8
  /// x 13 and 2 x 12, not 9 x 14 and 1 x 2.
  void buildRowBlocks(ValueRange arguments) {
    Type i64 = builder.getI64Type();
    Value total = arguments[7];
    // Blocks of whole pairs, where rows are multiplied by pairs.
    int64_t unit = multipliesByPairs(level, type) ? 2 : 1;
    Value units = arith::CeilDivSIOp::create(builder, loc, total, constant(unit));
    Value blocks = arith::CeilDivSIOp::create(builder, loc, units, constant(most / unit));
    Fetching fetching = fetchingOf(arguments, blocks);
    scf::ForOp::create(
        builder, loc, constant(0), blocks, constant(1),
        ValueRange{arguments[0], arguments[4], fetching.first},
        [&](OpBuilder &, Location, Value block, ValueRange state) {
          Value smaller = arith::DivUIOp::create(builder, loc, units, blocks);
          Value rest = arith::RemUIOp::create(builder, loc, units, blocks);
          Value isLarger =
              arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, block, rest);
          Value more = arith::ExtUIOp::create(builder, loc, i64, isLarger);
          Value count = arith::AddIOp::create(builder, loc, smaller, more);
          if (unit > 1) {
            // The last block has what is left, for a last row may be without a second.
            Value before = arith::AddIOp::create(
                builder, loc, arith::MulIOp::create(builder, loc, smaller, block),
                arith::MinSIOp::create(builder, loc, block, rest));
            Value left = arith::SubIOp::create(
                builder, loc, total, arith::MulIOp::create(builder, loc, before, constant(unit)));
            count = arith::MinSIOp::create(
                builder, loc, arith::MulIOp::create(builder, loc, count, constant(unit)), left);
          }
          callKernel(arguments, {state[0], state[1], count, state[2], fetching.step});
          Value a = offset(state[0], arith::MulIOp::create(builder, loc, count, arguments[1]));
          Value c = offset(state[1], arith::MulIOp::create(builder, loc, count, arguments[5]));
          Value next = addBytes(state[2], fetching.ofBlock);
          scf::YieldOp::create(builder, loc, ValueRange{a, c, next});
        });
  }

  /// What of B is read ahead while one block of it is multiplied, in bytes.
  struct Fetching {
    Value first;   ///< where it begins
    Value ofBlock; ///< for each block of rows
    Value step;    ///< for each step of the depth
  };

  /// Weights come from memory once a run, and where pages end the processor does not foresee them:
  /// the block behind this one, which is the next panel's behind the last, is fetched meanwhile, an
  /// equal part of it with each block of rows. Rows of B that lie apart are not fetched.
  Fetching fetchingOf(ValueRange arguments, Value blocks) {
    Value ldb = arguments[3], depth = arguments[6];
    Value isPacked =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, ldb, constant(kPanel));
    Value atLeastOne = arith::MaxSIOp::create(builder, loc, blocks, constant(1));
    Value step = arith::DivUIOp::create(
        builder, loc, constant(kPanel * static_cast<int64_t>(sizeof(float))), atLeastOne);
    step = arith::SelectOp::create(builder, loc, isPacked, step, constant(0));
    return {offset(arguments[2], arith::MulIOp::create(builder, loc, ldb, depth)),
            arith::MulIOp::create(builder, loc, step, depth), step};
  }

  /// One call of a kernel, in the words of productSymbol.
  struct RowBlock {
    Value a, c, rows, next, step;
  };

  /// Calls the kernel for a block of rows (accumulating if argument 8 is not 0).
  void callKernel(ValueRange arguments, const RowBlock &block) {
    Value accumulates = arith::MulIOp::create(builder, loc, arguments[8], constant(most));
    Value number = arith::AddIOp::create(builder, loc, block.rows, accumulates);
    Value index = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), number);
    SmallVector<int64_t> cases = llvm::to_vector(llvm::seq<int64_t>(1, 2 * most + 1));
    scf::IndexSwitchOp chosen =
        scf::IndexSwitchOp::create(builder, loc, TypeRange(), index, cases, cases.size());
    OpBuilder::InsertionGuard guard(builder);
    for (auto [number, region] : llvm::zip(cases, chosen.getCaseRegions())) {
      builder.createBlock(&region);
      bool accumulate = number > most;
      func::CallOp::create(
          builder, loc,
          productSymbol(accumulate ? number - most : number, accumulate, type, columns) +
              kernelSuffix.str(),
          TypeRange(),
          ValueRange{block.a, arguments[1], arguments[2], arguments[3], block.c, arguments[5],
                     arguments[6], block.next, block.step});
      scf::YieldOp::create(builder, loc);
    }
    builder.createBlock(&chosen.getDefaultRegion());
    scf::YieldOp::create(builder, loc);
  }

  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  Value offset(Value base, Value elements) {
    return LLVM::GEPOp::create(builder, loc, pointer, element, base,
                               ArrayRef<LLVM::GEPArg>{elements});
  }
  Value addBytes(Value base, Value bytes) {
    return LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(), base,
                               ArrayRef<LLVM::GEPArg>{bytes});
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
    return vector::BroadcastOp::create(builder, loc, vector, load(element, base));
  }

  void buildPart(Value a, Value b, Value c, Value next, bool accumulate) {
    SmallVector<Value> state;
    for (int64_t row = 0; row < rows; row += kRowGroup) {
      state.push_back(offset(a, arith::MulIOp::create(builder, loc, lda, constant(row))));
    }
    size_t groupCount = state.size();
    state.append({b, next});
    Value zeros = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(vector));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < vectors; ++column) {
        state.push_back(zeros);
      }
    }
    scf::ForOp loop = scf::ForOp::create(
        builder, loc, constant(0), k, constant(1), state,
        [&](OpBuilder &, Location, Value, ValueRange args) { buildStep(args, groupCount); });
    ValueRange sums = loop.getResults().drop_front(groupCount + 2);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < vectors; ++column) {
        Value address = cAddress(c, row, column);
        Value sum = sums[row * vectors + column];
        if (accumulate) {
          Value before = load(vector, address);
          sum = sumsFloats(type) ? Value(arith::AddFOp::create(builder, loc, before, sum))
                                 : Value(arith::AddIOp::create(builder, loc, before, sum));
        }
        LLVM::StoreOp::create(builder, loc, sum, address, /*alignment=*/4);
      }
    }
  }

  void buildStep(ValueRange args, size_t groupCount) {
    SmallVector<Value> groups(args.take_front(groupCount));
    Value b = args[groupCount], ahead = args[groupCount + 1];
    if (hasWideRegisters(level)) {
      LLVM::Prefetch::create(builder, loc, ahead, /*rw=*/0, /*hint=*/2, /*cache=*/1);
    }
    SmallVector<Value> next;
    for (Value group : groups) {
      next.push_back(offset(group, constant(1)));
    }
    next.append({offset(b, ldb), addBytes(ahead, fetchStep)});
    DotStep step(builder, loc, level, type);
    SmallVector<DotStep::Factor> bRow;
    for (int64_t column = 0; column < vectors; ++column) {
      bRow.push_back(step.ofB(load(vector, offset(b, lanes(column)))));
    }
    for (int64_t row = 0; row < rows; ++row) {
      DotStep::Factor factor = step.ofA(aElement(groups, row));
      for (int64_t column = 0; column < vectors; ++column) {
        Value sum = args[groupCount + 2 + row * vectors + column];
        next.push_back(step.multiplyAdd(factor, bRow[column], sum));
      }
    }
    scf::YieldOp::create(builder, loc, next);
  }

  OpBuilder builder;
  Location loc;
  engine::CpuLevel level;
  ProductType type;
  int64_t columns; ///< that are computed, of a panel's
  Type pointer;
  Type element;
  VectorType vector;
  int64_t rows = 0, vectors = 0;
  int64_t most = 0;       ///< rows of a kernel that buildAnyRows calls
  StringRef kernelSuffix; ///< behind the kernels' names
  Value lda, lda3, ldb, ldc, k, fetchStep;
};

} // namespace

OwningOpRef<ModuleOp> buildGemmKernels(MLIRContext *context, engine::CpuLevel level,
                                       StringRef name) {
  context->loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect, scf::SCFDialect,
                       vector::VectorDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  ProductType type = ProductType::F32;
  for (ProductType other : kProductTypes) {
    type = name == anyRowsSymbol(other) || name == invariantSymbol(other) ? other : type;
  }
  int64_t columns = kPanel;
  for (int64_t narrow : kNarrowColumns) {
    for (ProductType other : {ProductType::F32, ProductType::U8S8}) {
      bool isIt = name == anyRowsSymbol(other, narrow);
      type = isIt ? other : type;
      columns = isIt ? narrow : columns;
    }
  }
  if (buildPanelPacking(*module, level, name)) {
    return module;
  }
  bool isOnTiles = multipliesOnTiles(level, type);
  if (isOnTiles && name == invariantSymbol(type) && name != anyRowsSymbol(type)) {
    buildTileProduct(*module, type, name, /*fewRows=*/"");
    return module;
  }
  ProductBuilder builder(*module, level, type, columns);
  for (int64_t rows = 1; rows <= maxRows(level, type); ++rows) {
    for (bool accumulate : {false, true}) {
      if (hasArmProduct(level, type)) {
        buildArmProduct(*module, level, type, rows, accumulate, columns);
      } else {
        builder.build(rows, accumulate);
      }
    }
  }
  int64_t most = maxRows(level, type);
  if (isOnTiles) {
    std::string fewRows = (name + "_few").str();
    builder.buildAnyRows(fewRows, most);
    buildTileProduct(*module, type, name, fewRows);
  } else if (hasScalableProduct(level, type)) {
    for (int64_t rows = 1; rows <= kMaxScalableRows; ++rows) {
      buildScalableProduct(*module, type, rows, /*accumulate=*/false, columns);
      buildScalableProduct(*module, type, rows, /*accumulate=*/true, columns);
    }
    std::string scalable = (name + kScalable).str(), fixed = (name + "_fixed").str();
    builder.buildAnyRows(fixed, most);
    builder.buildAnyRows(scalable, kMaxScalableRows, kScalable);
    buildByLength(*module, name, scalable, fixed);
  } else {
    builder.buildAnyRows(name, most);
  }
  if (name == invariantSymbol(type) && name != anyRowsSymbol(type)) {
    // The object of anyRowsSymbol has kernels of the same names.
    for (func::FuncOp kernel : module->getOps<func::FuncOp>()) {
      if (kernel.getName() != name) {
        kernel->setAttr("llvm.linkage", LLVM::LinkageAttr::get(context, LLVM::Linkage::Internal));
      }
    }
  }
  return module;
}

} // namespace tenon::codegen::cpu
