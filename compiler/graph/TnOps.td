// The operations of the `tn` dialect, by family. Each follows ONNX's newest definition of its name
// unless the description says how it differs.

#ifndef TENON_GRAPH_TNOPS_TD
#define TENON_GRAPH_TNOPS_TD

include "compiler/graph/TnDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

//===--- Constants and structure ---------------------------------------------------------------===//

def Tn_WeightOp : Tn_Op<"weight", [Pure]> {
  let summary = "A constant whose bytes are in the weight store";
  let description = [{
    `id` names an entry of the compilation's WeightStore (graph/WeightStore.h), which has its file,
    offset, size and hash. Bytes are row-major and little-endian in the result's type.
    `%w = tn.weight "encoder.0.weight" : tensor<768x768xf32>`
  }];
  let arguments = (ins StrAttr:$id);
  let results = (outs AnyStaticShapeTensor:$y);
  let assemblyFormat = "$id attr-dict `:` type($y)";
}

def Tn_ConstantOp : Tn_Op<"constant", [Pure, ConstantLike]> {
  let summary = "A small constant, stored in the IR";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyStaticShapeTensor:$y);
  let assemblyFormat = "$value attr-dict `:` type($y)";
  let hasFolder = 1;
}

def Tn_SizesOp : Tn_Op<"sizes", [Pure]> {
  let summary = "Expressions over the symbols as an integer tensor (scalar or 1-D)";
  let description = "ONNX's Shape and computations on it. `values` has one result per element.";
  let arguments = (ins AffineMapAttr:$values);
  let results = (outs AnyStaticShapeTensor:$y);
  let assemblyFormat = "$values attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Tn_PackOp : Tn_Op<"pack", [Pure, Tn_StoredForm]> {
  let summary = "An array with its dims tiled and in another order";
  let description = [{
    Like linalg.pack, with zeros where a tile extends beyond its dim. Entry i of `inner_tiles` is the tile size of dim
    `inner_dims_pos[i]`. The outer dims of the result are the loops over tiles, and over the elements of dims that are not
    tiled, in the order of `outer_dims_perm`. The inner dims are the elements of tiles, in the order of the entries.

    A dim may be tiled again: its tiles are then split into smaller ones, and the loop over these within a larger tile is one
    more outer dim, numbered after the array's own. Weights of matmuls and convolutions become constants of this form.

    A matrix [K, N] in panels of 32 columns, and the same for instructions that multiply four neighbours of K (VNNI-4):
    ```
    tn.pack %w outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32]
      : (tensor<64x96xf32>) -> tensor<3x64x32xf32>
    tn.pack %w outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [16, 4]
      : (tensor<64x96xi8>) -> tensor<6x16x16x4xi8>
    ```
    A convolution's weight [O, I, H, W] of two groups, each in panels of 32 outputs: dim 4 is the loop over the panels of
    a group.
    ```
    tn.pack %w outer_dims_perm = [0, 4, 2, 3, 1] inner_dims_pos = [0, 0] inner_tiles = [48, 32]
      : (tensor<96x8x3x3xf32>) -> tensor<2x2x3x3x8x32xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$weight, DenseI64ArrayAttr:$outer_dims_perm,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$inner_dims_pos,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$inner_tiles);
  let results = (outs AnyStaticShapeTensor:$y);
  let builders = [OpBuilder<(ins "::mlir::Value":$weight, "const ::tenon::tn::Packing &":$packing)>];
  let assemblyFormat = [{
    $weight `outer_dims_perm` `=` $outer_dims_perm (`inner_dims_pos` `=` $inner_dims_pos^)? (`inner_tiles` `=` $inner_tiles^)?
    attr-dict `:` functional-type($weight, $y)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::tenon::tn::Packing packing() { return ::tenon::tn::packingOf(*this); }
  }];
}

def Tn_UnpackOp : Tn_Op<"unpack", [Pure, Tn_StoredForm]> {
  let summary = "The array behind a packed one";
  let description = [{
    The inverse of `tn.pack` with the same attributes. In a region, it is between the packed argument and its readers, so
    that these keep their logical shapes.
  }];
  let arguments = (ins AnyRankedTensor:$packed, DenseI64ArrayAttr:$outer_dims_perm,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$inner_dims_pos,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$inner_tiles);
  let results = (outs AnyStaticShapeTensor:$weight);
  let builders = [OpBuilder<(ins "::mlir::Type":$weight, "::mlir::Value":$packed,
                                 "const ::tenon::tn::Packing &":$packing)>];
  let assemblyFormat = [{
    $packed `outer_dims_perm` `=` $outer_dims_perm (`inner_dims_pos` `=` $inner_dims_pos^)? (`inner_tiles` `=` $inner_tiles^)?
    attr-dict `:` functional-type($packed, $weight)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::tenon::tn::Packing packing() { return ::tenon::tn::packingOf(*this); }
  }];
}

def Tn_WinogradFilterOp : Tn_Op<"winograd_filter", [Pure, Tn_StoredForm, DeclareOpInterfaceMethods<Tn_DerivedWeight>]> {
  let summary = "The filters of a convolution, transformed for Winograd's minimal filtering F(m x m, 3 x 3)";
  let description = [{
    The weight is [O, I, spatial...] with 3 x 3 taps in its last two dims. Each 3 x 3 square becomes one of
    (m + 2) x (m + 2), for m of 2 or 4: G g Gᵀ with the points of graph/Winograd.h, computed in f64.
    `%f = tn.winograd_filter %w {m = 4 : i64} : (tensor<64x32x3x3xf32>) -> tensor<64x32x6x6xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$weight, I64Attr:$m);
  let results = (outs AnyStaticShapeTensor:$filter);
  let assemblyFormat = "$weight attr-dict `:` functional-type($weight, $filter)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static ::mlir::RankedTensorType typeOf(::mlir::RankedTensorType weight, int64_t m);
  }];
}

