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
    Floats round to nearest even. Values beyond the range of a float type become its largest value; without `saturate`
    they become infinite, or NaN if the type has no infinity. f4E2M1FN has neither, and NaN becomes -0. `round` ("up",
    "down", "nearest") says how a float is rounded to a power of two (f8E8M0FNU). To integers, floats truncate and integers wrap.
  }];
  let arguments = (ins Tn_NumberTensor:$x, DefaultValuedAttr<BoolAttr, "true">:$saturate,
                       DefaultValuedStrAttr<StrAttr, "up">:$round);
  let results = (outs Tn_LowBitTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_DecodeOp : Tn_Op<"decode", [Pure, Tn_Elementwise, SameOperandsAndResultShape]> {
  let summary = "The numbers behind elements of a type that is only stored";
  let description = "Floats become floats, integers become i8 or ui8; exact unless the result's type is too narrow.";
  let arguments = (ins Tn_LowBitTensor:$x);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_UnpackBitsOp : Tn_Op<"unpack_bits", [Pure]> {
  let summary = "Unpacks elements of 4 or 2 bits from bytes; the first is in the lowest bits";
  let description = "With it, weights of such types take no more space in the engine than in the model.";
  let arguments = (ins Tn_ByteTensor:$x);
  let results = (outs AnyStaticShapeTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_DecodeRowsOp : Tn_Op<"decode_rows", [Pure, Tn_StoredForm]> {
  let summary = "The matrix of rows of 4-bit or 8-bit numbers with a scale for each block of a row";
  let description = [{
    A row is a list of blocks of 32-bit words (graph/BlockRows.h): the scale as an f32, with `zero_points` a zero point as
    an f32, then the unsigned numbers, the first in the lowest bits; the last block may be short. A number has the value
    (number - zero point) * scale; without `zero_points`, the zero point is 8 or 128.

    It precedes the matmul that reads the matrix, whose kernel decodes the rows: matmuls with such weights read no more
    bytes than the engine stores.
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
def Tn_RoundBlocksOp : Tn_Op<"round_blocks", [Pure, SameOperandsAndResultType]> {
  let summary = "Rows whose blocks are rounded to signed 8-bit numbers with one scale for each block";
  let description = [{
    A block is `block` elements of the last dim; the last block may be short. Its scale is its largest magnitude divided by
    127, and its elements become the nearest multiples of the scale, ties to even. A block of magnitudes below 2^-100 becomes
    zeros; NaN or an infinity makes the whole block NaN.

    It precedes a matmul by tn.decode_rows with blocks of the same size, whose kernel multiplies the numbers as integers. Only
    `--allow int8-activations` adds it.
    `%y = tn.round_blocks %x {block = 32 : i64} : tensor<5x64xf32>`
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$x, I64Attr:$block);
  let results = (outs RankedTensorOf<[F32]>:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}
def Tn_BitcastOp : Tn_Op<"bitcast", [Pure, Tn_Elementwise, SameOperandsAndResultShape]> {
  let summary = "The same bits as another element type of the same width";
  let arguments = (ins Tn_ValueTensor:$x);
  let results = (outs Tn_ValueTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}

//===--- Keys and values in pages ------------------------------------------------------------------------------===//

def Tn_PageTensor : RankedTensorOf<[F16, BF16, F32]>;
def Tn_CacheTensor : RankedTensorOf<[F16, BF16, F32, I8, F8E4M3FN]>;
def Tn_I64Tensor : RankedTensorOf<[I64]>;

def Tn_PagedWriteOp : Tn_InferredOp<"paged_write"> {
  let summary = "Pages of keys or values with the rows of some tokens written to their slots";
  let description = [{
    `cache` is [pages, Hk, P, D], x [T, Hk, D], `slots` [T]: row t of head h goes to position slots[t] % P of page
    slots[t] / P. A slot of -1 writes nothing; no two others are equal. `keys` says which of the two the cache holds: a
    target lays out the P * D elements of a page's head as its kernels read them, so nothing else but `tn.paged_write`
    and `tn.paged_attention` may read a cache. The reference keeps them row-major.

    A cache of i8 or f8E4M3FN is [pages, Hk, P, D + 4] and holds codes: a row is divided by its scale, which is its largest
    magnitude by 127 or 448, and rounded to nearest even; the scale follows as the 4 bytes of an f32. It is 0 for rows of
    magnitudes below 2^-100, and NaN for rows with an infinity or NaN. No other row changes what is written.
    `%c = tn.paged_write %cache, %x, %slots {keys} : (tensor<9x2x32x64xf32>, tensor<5x2x64xf32>, tensor<5xi64>) -> tensor<9x2x32x64xf32>`
  }];
  let arguments = (ins Tn_CacheTensor:$cache, Tn_PageTensor:$x, Tn_I64Tensor:$slots, UnitAttr:$keys);
  let results = (outs Tn_CacheTensor:$y);
  let assemblyFormat = "$cache `,` $x `,` $slots attr-dict `:` functional-type(operands, $y)";
}
def Tn_PagedAttentionOp : Tn_InferredOp<"paged_attention", [Tn_Contraction]> {
  let summary = "Causal attention of the new tokens of several sequences over keys and values in pages";
  let description = [{
    q [T, H, D] are the new tokens of S sequences, one sequence after the other: those of s are starts[s] to starts[s + 1], with
    starts[0] = 0. Of its lengths[s] positions they are the last; position p is at p % P of page pages[s, p / P]. `keys` is
    [pages, Hk, P, D], `values` [pages, Hk, P, Dv] (of codes, D + 4 and Dv + 4, as tn.paged_write has them), H a multiple of Hk, and head h reads head h / (H / Hk). `pages` is
    [S, M], `starts` [S + 1], `lengths` [S]; the result is [T, H, Dv].

    A token sees the keys up to its own position: all of them, or with a `window` above 0 the last `window`. Scores are
    scale * q k, with a `softcap` above 0 softcap * tanh(scale * q k / softcap). Tokens behind starts[S] get zeros. What
    is stored at other positions does not matter, and a token's result does not depend on the other sequences, nor on
    how many tokens of its own come with it.
  }];
  let arguments = (ins Tn_PageTensor:$q, Tn_CacheTensor:$keys, Tn_CacheTensor:$values, Tn_I64Tensor:$pages,
                       Tn_I64Tensor:$starts, Tn_I64Tensor:$lengths, F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<F64Attr, "0.0">:$softcap);
  let results = (outs Tn_PageTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $y)";
}

def Tn_SampleOp : Tn_InferredOp<"sample"> {
  let summary = "A token for each row of logits, drawn as the row's parameters say, and its logprob";
  let description = [{
    `logits` are [L, V], V at most 2^19. `numbers` [L, 3] has temperature, top-p and min-p of each row, `integers` [L, 3]
    top-k (0 for all), the seed and the position of the token that is drawn. `ids` [L] are the tokens, `logprobs` [L] the
    logarithms of their probabilities in the softmax of the logits as they stand. A row with a logit that is not finite
    gets -1 and NaN.

    With a temperature of 0 the largest logit is taken. Otherwise the order is: temperature, min-p, top-k, top-p; of what
    is left the largest with noise on it is drawn (Gumbel's, of Philox4x32-10 under the seed, at the position and the
    token). Of equal ones the token of the lower number counts as the larger. support/random/GumbelNoise.h has each
    operation, so that a row gives the same token on every target and in generate/sampling.
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$logits, RankedTensorOf<[F64]>:$numbers, Tn_I64Tensor:$integers);
  let results = (outs Tn_I64Tensor:$ids, RankedTensorOf<[F32]>:$logprobs);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

//===--- Calibration -------------------------------------------------------------------------------------------===//

def Tn_HistogramOp : Tn_Op<"histogram", [Pure]> {
  let summary = "Counts the elements of each row by their highest bits";
  let description = [{
    For `x` [rows, n], `counts` [rows, 2^bits] has at b the number of elements whose highest `bits` bits (sign,
    exponent, then the mantissa) are b. This is a logarithmic grid of 2^(bits - 9) bins for each power of two. It fits any
    range, so histograms of several inputs can be added. Infinities and NaN have their own bins.
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$x, I64Attr:$bits);
  let results = (outs RankedTensorOf<[I32]>:$counts);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $counts)";
  let hasVerifier = 1;
}

//===--- Sizes that data decides ---------------------------------------------------------------------------------===//

def Tn_TruePositionsOp : Tn_Op<"true_positions", [Pure]> {
  let summary = "The indices of the true elements of a list";
  let description = "`positions` begins with the `count` indices, ascending; zeros follow.";
  let arguments = (ins Tn_BoolTensor:$x);
  let results = (outs RankedTensorOf<[I64]>:$positions, RankedTensorOf<[I64]>:$count);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, results)";
  let hasVerifier = 1;
}
def Tn_TakeFirstOp : Tn_Op<"take_first"> {
  let summary = "The first rows of a tensor; data gives their number";
  let description = [{
    The result's first dim is a symbol that no input has. Each run binds it to `count`, which is at least 0 and at
    most the first dim of x. Only one operation binds a symbol. It stays even if its result is unused, because the
    types of other values may use the symbol.
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
  let summary = "The best boxes of each class, without those that overlap a better one (non-maximum suppression)";
  let description = [{
    Boxes are [batch, n, 4] with corners (low, low, high, high), `scores` and `candidates` [batch, class, n]. For
    each batch and class, the candidate with the highest score (the first of equal ones; NaN counts as -infinity) is
    selected repeatedly. Each time, candidates whose intersection with it exceeds `overlap` of their union are dropped.
    `selected` [batch, class, m] has the indices of at most `limit` and m boxes in that order, then -1.
  }];
  let arguments = (ins Tn_FloatTensor:$boxes, Tn_FloatTensor:$scores, Tn_BoolTensor:$candidates,
                       RankedTensorOf<[I64]>:$limit, Tn_FloatTensor:$overlap);
  let results = (outs RankedTensorOf<[I64]>:$selected);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $selected)";
  let hasVerifier = 1;
}

//===--- Pooling -----------------------------------------------------------------------------------------------===//

def Tn_MaxPoolIndexOp : Tn_InferredOp<"max_pool_index"> {
  let summary = "Index of the largest element of each window: row-major (i64) among the spatial positions";
  let description = [{
    `largest` is the `tn.max_pool` of x with the same attributes. Of equal elements the first counts; NaN is the
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
    `input` [seq, batch, gates * hidden] is the matmul of all steps' inputs with the weights of the gates, plus the
    biases; `weights` [hidden, gates * hidden] are those of the state. Gates are in ONNX's order (GRU: update, reset,
    candidate; LSTM: input, output, forget, candidate), and so are `activations`. `resetBias` [hidden] is for a GRU
    with `linearBeforeReset`; `peephole` [3 * hidden] and the cell state are for an LSTM. In row b, only the first
    lengths[b] steps run, in reverse order with `reverse`; after them, `states` [seq, batch, hidden] is zero.
    A length below 0 counts as 0, one beyond the sequence as all of it. The state between steps has at least f32; a
    kernel may round what the next product reads of it to the element type.
    `parameters` has alpha and beta of each activation (0 where it has none), or is empty if none has any. The sums
    of the gates are clipped to [-clip, clip] before their activations. With `inputForget`, the forget gate of an LSTM
    is 1 - its input gate, as in ONNX.
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
