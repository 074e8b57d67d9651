// The strategy of regions with a matmul or conv: tiles of rows x 32 columns by the product kernel,
// each followed by its epilogue. Relies on the weights being packed in panels where they are
// constant.
#include "compiler/codegen/cpu/gemm/Contraction.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/ConvTiles.h"
#include "compiler/codegen/cpu/gemm/TileProduct.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Grid points that let sixteen threads share the work.
constexpr int64_t kParallelPoints = 16;

} // namespace

AffineExpr chunkCount(AffineExpr rows, int64_t most, int64_t least, AffineExpr others) {
  std::optional<int64_t> size = tn::constantDim(rows);
  std::optional<int64_t> points = tn::constantDim(others);
  if (!size) {
    return rows.ceilDiv(most);
  }
  if (*size == 0) {
    return getAffineConstantExpr(0, rows.getContext());
  }
  int64_t chunks = llvm::divideCeil(*size, most);
  while (points && chunks * *points < kParallelPoints && *size >= chunks * 2 * least) {
    chunks *= 2;
  }
  return getAffineConstantExpr(chunks, rows.getContext());
}

LogicalResult
buildGridLoop(KernelBuilder &kernel, const ContractionGrid &grid,
              llvm::function_ref<void(const IndexMath &, const GridPoint &)> prepare,
              llvm::function_ref<LogicalResult(const IndexMath &, const GridPoint &)> tile) {
  IndexMath math(kernel.builder, kernel.location);
  Value chunks = math.size(kernel, grid.chunks);
  Value panels = math.size(kernel, grid.panels);
  SmallVector<Value> state;
  if (prepare) {
    state.push_back(math.constant(-1));
  }
  LogicalResult status = success();
  scf::ForOp::create(kernel.builder, kernel.location, kernel.begin, kernel.end, math.constant(1),
                     state, [&](OpBuilder &body, Location location, Value index, ValueRange last) {
                       IndexMath inner(body, location);
                       Value outer = inner.div(index, panels);
                       GridPoint point{inner.div(outer, chunks), inner.rem(outer, chunks),
                                       inner.rem(index, panels)};
                       SmallVector<Value> next;
                       if (prepare) {
                         Value isNew = arith::CmpIOp::create(
                             body, location, arith::CmpIPredicate::ne, last.front(), outer);
                         scf::IfOp::create(body, location, isNew, [&](OpBuilder &then, Location) {
                           prepare(IndexMath(then, location), point);
                           scf::YieldOp::create(then, location);
                         });
                         next.push_back(outer);
                       }
                       status = tile(inner, point);
                       scf::YieldOp::create(body, location, next);
                     });
  return status;
}

Value allocate(KernelBuilder &kernel, ArrayRef<Value> sizes, Type element) {
  SmallVector<int64_t> shape;
  SmallVector<Value> dynamic;
  for (Value size : sizes) {
    std::optional<int64_t> constant = getConstantIntValue(size);
    shape.push_back(constant.value_or(ShapedType::kDynamic));
    if (!constant) {
      dynamic.push_back(size);
    }
  }
  MemRefType type = MemRefType::get(shape, element ? element : Type(kernel.builder.getF32Type()));
  return memref::AllocOp::create(kernel.builder, kernel.location, type, dynamic);
}

Value packedBuffer(KernelBuilder &kernel, Value operand) {
  tn::UnpackOp unpack = operand.getDefiningOp<tn::UnpackOp>();
  return unpack ? kernel.input(cast<BlockArgument>(unpack.getPacked()).getArgNumber()) : Value();
}

TileWriter::TileWriter(KernelBuilder &kernel, Epilogue &epilogue, int64_t rows, Type element)
    : kernel(kernel), epilogue(epilogue) {
  IndexMath math(kernel.builder, kernel.location);
  scratch = allocate(kernel, {math.constant(rows), math.constant(kPanel)}, element);
}

LogicalResult TileWriter::finish(const IndexMath &math, const Tile &tile,
                                 const std::optional<Lines> &lines) {
  Value zero = math.constant(0);
  if (!lines) {
    return epilogue.emit(math, math.view(scratch, {zero, zero}, {tile.rows, tile.columns}), tile);
  }
  LogicalResult status = success();
  forEach(math, zero, lines->count, 1, [&](const IndexMath &inner, Value line) {
    Value from = inner.mul(line, lines->pitch);
    Tile own = tile;
    own.firstRow = inner.add(tile.firstRow, inner.mul(line, lines->rows));
    own.rows = lines->rows;
    status = epilogue.emit(inner, inner.view(scratch, {from, zero}, {own.rows, own.columns}), own);
  });
  return status;
}

