// Registers the `tn` dialect with its attributes and operations.
// Relies on the definitions generated from TnDialect.td, TnRareOps.td, TnShardOps.td and
// TnCustomOps.td, and on those of TnOps.td, which TnOpsShard.cpp.in compiles in parts.
#include "compiler/graph/TnCustom.h"
#include "compiler/graph/TnRare.h"
#include "compiler/graph/TnShard.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tenon::tn;

#include "compiler/graph/TnDialect.cpp.inc"
#include "compiler/graph/TnEnums.cpp.inc"
#include "compiler/graph/TnInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/graph/TnAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/graph/TnRareOps.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/graph/TnShardOps.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/graph/TnCustomOps.cpp.inc"

void TnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/graph/TnAttrs.cpp.inc"
      >();
  registerTnDialectOperations(this);
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/TnRareOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "compiler/graph/TnShardOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "compiler/graph/TnCustomOps.cpp.inc"
      >();
}

Operation *TnDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                          Location location) {
  ElementsAttr elements = llvm::dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type) {
    return nullptr;
  }
  return ConstantOp::create(builder, location, type, elements);
}
