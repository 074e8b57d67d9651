// The `tn` dialect: its attributes and the classes its operations are built from. TnOps.td holds the
// operations; graph/Shape.h the symbolic shapes.

#ifndef TENON_GRAPH_TNDIALECT_TD
#define TENON_GRAPH_TNDIALECT_TD

include "compiler/graph/TnInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TnDialect : Dialect {
  let name = "tn";
  let cppNamespace = "::tenon::tn";
  let summary = "The graph of a trained model, with one operation per concept";
  let description = [{
    Values are builtin ranked tensors with value semantics. A dimension is a constant or an
    expression over the model's symbols, carried by the `#tn.shape` encoding. Signless integers are
    signed; `ui8` and the like are unsigned; `i1` is ONNX's bool. Operations follow the newest ONNX
    definition of the same name unless their description says otherwise. The module attribute
    `tn.symbols` declares the symbols, in the order in which shape expressions number them.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  // Records what shape rules assume while a model is imported: graph/Constraints.h.
  let extraClassDeclaration = [{
    ::tenon::tn::Assumptions *assumptions = nullptr;
  }];
}

class Tn_Attr<string name, string mnemonic_, list<Trait> traits = []> : AttrDef<TnDialect, name, traits> {
  let mnemonic = mnemonic_;
}

def Tn_ShapeAttr : Tn_Attr<"Shape", "shape", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "The dimensions of a tensor as expressions over the module's symbols";
  let description = [{
    An affine map without dims, with one result for each dimension. Its symbol i is entry i of the module's
    `tn.symbols`. Static tensors have no encoding.
    `tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>`
  }];
  let parameters = (ins "::mlir::AffineMap":$map);
  let assemblyFormat = "`<` $map `>`";
}

def Tn_SymbolAttr : Tn_Attr<"Symbol", "symbol"> {
  let summary = "A declared symbol: its name and its inclusive range";
  let parameters = (ins StringRefParameter<"as the model names it">:$name, "int64_t":$min, "int64_t":$max);
  let assemblyFormat = "`<` $name `,` $min `,` $max `>`";
}

class Tn_Enum<string name, list<I32EnumAttrCase> cases> : I32EnumAttr<name, "", cases> {
  let cppNamespace = "::tenon::tn";
  let genSpecializedAttr = 0;
}
class Tn_EnumAttr<EnumInfo info, string mnemonic> : EnumAttr<TnDialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def Tn_ConstraintKind : Tn_Enum<"ConstraintKind", [
  I32EnumAttrCase<"equal", 0>, I32EnumAttrCase<"equal_or_one", 1>, I32EnumAttrCase<"divisible", 2>,
  I32EnumAttrCase<"at_least", 3>]>;
def Tn_ConstraintAttr : Tn_Attr<"Constraint", "constraint"> {
  let summary = "A condition on the symbols that a node of the model needs";
  let description = [{
    `shapes` has no dims and two results, left and right. The module attribute `tn.constraints` lists the constraints;
    each is checked when symbols are bound to values.
  }];
  let parameters = (ins "::tenon::tn::ConstraintKind":$kind, "::mlir::AffineMap":$shapes,
                        StringRefParameter<"the node of the model">:$node);
  let assemblyFormat = "`<` $kind `,` $shapes `,` $node `>`";
}

def Tn_Predicate : Tn_Enum<"Predicate", [
  I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
  I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]>;
def Tn_PredicateAttr : Tn_EnumAttr<Tn_Predicate, "predicate">;

def Tn_ReduceKind : Tn_Enum<"ReduceKind", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"prod", 2>,
  I32EnumAttrCase<"max", 3>, I32EnumAttrCase<"min", 4>]>;
def Tn_ReduceKindAttr : Tn_EnumAttr<Tn_ReduceKind, "reduce_kind">;

def Tn_ScatterKind : Tn_Enum<"ScatterKind", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"add", 1>, I32EnumAttrCase<"mul", 2>,
  I32EnumAttrCase<"max", 3>, I32EnumAttrCase<"min", 4>]>;
def Tn_ScatterKindAttr : Tn_EnumAttr<Tn_ScatterKind, "scatter_kind">;

def Tn_PadMode : Tn_Enum<"PadMode", [
  I32EnumAttrCase<"constant", 0>, I32EnumAttrCase<"edge", 1>, I32EnumAttrCase<"reflect", 2>,
  I32EnumAttrCase<"wrap", 3>]>;
def Tn_PadModeAttr : Tn_EnumAttr<Tn_PadMode, "pad_mode">;

