// The operation that a kernel of the user's computes. Apart from TnOps.td for the same reason as
// TnRareOps.td.

#ifndef TENON_GRAPH_TNCUSTOMOPS_TD
#define TENON_GRAPH_TNCUSTOMOPS_TD

include "compiler/graph/TnDialect.td"

def Tn_CustomOp : Tn_Op<"custom", [Pure]> {
  let summary = "An operator that a kernel of the user's computes";
  let description = [{
    `kernels` are the entries of descriptions (compiler/kernels/Library.h) that fit the node, as JSON: one for each kind of
    device at most, each with the hash of its library. `sizes` are the values of the entries' sizes in the order of
    Kernel::sizes, `values` those of the node's attributes, in the order of Kernel::attributes. `reference` is the text of
    a module whose @main computes the same from the inputs and, behind them, the attributes as scalars and vectors; empty for none.
    Nothing is fused with it. With `rows`, the number of a size, what each row holds of that size's dims, which come first, is
    a function of the row alone, as the user says and a check on samples confirms; without, nothing is known of its rows.
    `%c = tn.custom %a, %b {kernels = ["..."], name = "com.example::VectorAdd", reference = "", sizes = affine_map<() -> (64)>, values = []} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>`
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, StrAttr:$name, StrArrayAttr:$kernels, AffineMapAttr:$sizes,
                       ArrayAttr:$values, StrAttr:$reference, OptionalAttr<I64Attr>:$rows);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $outputs)";
}

#endif
