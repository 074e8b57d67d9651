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
def Tn_BitcastOp : Tn_Op<"bitcast", [Pure, Tn_Elementwise, SameOperandsAndResultShape]> {
  let summary = "The same bits as another element type of the same width";
  let arguments = (ins Tn_ValueTensor:$x);
  let results = (outs Tn_ValueTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
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

#endif
