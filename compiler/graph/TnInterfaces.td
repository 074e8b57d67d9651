// Interfaces of operations of the `tn` dialect: what passes and writers ask for instead of lists of
// operation names.

#ifndef TENON_GRAPH_TNINTERFACES_TD
#define TENON_GRAPH_TNINTERFACES_TD

include "mlir/IR/Interfaces.td"

def Tn_DerivedWeight : OpInterface<"DerivedWeight"> {
  let cppNamespace = "::tenon::tn";
  let description = [{
    Computes a constant from another: whoever writes constants evaluates it then, and no region ever does.
  }];
  let methods = [
    InterfaceMethod<"What the results are, for people, as one says it of weights.", "::llvm::StringLiteral", "form">,
    InterfaceMethod<"Makes bytes of the result. Stays valid without the operation.",
                    "::tenon::tn::DerivedBytes", "derivedBytes">
  ];
}

#endif
