// Operations that few models have, in a file and a header (graph/TnRare.h) of their own, so that most of the
// compiler does not depend on them.

#ifndef TENON_GRAPH_TNRAREOPS_TD
#define TENON_GRAPH_TNRAREOPS_TD

include "compiler/graph/TnDialect.td"

//===--- Elements that are only stored: floats of 8 bits and less, integers of 4 and less ---------------------===//

def Tn_LowBitTensor : RankedTensorOf<[F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F4E2M1FN,
                                      I<4>, UI<4>, I<2>, UI<2>]>;
def Tn_ByteTensor : RankedTensorOf<[UI8]>;

def Tn_EncodeOp : Tn_Op<"encode", [Pure, Tn_Elementwise, SameOperandsAndResultShape]> {
  let summary = "Numbers as elements of a type that is only stored";
  let description = [{
    Floats round to nearest even. What is beyond the range of a float type becomes its largest; without `saturate`
    infinite, or NaN where there is no infinity. f4E2M1FN has neither, and NaN becomes -0. `round` ("up", "down",
    "nearest") says how a float becomes a power of two (f8E8M0FNU). To integers, floats truncate and integers wrap.
  }];
  let arguments = (ins Tn_NumberTensor:$x, DefaultValuedAttr<BoolAttr, "true">:$saturate,
                       DefaultValuedStrAttr<StrAttr, "up">:$round);
  let results = (outs Tn_LowBitTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_DecodeOp : Tn_Op<"decode", [Pure, Tn_Elementwise, SameOperandsAndResultShape]> {
  let summary = "The numbers behind elements of a type that is only stored";
  let description = "Floats as floats, integers as i8 or ui8; exact but where the result's type is too narrow.";
  let arguments = (ins Tn_LowBitTensor:$x);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_UnpackBitsOp : Tn_Op<"unpack_bits", [Pure]> {
  let summary = "Elements of 4 or 2 bits that lie packed in bytes, the first in the lowest bits";
  let description = "How weights of such types stay as small in the engine as they are in the model.";
  let arguments = (ins Tn_ByteTensor:$x);
  let results = (outs AnyStaticShapeTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_DecodeRowsOp : Tn_Op<"decode_rows", [Pure, Tn_StoredForm]> {
  let summary = "A matrix behind rows of numbers of 4 or 8 bits with a scale for each block of a row";
  let description = [{
    A row is a list of blocks of words of 32 bits (graph/BlockRows.h): the scale as an f32, with `zero_points` a zero point as
    an f32, then the numbers, unsigned, the first in the lowest bits; the last block may be short. A number stands for
    (number - zero point) * scale; without `zero_points` the zero point is 8 or 128.

    It stands before the product that reads the matrix, whose kernel takes it apart: products of so stored weights read as
    many bytes as the engine has.
    `%w = tn.decode_rows %rows {bits = 4 : i64, block = 32 : i64, zero_points = false} : (tensor<64x40xui8>) -> tensor<64x64xf32>`
  }];
  let arguments = (ins Tn_ByteTensor:$rows, I64Attr:$bits, I64Attr:$block, BoolAttr:$zero_points);
  let results = (outs AnyStaticShapeTensor:$matrix);
  let assemblyFormat = "$rows attr-dict `:` functional-type($rows, $matrix)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::tenon::tn::BlockRows layout();
  }];
}
def Tn_BitcastOp : Tn_Op<"bitcast", [Pure, Tn_Elementwise, SameOperandsAndResultShape]> {
  let summary = "The same bits as another element type of the same width";
  let arguments = (ins Tn_ValueTensor:$x);
  let results = (outs Tn_ValueTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}

//===--- Calibration -------------------------------------------------------------------------------------------===//

def Tn_HistogramOp : Tn_Op<"histogram", [Pure]> {
  let summary = "How many elements of each row begin with each pattern of bits";
  let description = [{
    Of `x` [rows, n], `counts` [rows, 2^bits] holds at b the number of elements whose highest `bits` bits (sign,
    exponent, then the mantissa) are b: a logarithmic grid of 2^(bits - 9) bins for each power of two that fits any
    range, so that histograms of several inputs add up. Infinities and NaN have bins of their own.
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$x, I64Attr:$bits);
  let results = (outs RankedTensorOf<[I32]>:$counts);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $counts)";
  let hasVerifier = 1;
}

//===--- Sizes that data decides ---------------------------------------------------------------------------------===//

def Tn_TruePositionsOp : Tn_Op<"true_positions", [Pure]> {
  let summary = "Where the elements of a list are true";
  let description = "`positions` begins with their numbers, ascending, `count` of them; behind these it holds zeros.";
  let arguments = (ins Tn_BoolTensor:$x);
  let results = (outs RankedTensorOf<[I64]>:$positions, RankedTensorOf<[I64]>:$count);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, results)";
  let hasVerifier = 1;
}
def Tn_TakeFirstOp : Tn_Op<"take_first"> {
  let summary = "As many rows of a tensor, from the first on, as data says";
  let description = [{
    The result's first dim is a symbol that no input has: each run binds it to `count`, which is at least 0 and at
    most the first dim of x. One operation binds a symbol; it stays though nobody reads its result, since the types
    of others may name the symbol.
    `%y = tn.take_first %x, %count : (tensor<5xf32>, tensor<i64>) -> tensor<?xf32, #tn.shape<()[s0] -> (s0)>>`
  }];
  let arguments = (ins AnyRankedTensor:$x, RankedTensorOf<[I64]>:$count);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $count attr-dict `:` functional-type(operands, $y)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of the symbol that it binds.
    unsigned symbol();
  }];
}
def Tn_SelectBoxesOp : Tn_Op<"select_boxes", [Pure]> {
  let summary = "The best boxes of each class that overlap no better one much";
  let description = [{
    Boxes are [batch, n, 4] with corners (low, low, high, high), `scores` and `candidates` [batch, class, n]. For
    each batch and class the candidate of the highest score (of equals the first; NaN counts as -infinity) is
    selected again and again, and with it go all whose intersection with it is more than `overlap` of their union.
    `selected` [batch, class, m] holds the numbers of at most `limit` and m of them in that order, then -1.
  }];
  let arguments = (ins Tn_FloatTensor:$boxes, Tn_FloatTensor:$scores, Tn_BoolTensor:$candidates,
                       RankedTensorOf<[I64]>:$limit, Tn_FloatTensor:$overlap);
  let results = (outs RankedTensorOf<[I64]>:$selected);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $selected)";
  let hasVerifier = 1;
}

