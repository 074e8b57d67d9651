// Reads model node names out of locations: import names each operation by a NameLoc, passes fuse
// them. fuse them. Relies on MLIR's location attributes only.
#include "compiler/dispatch/Names.h"

#include "compiler/graph/Tn.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::dispatch {

std::vector<std::string> nodeNames(Location location) {
  std::vector<std::string> names;
  location->walk([&](Location part) {
    if (NameLoc named = llvm::dyn_cast<NameLoc>(part)) {
      std::string name = named.getName().str();
      if (!name.empty() && !llvm::is_contained(names, name)) {
        names.push_back(name);
      }
    }
    return WalkResult::advance();
  });
  return names;
}

std::string nameOf(Operation *op) {
  std::vector<std::string> names = nodeNames(op->getLoc());
  tn::RegionOp region = dyn_cast<tn::RegionOp>(op);
  if (!names.empty() || !region) {
    return names.empty() ? op->getName().getStringRef().str() : llvm::join(names, "+");
  }
  for (Operation &part : region.getBody().front().without_terminator()) {
    if (!isa<tn::ConstantOp>(part) && !part.hasTrait<tn::TnStoredForm>()) {
      names.push_back(part.getName().getStringRef().str());
    }
  }
  return llvm::join(names, "+");
}

} // namespace tenon::dispatch