def Tn_ResizeMode : Tn_Enum<"ResizeMode", [
  I32EnumAttrCase<"nearest", 0>, I32EnumAttrCase<"linear", 1>, I32EnumAttrCase<"cubic", 2>]>;
def Tn_ResizeModeAttr : Tn_EnumAttr<Tn_ResizeMode, "resize_mode">;

def Tn_Failure : Tn_Enum<"Failure", [
  I32EnumAttrCase<"index", 1>, I32EnumAttrCase<"arithmetic", 2>, I32EnumAttrCase<"constraint", 3>]>;
def Tn_FailureAttr : Tn_EnumAttr<Tn_Failure, "failure">;

// Traits that dispatch and the passes ask for instead of lists of operation names.
def Tn_Elementwise : NativeOpTrait<"TnElementwise"> { let cppNamespace = "::tenon::tn"; }
def Tn_Contraction : NativeOpTrait<"TnContraction"> { let cppNamespace = "::tenon::tn"; }
def Tn_RowWise : NativeOpTrait<"TnRowWise"> { let cppNamespace = "::tenon::tn"; }
def Tn_Movement : NativeOpTrait<"TnMovement"> { let cppNamespace = "::tenon::tn"; }
def Tn_StoredForm : NativeOpTrait<"TnStoredForm"> { let cppNamespace = "::tenon::tn"; }

// The element types that operations compute with; pure movement takes any.
def Tn_FloatTensor : RankedTensorOf<[F16, BF16, F32, F64]>;
def Tn_IntegerTensor : RankedTensorOf<[I8, I16, I32, I64, UI8, UI16, UI32, UI64]>;
def Tn_NumberTensor : RankedTensorOf<[F16, BF16, F32, F64, I8, I16, I32, I64, UI8, UI16, UI32, UI64]>;
def Tn_BitsTensor : RankedTensorOf<[I1, I8, I16, I32, I64, UI8, UI16, UI32, UI64]>;
def Tn_BoolTensor : RankedTensorOf<[I1]>;
def Tn_ValueTensor : RankedTensorOf<[I1, F16, BF16, F32, F64, I8, I16, I32, I64, UI8, UI16, UI32, UI64]>;
def Tn_IndexTensor : RankedTensorOf<[I32, I64]>;
def Tn_Condition : AnyTypeOf<[Tn_BoolTensor, I1]>;

class Tn_Op<string mnemonic, list<Trait> traits = []> : Op<TnDialect, mnemonic, traits>;

/// An operation without effects whose result types follow from operands and attributes: its
/// inferReturnTypes stands in graph/infer/.
class Tn_InferredOp<string mnemonic, list<Trait> traits = []>
    : Tn_Op<mnemonic, !listconcat([Pure, InferTypeOpAdaptor], traits)> {
  // Inferred types need only agree with the stated ones: a statically known dim may refine a symbol.
  let extraClassDeclaration = [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange l, ::mlir::TypeRange r) {
      return ::tenon::tn::typesAgree(l, r);
    }
  }];
}

/// One operand, one result of the same type.
class Tn_Unary<string mnemonic, string summary_, Type tensor = Tn_FloatTensor, list<Trait> traits = []>
    : Tn_Op<mnemonic, !listconcat([Pure, Tn_Elementwise, SameOperandsAndResultType], traits)> {
  let summary = summary_;
  let arguments = (ins tensor:$x);
  let results = (outs tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

/// One operand, a bool result of the same shape.
class Tn_Test<string mnemonic, string summary_> : Tn_InferredOp<mnemonic, [Tn_Elementwise]> {
  let summary = summary_;
  let arguments = (ins Tn_FloatTensor:$x);
  let results = (outs Tn_BoolTensor:$y);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $y)";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *, std::optional<::mlir::Location> location, Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::tenon::tn::infer::test(location, adaptor.getX(), types);
    }
  }];
}

/// Two operands of one element type, broadcast against each other as numpy does.
class Tn_Binary<string mnemonic, string summary_, Type tensor, list<Trait> traits = []>
    : Tn_InferredOp<mnemonic, !listconcat([Tn_Elementwise], traits)> {
  let summary = summary_;
  let arguments = (ins tensor:$a, tensor:$b);
  let results = (outs tensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` functional-type(operands, $y)";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *, std::optional<::mlir::Location> location, Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::tenon::tn::infer::binary(location, adaptor.getA(), adaptor.getB(), types);
    }
  }];
}

#endif