LogicalResult TileWriter::write(const IndexMath &math, Value firstRow, Value rows,
                                const Columns &columns,
                                llvm::function_ref<void(const IndexMath &, const Sums &)> products,
                                const std::optional<Lines> &lines) {
  OpBuilder &builder = math.builder;
  Value width = math.constant(kPanel);
  Value first = math.add(columns.begin, math.mul(columns.panel, kPanel));
  Value panels = math.size(kernel, columns.count.ceilDiv(kPanel));
  // Columns of the last panel, and whether this is it; no value where that is known.
  Value tail = math.size(kernel, columns.count - (columns.count.ceilDiv(kPanel) - 1) * kPanel);
  std::optional<int64_t> constantTail = getConstantIntValue(tail);
  bool neverTail = constantTail == kPanel;
  bool alwaysTail = !neverTail && getConstantIntValue(panels) == 1;
  Value isTail;
  if (!neverTail && !alwaysTail) {
    Value next = math.add(columns.panel, math.constant(1));
    isTail = arith::CmpIOp::create(builder, math.location, arith::CmpIPredicate::eq, next, panels);
  }

  Sums sums{math.pointer(scratch, math.constant(0)), width};
  bool isDirect = epilogue.isTrivial() && !lines;
  if (isDirect && !alwaysTail) {
    Value output = kernel.output(0);
    int64_t rank = cast<MemRefType>(output.getType()).getRank();
    Value stride = builder.createOrFold<memref::DimOp>(math.location, output, rank - 1);
    Value start = math.pointer(output, math.add(math.mul(firstRow, stride), first));
    auto choose = [&](Value scratchValue, Value direct) -> Value {
      return isTail ? arith::SelectOp::create(builder, math.location, isTail, scratchValue, direct)
                    : direct;
    };
    sums = {choose(sums.pointer, start), choose(width, stride)};
  }
  products(math, sums);
  Tile whole{firstRow, rows, first, width}, last{firstRow, rows, first, tail};
  if (!isTail) {
    return isDirect && neverTail ? success() : finish(math, neverTail ? whole : last, lines);
  }
  bool failedInside = false;
  scf::IfOp::create(
      builder, math.location, isTail,
      [&](OpBuilder &then, Location location) {
        failedInside |= failed(finish(IndexMath(then, location), last, lines));
        scf::YieldOp::create(then, location);
      },
      [&](OpBuilder &otherwise, Location location) {
        failedInside |= !isDirect && failed(finish(IndexMath(otherwise, location), whole, lines));
        scf::YieldOp::create(otherwise, location);
      });
  return failure(failedInside);
}

LogicalResult checkBuffers(Operation *root) {
  for (Value operand : root->getOperands()) {
    tn::UnpackOp unpack = operand.getDefiningOp<tn::UnpackOp>();
    if (!isa<BlockArgument>(unpack ? unpack.getPacked() : operand)) {
      return root->emitOpError("reads a value that has no buffer");
    }
  }
  return success();
}

bool canLowerMatmul(tn::MatmulOp matmul) {
  Type element = getElementTypeOrSelf(matmul.getType());
  return element.isF32() || element.isF16() || element.isBF16() ||
         storageType(element).isInteger(32);
}

ProductType productType(tn::MatmulOp matmul) {
  Type element = getElementTypeOrSelf(matmul.getType());
  if (isa<FloatType>(element)) {
    return element.isBF16() ? ProductType::BF16 : ProductType::F32;
  }
  bool isByte = getElementTypeOrSelf(matmul.getA().getType()).getIntOrFloatBitWidth() == 8;
  return isByte ? ProductType::U8S8 : ProductType::I32;
}

std::optional<ProductType> productType(tn::ConvOp conv) {
  Type element = getElementTypeOrSelf(conv.getWeight());
  if (element.isF32() || element.isBF16()) {
    return element.isF32() ? ProductType::F32 : ProductType::BF16;
  }
  bool isBytes = element.isInteger(8) && getElementTypeOrSelf(conv.getType()).isInteger(32) &&
                 getElementTypeOrSelf(conv.getX()).isUnsignedInteger();
  return isBytes ? std::optional(ProductType::U8S8) : std::nullopt;
}

