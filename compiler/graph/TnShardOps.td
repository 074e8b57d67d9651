// Operations of a graph that every rank of a group runs: what differs between ranks, and what they
// exchange. compiler/shard inserts them. Apart from TnOps.td for the same reason as TnRareOps.td.

#ifndef TENON_GRAPH_TNSHARDOPS_TD
#define TENON_GRAPH_TNSHARDOPS_TD

include "compiler/graph/TnDialect.td"

def Tn_RankSliceOp : Tn_Op<"rank_slice", [Pure]> {
  let summary = "This rank's part of a value that every rank could have whole";
  let description = [{
    Along `dim` the value is `repeat` times a list of pieces. Piece i has `sizes[i]` elements, cut into ranks / `copies[i]`
    equal chunks; rank r has chunk r / `copies[i]` of each, one after the other. Of a weight, a rank stores its part alone.
    With `part`, all ranks have what rank `part` of `ranks` would have, however many they are.
    `%w = tn.rank_slice %0 {copies = array<i64: 1>, dim = 0 : i64, ranks = 2 : i64, repeat = 1 : i64, sizes = array<i64: 8>} : (tensor<8x4xf32>) -> tensor<4x4xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$ranks, I64Attr:$dim, I64Attr:$repeat,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$copies,
                       OptionalAttr<I64Attr>:$part);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
}
def Tn_AllReduceOp : Tn_Op<"all_reduce", [SameOperandsAndResultType]> {
  let summary = "The sum over all ranks, on each rank";
  let description = "Ranks are added in their order.";
  let arguments = (ins Tn_NumberTensor:$x, I64Attr:$ranks);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}
def Tn_AllGatherOp : Tn_Op<"all_gather"> {
  let summary = "The whole of which each rank has a part, on each rank";
  let description = "The parts are those that `tn.rank_slice` with the same attributes takes.";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$ranks, I64Attr:$dim, I64Attr:$repeat,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$copies);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
}
def Tn_SendReceiveOp : Tn_Op<"send_receive", [SameOperandsAndResultType]> {
  let summary = "A value of one pipeline stage in the next one";
  let description = [{
    Each rank of stage `stage` sends what it has to the rank in the same position of the stage behind. What comes after reads
    the result, and never a value of an earlier stage.
  }];
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$stage);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

#endif
