// Interfaces of operations of the `tn` dialect: what passes and writers ask for instead of lists of
// operation names.

#ifndef TENON_GRAPH_TNINTERFACES_TD
#define TENON_GRAPH_TNINTERFACES_TD

include "mlir/IR/Interfaces.td"

def Tn_DerivedWeight : OpInterface<"DerivedWeight"> {
  let cppNamespace = "::tenon::tn";
  let description = [{
    Computes a constant from another. It is evaluated when constants are written, never in a region.
  }];
  let methods = [
    InterfaceMethod<"Describes the results for people, as a form of weights.", "::llvm::StringLiteral", "form">,
    InterfaceMethod<"Makes bytes of the result. Stays valid without the operation.",
                    "::tenon::tn::DerivedBytes", "derivedBytes">
  ];
}

#endif