std::optional<dispatch::WeightLayout> panelsOfWeight(func::FuncOp source) {
  for (Operation &op : source.getBody().front()) {
    if (tn::ConvOp conv = dyn_cast<tn::ConvOp>(op)) {
      ProductType type = productType(conv).value_or(ProductType::F32);
      return layoutInPanels(conv, kPanel, conv.getGroups(), elementsOfWord(type));
    }
    tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(op);
    std::optional<unsigned> input = matmul ? packableInput(matmul.getB()) : std::nullopt;
    if (input) {
      int64_t columns = matmul.getTransposeB() ? 0 : 1;
      int64_t elements = elementsOfWord(productType(matmul));
      return dispatch::WeightLayout{.input = *input,
                                    .packing = elements == 1
                                                   ? panelsOf(columns, kPanel)
                                                   : panelsOfWords(columns, kPanel, elements)};
    }
  }
  return std::nullopt;
}

namespace {

/// Whether the micro-kernels compute it on packed weights.
bool isPackedProduct(Operation &op) {
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
  tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(op);
  bool isDecoded = matmul && matmul.getB().getDefiningOp<tn::DecodeRowsOp>(); // LowBitMatmul.cpp
  return (matmul && !isDecoded && canLowerMatmul(matmul)) ||
         (conv && canLowerConv(conv) &&
          hasWeight(conv, kPanel, conv.getGroups(), elementsOfWord(*productType(conv))));
}

FamilyMatch matchPacked(Region &region) {
  Block &body = region.source.getBody().front();
  auto root = llvm::find_if(body, isPackedProduct);
  return root == body.end()
             ? FamilyMatch::refuse("a product of 64-bit elements, or a convolution with channels "
                                   "first, of a weight whose sizes vary, of f16, or of bytes or "
                                   "bf16 that fill no words")
             : FamilyMatch::take(&*root);
}

/// The most rows of a tile, the family's own first: the sums of 128 x 32 are half of the smallest
/// L1 cache in use. Fewer keep the rows of a deep product in the L2.
constexpr int64_t kTileRows[] = {128, 64, 32, 16, 96, 48, 24, 256};

/// Without those that are no less than all rows, but for the first: they cut nothing.
std::vector<dispatch::KernelChoice> packedConfigs(Region &, Operation *const &root) {
  tn::Dims dims = tn::getDims(root->getResult(0).getType());
  std::optional<int64_t> rows = 1;
  for (AffineExpr dim : ArrayRef(dims).drop_back()) {
    std::optional<int64_t> size = tn::constantDim(dim);
    rows = rows && size ? std::optional(*rows * *size) : std::nullopt;
  }
  std::vector<dispatch::KernelChoice> choices;
  for (int64_t tile : kTileRows) {
    if (choices.empty() || !rows || tile < *rows) {
      choices.push_back({kGemmPacked.name.str(), {{"tile_rows", {tile}}}});
    }
  }
  return choices;
}

/// Groups are padded to whole panels.
double packedSeconds(Region &region, Operation *const &, const dispatch::KernelChoice &) {
  return secondsWithWork(region, [&](Operation &op) {
    double rate = dispatch::narrowRate(&op, region.target());
    tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
    if (!conv || !canLowerConv(conv)) {
      return 1 / rate;
    }
    Geometry g = geometryOf(conv);
    return double(g.panelsPerGroup() * kPanel) / double(g.groupOutChannels()) / rate;
  });
}

std::optional<dispatch::WeightLayout> packedWeights(Region &region, Operation *const &) {
  return panelsOfWeight(region.source);
}

/// Of a matrix product; convolutions do not say it.
std::string packedOrder(Region &region, Operation *const &root, const dispatch::KernelChoice &) {
  tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(root);
  if (!matmul) {
    return "";
  }
  ProductType type = productType(matmul);
  return !sumsFloats(type)                         ? "integers"
         : multipliesOnTiles(region.level(), type) ? "the depth in steps of a tile"
                                                   : "the depth in equal chains of at most 128";
}

FailureOr<AffineExpr> lowerPacked(KernelBuilder &kernel, Region &region, Operation *const &root,
                                  int64_t tileRows) {
  if (failed(checkBuffers(root))) {
    return failure();
  }
  if (tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(root)) {
    return lowerMatmul(kernel, region.source, matmul, tileRows);
  }
  return lowerConv(kernel, region.source, cast<tn::ConvOp>(root), region.level(), tileRows);
}

} // namespace

constexpr KernelFamily kGemmPacked = {
    .name = "gemm_packed",
    .what = "GEMM and implicit GEMM on packed weights: a register-blocked micro-kernel, the "
            "epilogue on its tile",
    .strategies = {dispatch::kContraction},
    .needsElements = true,
    .match = matchPacked,
    .configs = on<packedConfigs>,
    .seconds = on<packedSeconds>,
    .weights = on<packedWeights>,
    .emit = emitKernel<lowerPacked>,
    .order = on<packedOrder>};

} // namespace tenon::codegen::cpu
