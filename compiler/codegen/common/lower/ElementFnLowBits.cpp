// Numbers of few bits that lie packed in bytes. Relies on the verifiers of the operations for
// sizes.
#include "compiler/codegen/common/lower/ElementFn.h"
#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

/// A float of four bytes of a row, the first at `place`.
Value floatOfBytes(Body &body, Value rows, AffineExpr row, AffineExpr place) {
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  Value word;
  for (int64_t i = 0; i < 4; ++i) {
    Value byte = body.at(rows, {row, place + i});
    if (!byte) {
      return {};
    }
    byte = arith::ExtUIOp::create(b, location, b.getI32Type(), byte);
    Value bits = arith::ConstantOp::create(b, location, b.getI32IntegerAttr(8 * i));
    byte = arith::ShLIOp::create(b, location, byte, bits);
    word = word ? arith::OrIOp::create(b, location, word, byte).getResult() : byte;
  }
  return arith::BitcastOp::create(b, location, b.getF32Type(), word);
}

} // namespace

/// The byte that holds the element, shifted down to it.
Value elementOfUnpackBits(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  UnpackBitsOp unpack = cast<UnpackBitsOp>(op);
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  AffineExpr number = getAffineConstantExpr(0, b.getContext());
  for (auto [dim, index] : llvm::zip(getDims(unpack.getY().getType()), indices)) {
    number = number * dim + index;
  }
  int64_t bits = getElementTypeOrSelf(unpack.getY()).getIntOrFloatBitWidth();
  Value byte = body.at(unpack.getX(), number.floorDiv(8 / bits));
  if (!byte) {
    return {};
  }
  Value place = body.index(number % (8 / bits) * bits);
  Value shift = arith::IndexCastOp::create(b, location, b.getI8Type(), place);
  Value shifted = arith::ShRUIOp::create(b, location, byte, shift);
  Value mask = arith::ConstantOp::create(b, location, b.getI8IntegerAttr((1 << bits) - 1));
  return arith::AndIOp::create(b, location, shifted, mask);
}

Value elementOfDecodeRows(Body &body, Operation *op, ArrayRef<AffineExpr> indices) {
  DecodeRowsOp decode = cast<DecodeRowsOp>(op);
  BlockRows layout = decode.layout();
  OpBuilder &b = body.builder;
  Location location = body.lowering.location;
  AffineExpr row = indices[0], inBlock = indices[1] % layout.block;
  AffineExpr header = indices[1].floorDiv(layout.block) * (4 * layout.blockWords());
  int64_t ofByte = 8 / layout.bits;
  Value scale = floatOfBytes(body, decode.getRows(), row, header);
  Value zero = layout.hasZeroPoints
                   ? floatOfBytes(body, decode.getRows(), row, header + 4)
                   : Value(arith::ConstantOp::create(
                         b, location, b.getF32FloatAttr(float(layout.commonZeroPoint()))));
  Value byte = body.at(decode.getRows(),
                       {row, header + 4 * layout.headerWords() + inBlock.floorDiv(ofByte)});
  if (!scale || !zero || !byte) {
    return {};
  }
  Value shift = arith::IndexCastOp::create(b, location, b.getI8Type(),
                                           body.index(inBlock % ofByte * layout.bits));
  Value number = arith::ShRUIOp::create(b, location, byte, shift);
  Value mask = arith::ConstantOp::create(
      b, location, b.getI8IntegerAttr(static_cast<int8_t>((1 << layout.bits) - 1)));
  number = arith::AndIOp::create(b, location, number, mask);
  number = arith::UIToFPOp::create(b, location, b.getF32Type(), number);
  Value level = arith::SubFOp::create(b, location, number, zero);
  return narrow(b, location, arith::MulFOp::create(b, location, level, scale),
                storageType(getElementTypeOrSelf(decode.getMatrix())));
}

} // namespace tenon::codegen