def Tn_WinogradTapsOp : Tn_Op<"winograd_taps", [Pure, Tn_StoredForm]> {
  let summary = "The weight behind filters that tn.winograd_filter transformed";
  let description = [{
    In a region, it is between the filters and their convolution, so that this keeps its logical shapes.
  }];
  let arguments = (ins AnyRankedTensor:$filter, I64Attr:$m);
  let results = (outs AnyStaticShapeTensor:$weight);
  let assemblyFormat = "$filter attr-dict `:` functional-type($filter, $weight)";
  let hasVerifier = 1;
}

def Tn_RegionOp : Tn_Op<"region", [IsolatedFromAbove, SingleBlock]> {
  let summary = "Operations that run as one kernel (or one library call)";
  let description = [{
    Formed by dispatch. The body's arguments are the operands; `tn.yield` returns the results.
    `strategy` says how codegen handles it (dispatch/Strategy.h); `record` is the index of
    the decision record.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, StrAttr:$target, StrAttr:$strategy,
                       OptionalAttr<I64Attr>:$record);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let assemblyFormat = "$target $strategy `(` $inputs `)` attr-dict-with-keyword $body `:` functional-type($inputs, $outputs)";
}

def Tn_YieldOp : Tn_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["RegionOp"]>]> {
  let summary = "The results of a region";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===--- Elementwise, one operand --------------------------------------------------------------===//

def Tn_AbsOp : Tn_Unary<"abs", "Absolute value", Tn_NumberTensor>;
def Tn_NegOp : Tn_Unary<"neg", "Negation", Tn_NumberTensor>;
def Tn_ExpOp : Tn_Unary<"exp", "e to the x">;
def Tn_LogOp : Tn_Unary<"log", "Natural logarithm">;
def Tn_SqrtOp : Tn_Unary<"sqrt", "Square root">;
def Tn_RsqrtOp : Tn_Unary<"rsqrt", "1 / sqrt(x)">;
def Tn_ReciprocalOp : Tn_Unary<"reciprocal", "1 / x">;
def Tn_SinOp : Tn_Unary<"sin", "Sine">;
def Tn_CosOp : Tn_Unary<"cos", "Cosine">;
def Tn_TanOp : Tn_Unary<"tan", "Tangent">;
def Tn_AsinOp : Tn_Unary<"asin", "Arc sine">;
def Tn_AcosOp : Tn_Unary<"acos", "Arc cosine">;
def Tn_AtanOp : Tn_Unary<"atan", "Arc tangent">;
def Tn_SinhOp : Tn_Unary<"sinh", "Hyperbolic sine">;
def Tn_CoshOp : Tn_Unary<"cosh", "Hyperbolic cosine">;
def Tn_TanhOp : Tn_Unary<"tanh", "Hyperbolic tangent">;
def Tn_AsinhOp : Tn_Unary<"asinh", "Inverse hyperbolic sine">;
def Tn_AcoshOp : Tn_Unary<"acosh", "Inverse hyperbolic cosine">;
def Tn_AtanhOp : Tn_Unary<"atanh", "Inverse hyperbolic tangent">;
def Tn_ErfOp : Tn_Unary<"erf", "Error function">;
def Tn_CeilOp : Tn_Unary<"ceil", "Round up">;
def Tn_FloorOp : Tn_Unary<"floor", "Round down">;
def Tn_RoundOp : Tn_Unary<"round", "Round to nearest, ties to even">;
def Tn_SignOp : Tn_Unary<"sign", "-1, 0 or 1", Tn_NumberTensor>;
def Tn_NotOp : Tn_Unary<"not", "Logical not of a bool; bitwise not of an integer", Tn_BitsTensor>;
def Tn_ReluOp : Tn_Unary<"relu", "max(x, 0)", Tn_NumberTensor>;
def Tn_SigmoidOp : Tn_Unary<"sigmoid", "1 / (1 + exp(-x))">;
def Tn_SiluOp : Tn_Unary<"silu", "x * sigmoid(x)">;
def Tn_GeluOp : Tn_Unary<"gelu", "Gaussian error linear unit"> {
  let description = "x/2 * (1 + erf(x / sqrt 2)); with `approximate`, the tanh form.";
  let arguments = (ins Tn_FloatTensor:$x, UnitAttr:$approximate);
}
def Tn_SoftplusOp : Tn_Unary<"softplus", "log(1 + exp(x))">;
def Tn_LeakyReluOp : Tn_Unary<"leaky_relu", "x if x >= 0 else alpha * x"> {
  let arguments = (ins Tn_FloatTensor:$x, F64Attr:$alpha);
}
def Tn_EluOp : Tn_Unary<"elu", "x if x >= 0 else alpha * (exp(x) - 1)"> {
  let arguments = (ins Tn_FloatTensor:$x, F64Attr:$alpha);
}
def Tn_HardSigmoidOp : Tn_Unary<"hard_sigmoid", "max(0, min(1, alpha * x + beta))"> {
  let arguments = (ins Tn_FloatTensor:$x, F64Attr:$alpha, F64Attr:$beta);
}
def Tn_ClampOp : Tn_Unary<"clamp", "min(max(x, lo), hi) with constant bounds", Tn_NumberTensor> {
  let arguments = (ins Tn_NumberTensor:$x, F64Attr:$lo, F64Attr:$hi);
}
def Tn_IsNanOp : Tn_Test<"is_nan", "x is not a number">;
def Tn_IsInfOp : Tn_Test<"is_inf", "x is infinite, with one of the requested signs"> {
  let arguments = (ins Tn_FloatTensor:$x, BoolAttr:$positive, BoolAttr:$negative);
}
def Tn_CastOp : Tn_Op<"cast", [Pure, Tn_Elementwise, SameOperandsAndResultShape]> {
  let summary = "Conversion of the element type, like ONNX's Cast";
  let description = [{
    Float to integer truncates and saturates; NaN becomes 0. Integer to
    integer keeps the low bits. Any type to bool compares with zero.
  }];
  let arguments = (ins Tn_ValueTensor:$x);
  let results = (outs Tn_ValueTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}

//===--- Elementwise, two and three operands ---------------------------------------------------===//

def Tn_AddOp : Tn_Binary<"add", "Sum", Tn_NumberTensor, [Commutative]>;
def Tn_SubOp : Tn_Binary<"sub", "Difference", Tn_NumberTensor>;
def Tn_MulOp : Tn_Binary<"mul", "Product", Tn_NumberTensor, [Commutative]>;
def Tn_DivOp : Tn_Binary<"div", "Quotient; integers truncate towards zero", Tn_NumberTensor>;
def Tn_ModOp : Tn_Binary<"mod", "Remainder", Tn_NumberTensor> {
  let description = "The sign follows the divisor; with `fmod` the dividend, as in C.";
  let arguments = (ins Tn_NumberTensor:$a, Tn_NumberTensor:$b, UnitAttr:$fmod);
}
def Tn_PowOp : Tn_InferredOp<"pow", [Tn_Elementwise]> {
  let summary = "a to the b, in a's type; b may have another type";
  let arguments = (ins Tn_NumberTensor:$a, Tn_NumberTensor:$b);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` functional-type(operands, $y)";
}
def Tn_MaxOp : Tn_Binary<"max", "Larger of two; NaN if either is", Tn_NumberTensor, [Commutative]>;
def Tn_MinOp : Tn_Binary<"min", "Smaller of two; NaN if either is", Tn_NumberTensor, [Commutative]>;
def Tn_AndOp : Tn_Binary<"and", "Logical and of bools; bitwise and of integers", Tn_BitsTensor, [Commutative]>;
def Tn_OrOp : Tn_Binary<"or", "Logical or of bools; bitwise or of integers", Tn_BitsTensor, [Commutative]>;
def Tn_XorOp : Tn_Binary<"xor", "Logical xor of bools; bitwise xor of integers", Tn_BitsTensor, [Commutative]>;
def Tn_ShiftOp : Tn_Binary<"shift", "Bit shift of unsigned integers", Tn_IntegerTensor> {
  let arguments = (ins Tn_IntegerTensor:$a, Tn_IntegerTensor:$b, UnitAttr:$left);
}
def Tn_CompareOp : Tn_InferredOp<"compare", [Tn_Elementwise]> {
  let summary = "Comparison with broadcast; the result is bool";
  let arguments = (ins Tn_ValueTensor:$a, Tn_ValueTensor:$b, Tn_PredicateAttr:$predicate);
  let results = (outs Tn_BoolTensor:$y);
  let assemblyFormat = "$a $predicate $b attr-dict `:` functional-type(operands, $y)";
}
def Tn_SelectOp : Tn_InferredOp<"select", [Tn_Elementwise]> {
  let summary = "a where the condition holds, else b; all three broadcast (ONNX Where)";
  let arguments = (ins Tn_BoolTensor:$condition, AnyRankedTensor:$a, AnyRankedTensor:$b);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$condition `,` $a `,` $b attr-dict `:` functional-type(operands, $y)";
}
def Tn_RequireOp : Tn_InferredOp<"require", [Tn_Elementwise]> {
  let summary = "x if the condition (one bool) holds; otherwise the run fails";
  let description = [{
    The error names the node and `what`, the violated condition of the model. The result replaces x wherever the
    condition matters; an unused result is not checked. Bodies of regions use it on scalars too, with a
    `failure` code from engine/KernelAbi.h; there x must be safe to use even if the condition does not hold.
    `%y = tn.require %x, %c {what = "k is at most 5"} : (tensor<5xf32>, tensor<i1>) -> tensor<5xf32>`
  }];
  let arguments = (ins AnyType:$x, Tn_Condition:$condition,
                       DefaultValuedAttr<Tn_FailureAttr, "::tenon::tn::Failure::constraint">:$failure,
                       DefaultValuedStrAttr<StrAttr, "">:$what);
  let results = (outs AnyType:$y);
  let assemblyFormat = "$x `,` $condition attr-dict `:` functional-type(operands, $y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===--- Reductions and rows -------------------------------------------------------------------===//

def Tn_ReduceOp : Tn_InferredOp<"reduce", [Tn_RowWise]> {
  let summary = "Sum, mean, product, maximum or minimum over axes";
  let description = "`axes` are sorted and not negative. An empty reduction gives the neutral element.";
  let arguments = (ins Tn_NumberTensor:$x, Tn_ReduceKindAttr:$kind, DenseI64ArrayAttr:$axes,
                       BoolAttr:$keepdims);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$kind $x attr-dict `:` functional-type($x, $y)";
}
def Tn_ArgReduceOp : Tn_InferredOp<"arg_reduce", [Tn_RowWise]> {
  let summary = "Index (i64) of the largest or smallest element along an axis";
  let arguments = (ins Tn_NumberTensor:$x, I64Attr:$axis, BoolAttr:$keepdims, BoolAttr:$largest,
                       BoolAttr:$lastIndex);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
}
def Tn_CumsumOp : Tn_Op<"cumsum", [Pure, Tn_RowWise, SameOperandsAndResultType]> {
  let summary = "Running sum along an axis";
  let arguments = (ins Tn_NumberTensor:$x, I64Attr:$axis, BoolAttr:$exclusive, BoolAttr:$reverse);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}
def Tn_SoftmaxOp : Tn_Op<"softmax", [Pure, Tn_RowWise, SameOperandsAndResultType]> {
  let summary = "exp(x - max) / sum along one axis; its logarithm with `log`";
  let arguments = (ins Tn_FloatTensor:$x, I64Attr:$axis, UnitAttr:$log);
  let results = (outs Tn_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}
def Tn_LayerNormOp : Tn_InferredOp<"layer_norm", [Tn_RowWise, AttrSizedOperandSegments]> {
  let summary = "(x - mean) / sqrt(var + epsilon) * scale + bias over the dims from `axis` on";
  let arguments = (ins Tn_FloatTensor:$x, Optional<Tn_FloatTensor>:$scale,
                       Optional<Tn_FloatTensor>:$bias, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Tn_FloatTensor:$y);
  let assemblyFormat = "$x (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, $y)";
}
def Tn_RmsNormOp : Tn_InferredOp<"rms_norm", [Tn_RowWise]> {
  let summary = "x / sqrt(mean(x^2) + epsilon) * scale over the dims from `axis` on";
  let arguments = (ins Tn_FloatTensor:$x, Optional<Tn_FloatTensor>:$scale, I64Attr:$axis,
                       F64Attr:$epsilon);
  let results = (outs Tn_FloatTensor:$y);
  let assemblyFormat = "$x (`scale` $scale^)? attr-dict `:` functional-type(operands, $y)";
}
def Tn_GroupNormOp : Tn_InferredOp<"group_norm", [Tn_RowWise]> {
  let summary = "Normalization over groups of channels and all positions (NC...); `groups` = C is instance norm";
  let arguments = (ins Tn_FloatTensor:$x, Tn_FloatTensor:$scale, Tn_FloatTensor:$bias,
                       I64Attr:$groups, F64Attr:$epsilon);
  let results = (outs Tn_FloatTensor:$y);
  let assemblyFormat = "$x `,` $scale `,` $bias attr-dict `:` functional-type(operands, $y)";
}
def Tn_BatchNormOp : Tn_InferredOp<"batch_norm"> {
  let summary = "Inference form: (x - mean) / sqrt(var + epsilon) * scale + bias per channel";
  let arguments = (ins Tn_FloatTensor:$x, Tn_FloatTensor:$scale, Tn_FloatTensor:$bias,
                       Tn_FloatTensor:$mean, Tn_FloatTensor:$var, F64Attr:$epsilon,
                       BoolAttr:$channelsLast);
  let results = (outs Tn_FloatTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $y)";
}

//===--- Contractions --------------------------------------------------------------------------===//

def Tn_MatmulOp : Tn_InferredOp<"matmul", [Tn_Contraction]> {
  let summary = "Matmul with numpy's batch broadcast";
  let description = [{
    `transposeA` and `transposeB` swap the last two dims of an operand of rank 2 or more. 1-D operands are not
    allowed: import reshapes them. Both operands and the result have the same element type. The exception is ui8 by i8,
    for quantized numbers: their products are summed in i32.
  }];
  let arguments = (ins Tn_NumberTensor:$a, Tn_NumberTensor:$b, UnitAttr:$transposeA, UnitAttr:$transposeB);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` functional-type(operands, $y)";
}
def Tn_ConvOp : Tn_InferredOp<"conv", [Tn_Contraction]> {
  let summary = "Convolution over 1 to 3 spatial dims";
  let description = [{
    The weight is [O, I / groups, spatial...] in either layout of the data: NC... or, with
    `channelsLast`, N...C. `pads` lists all begins, then all ends. Data, weight, bias and result have the same element type.
    The exception is ui8 by i8, for quantized numbers: their products are summed in i32.
  }];
  let arguments = (ins Tn_NumberTensor:$x, Tn_NumberTensor:$weight, Optional<Tn_NumberTensor>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$dilations, I64Attr:$groups, BoolAttr:$channelsLast);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$x `,` $weight (`bias` $bias^)? attr-dict `:` functional-type(operands, $y)";
}
def Tn_ConvTransposeOp : Tn_InferredOp<"conv_transpose"> {
  let summary = "Transposed convolution (NC...); the weight is [I, O / groups, spatial...]";
  let arguments = (ins Tn_NumberTensor:$x, Tn_NumberTensor:$weight, Optional<Tn_NumberTensor>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$outputPadding, I64Attr:$groups);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$x `,` $weight (`bias` $bias^)? attr-dict `:` functional-type(operands, $y)";
}
def Tn_AttentionOp : Tn_InferredOp<"attention", [Tn_Contraction, AttrSizedOperandSegments]> {
  let summary = "softmax(scale * Q Kᵀ + mask) V";
  let description = [{
    Logical shapes: q [B, H, Sq, D], k [B, Hk, Sk, D], v [B, Hk, Sk, Dv], H a multiple of Hk,
    result [B, H, Sq, Dv]. An operand whose flag in `headsInner` (q, k, v, result) is set is stored
    as [B, S, H, D] instead. `mask` is added and broadcasts to [B, H, Sq, Sk]. `causal` lets query i see
    keys up to i + Sk - Sq, or up to i + `start`, which is then one number; with a `window`, only the last `window`
    of these (0: all). If all keys of a query are masked by minus infinity, or come after it, its result is
    zero, or NaN with `maskedRowsAreNan`, as in a softmax of such scores. Without keys, the result is zero.
  }];
  let arguments = (ins Tn_FloatTensor:$q, Tn_FloatTensor:$k, Tn_FloatTensor:$v,
                       Optional<Tn_FloatTensor>:$mask, Optional<Tn_IndexTensor>:$start, F64Attr:$scale,
                       BoolAttr:$causal, DenseBoolArrayAttr:$headsInner, UnitAttr:$maskedRowsAreNan,
                       DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs Tn_FloatTensor:$y);
  let assemblyFormat = "$q `,` $k `,` $v (`mask` $mask^)? (`start` $start^)? attr-dict `:` functional-type(operands, $y)";
}

//===--- Pooling and resampling ----------------------------------------------------------------===//

def Tn_MaxPoolOp : Tn_InferredOp<"max_pool"> {
  let summary = "Largest element of each window";
  let arguments = (ins Tn_NumberTensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, BoolAttr:$ceilMode,
                       BoolAttr:$channelsLast);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
}
def Tn_AvgPoolOp : Tn_InferredOp<"avg_pool"> {
  let summary = "Mean of each window";
  let arguments = (ins Tn_FloatTensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, BoolAttr:$ceilMode,
                       BoolAttr:$countIncludePad, BoolAttr:$channelsLast);
  let results = (outs Tn_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
}
def Tn_ResizeOp : Tn_Op<"resize", [Pure]> {
  let summary = "Resampling; `scales` has one entry per dim";
  let arguments = (ins Tn_NumberTensor:$x, Tn_ResizeModeAttr:$mode, StrAttr:$coordinates,
                       StrAttr:$nearest, DenseF64ArrayAttr:$scales, F64Attr:$cubicA, BoolAttr:$excludeOutside,
                       BoolAttr:$antialias, F64Attr:$extrapolation, DenseF64ArrayAttr:$roi);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$mode $x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}

//===--- Movement ------------------------------------------------------------------------------===//

def Tn_ReshapeOp : Tn_Op<"reshape", [Pure, Tn_Movement]> {
  let summary = "The same elements in row-major order under another shape";
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_TransposeOp : Tn_InferredOp<"transpose", [Tn_Movement]> {
  let summary = "Result dim i is operand dim permutation[i]";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x $permutation attr-dict `:` functional-type($x, $y)";
}
def Tn_BroadcastOp : Tn_Op<"broadcast", [Pure, Tn_Movement]> {
  let summary = "numpy's broadcast to the result's shape (ONNX Expand)";
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_ConcatOp : Tn_InferredOp<"concat", [Tn_Movement]> {
  let summary = "The operands one after the other along an axis";
  let arguments = (ins Variadic<AnyRankedTensor>:$xs, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$xs attr-dict `:` functional-type($xs, $y)";
}
def Tn_SliceOp : Tn_Op<"slice", [Pure, Tn_Movement]> {
  let summary = "Every step-th element from `starts` on; the result's shape gives their number";
  let description = [{
    `starts` has one expression over the symbols per dim, already clamped; `steps` may be negative.
  }];
  let arguments = (ins AnyRankedTensor:$x, AffineMapAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
}
def Tn_PadOp : Tn_InferredOp<"pad", [Tn_Movement]> {
  let summary = "Elements added (or removed, if negative) at both ends of each dim";
  let description = "`value` is a scalar, used by the constant mode; without it, zero.";
  let arguments = (ins AnyRankedTensor:$x, Optional<AnyRankedTensor>:$value,
                       DenseI64ArrayAttr:$begins, DenseI64ArrayAttr:$ends, Tn_PadModeAttr:$mode);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$mode $x (`value` $value^)? attr-dict `:` functional-type(operands, $y)";
}
def Tn_GatherOp : Tn_InferredOp<"gather", [Tn_Movement]> {
  let summary = "Slices along an axis by index (ONNX Gather); negative indices count from the end";
  let arguments = (ins AnyRankedTensor:$x, Tn_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $indices attr-dict `:` functional-type(operands, $y)";
}
def Tn_GatherElementsOp : Tn_InferredOp<"gather_elements", [Tn_Movement]> {
  let summary = "y[i][j] = x[indices[i][j]][j] along an axis";
  let arguments = (ins AnyRankedTensor:$x, Tn_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $indices attr-dict `:` functional-type(operands, $y)";
}
def Tn_GatherNdOp : Tn_InferredOp<"gather_nd", [Tn_Movement]> {
  let summary = "Slices by index tuples, after `batchDims` common dims";
  let arguments = (ins AnyRankedTensor:$x, Tn_IndexTensor:$indices, I64Attr:$batchDims);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `,` $indices attr-dict `:` functional-type(operands, $y)";
}
def Tn_ScatterElementsOp : Tn_InferredOp<"scatter_elements"> {
  let summary = "x with updates written (or combined) at indices along an axis";
  let arguments = (ins AnyRankedTensor:$x, Tn_IndexTensor:$indices, AnyRankedTensor:$updates,
                       I64Attr:$axis, Tn_ScatterKindAttr:$kind);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$kind $x `,` $indices `,` $updates attr-dict `:` functional-type(operands, $y)";
}
def Tn_ScatterNdOp : Tn_InferredOp<"scatter_nd"> {
  let summary = "x with slices written (or combined) at index tuples";
  let arguments = (ins AnyRankedTensor:$x, Tn_IndexTensor:$indices, AnyRankedTensor:$updates,
                       Tn_ScatterKindAttr:$kind);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$kind $x `,` $indices `,` $updates attr-dict `:` functional-type(operands, $y)";
}
def Tn_IotaOp : Tn_Op<"iota", [Pure]> {
  let summary = "start + step * i along the only dim (ONNX Range)";
  let arguments = (ins Tn_NumberTensor:$start, Tn_NumberTensor:$step);
  let results = (outs Tn_NumberTensor:$y);
  let assemblyFormat = "$start `,` $step attr-dict `:` functional-type(operands, $y)";
  let hasVerifier = 1;
}
def Tn_TriluOp : Tn_Op<"trilu", [Pure, SameOperandsAndResultType, Tn_Movement]> {
  let summary = "Upper or lower triangle of the last two dims, zero elsewhere";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$diagonal, BoolAttr:$upper);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
}
def Tn_TopKOp : Tn_Op<"top_k", [Pure]> {
  let summary = "The k largest or smallest elements along an axis, and their indices (i64)";
  let arguments = (ins Tn_NumberTensor:$x, I64Attr:$axis, BoolAttr:$largest, BoolAttr:$sorted);
  let results = (outs AnyRankedTensor:$values, AnyRankedTensor:$indices);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, results)";
  let hasVerifier = 1;
}

//===--- Quantization --------------------------------------------------------------------------===//

def Tn_QuantizeOp : Tn_Op<"quantize", [Pure]> {
  let summary = "saturate(round(x / scale) + zeroPoint), per tensor or along an axis";
  let arguments = (ins Tn_FloatTensor:$x, Tn_FloatTensor:$scale, Tn_IntegerTensor:$zeroPoint, I64Attr:$axis);
  let results = (outs Tn_IntegerTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $y)";
  let hasVerifier = 1;
}
def Tn_DequantizeOp : Tn_Op<"dequantize", [Pure]> {
  let summary = "(x - zeroPoint) * scale, per tensor or along an axis";
  let arguments = (ins Tn_IntegerTensor:$x, Tn_FloatTensor:$scale, Tn_IntegerTensor:$zeroPoint, I64Attr:$axis);
  let results = (outs Tn_FloatTensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $y)";
  let hasVerifier = 1;
}

#endif