//===--- Pooling -----------------------------------------------------------------------------------------------===//

def Tn_MaxPoolIndexOp : Tn_InferredOp<"max_pool_index"> {
  let summary = "Where the largest element of each window lies: its row-major number (i64) among the spatial positions";
  let description = [{
    `largest` is the `tn.max_pool` of x with the same attributes. The first of equal ones counts; a NaN is the
    largest. Channels come first (NC...).
  }];
  let arguments = (ins Tn_NumberTensor:$x, Tn_NumberTensor:$largest, DenseI64ArrayAttr:$kernel,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $largest attr-dict `:` functional-type(operands, $y)";
}

//===--- Recurrent layers ----------------------------------------------------------------------------------------===//

def Tn_RecurrenceOp : Tn_Op<"recurrence", [Pure, AttrSizedOperandSegments]> {
  let summary = "One direction of an RNN, GRU or LSTM over a sequence of any length";
  let description = [{
    `input` [seq, batch, gates * hidden] is the product of all steps' inputs with the weights of the gates, biases
    added; `weights` [hidden, gates * hidden] are those of the state. Gates are in ONNX's order (GRU: update, reset,
    candidate; LSTM: input, output, forget, candidate), and so are `activations`. `resetBias` [hidden] is for a GRU
    with `linearBeforeReset`, `peephole` [3 * hidden] and the cell's state for an LSTM. Of row b only the first
    lengths[b] steps run, the last of them first with `reverse`; behind them `states` [seq, batch, hidden] is zero.
    A length below 0 counts as 0, one beyond the sequence as all of it. The state between steps has at least f32.
    `parameters` holds alpha and beta of each activation (0 where it has none), or nothing if no one has any. The sums
    of the gates are held in [-clip, clip] before their activations, and with `inputForget` the forget gate of an LSTM
    is 1 - its input gate, as ONNX has them.
  }];
  let arguments = (ins Tn_FloatTensor:$input, Tn_FloatTensor:$weights, Tn_FloatTensor:$firstH,
                       Optional<Tn_FloatTensor>:$firstC, Optional<Tn_FloatTensor>:$resetBias,
                       Optional<Tn_FloatTensor>:$peephole, Optional<RankedTensorOf<[I64]>>:$lengths,
                       StrAttr:$cell, BoolAttr:$reverse, BoolAttr:$linearBeforeReset,
                       StrArrayAttr:$activations, DefaultValuedAttr<DenseF64ArrayAttr, "{}">:$parameters,
                       OptionalAttr<F64Attr>:$clip, DefaultValuedAttr<BoolAttr, "false">:$inputForget);
  let results = (outs Tn_FloatTensor:$states, Tn_FloatTensor:$lastH, Optional<Tn_FloatTensor>:$lastC);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
