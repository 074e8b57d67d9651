// Reads model node names out of locations: import names each operation's node by a NameLoc, passes
// fuse them. Relies on MLIR's location attributes only.
#include "compiler/dispatch/Names.h"

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
  return names.empty() ? op->getName().getStringRef().str() : llvm::join(names, "+");
}

} // namespace tenon::dispatch
