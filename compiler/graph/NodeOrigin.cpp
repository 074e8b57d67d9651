// Implements the reading: of a fused operation, the innermost module that holds most of its nodes.
#include "compiler/graph/NodeOrigin.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::tn {
namespace {

using Path = llvm::SmallVector<llvm::StringRef>;

/// The modules of a node's name, without the node itself. ONNX exports say
/// "/layer1/layer1.0/conv/Conv", programs of PyTorch "encoder.layer.0/linear_3", where a number
/// belongs to the list before it.
Path modulesOf(llvm::StringRef name) {
  Path path;
  name.split(path, '/', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  if (!path.empty()) {
    path.pop_back();
  }
  if (name.starts_with('/') || path.size() != 1) {
    return path;
  }
  Path parts;
  for (llvm::StringRef rest = path.front(); !rest.empty();) {
    size_t end = rest.find('.');
    while (end != llvm::StringRef::npos && end + 1 < rest.size() && llvm::isDigit(rest[end + 1])) {
      end = rest.find('.', end + 1);
    }
    if (end > 0) {
      parts.push_back(rest.take_front(end));
    }
    rest = end == llvm::StringRef::npos ? "" : rest.drop_front(end + 1);
  }
  return parts;
}

struct Parts {
  NodeOrigin origin;
  std::vector<Path> modules; ///< one a name
};

void collect(Location location, Parts &parts) {
  if (FusedLoc fused = dyn_cast<FusedLoc>(location)) {
    StringAttr kind = dyn_cast_or_null<StringAttr>(fused.getMetadata()), path;
    if (ArrayAttr both = dyn_cast_or_null<ArrayAttr>(fused.getMetadata());
        both && both.size() == 2) {
      kind = dyn_cast<StringAttr>(both[0]);
      path = dyn_cast<StringAttr>(both[1]);
    }
    size_t known = parts.modules.size();
    if (kind && !llvm::is_contained(parts.origin.kinds, kind.getValue())) {
      parts.origin.kinds.push_back(kind.getValue().str());
    }
    for (Location part : fused.getLocations()) {
      collect(part, parts);
    }
    for (size_t i = known; path && i < parts.modules.size(); ++i) {
      parts.modules[i] = modulesOf(path.getValue());
    }
  } else if (NameLoc named = dyn_cast<NameLoc>(location)) {
    llvm::StringRef name = named.getName();
    if (!name.empty() && !llvm::is_contained(parts.origin.names, name)) {
      parts.origin.names.push_back(name.str());
      parts.modules.push_back(modulesOf(name));
    }
    collect(named.getChildLoc(), parts);
  } else if (FileLineColLoc line = dyn_cast<FileLineColLoc>(location);
             line && parts.origin.source.empty()) {
    parts.origin.source = line.getFilename().str() + ":" + std::to_string(line.getLine());
  }
}

/// The longest path that more than half of the paths begin with.
Path commonModule(llvm::ArrayRef<Path> paths) {
  Path best;
  for (const Path &path : paths) {
    size_t length = path.size();
    auto sharers = [&] {
      return llvm::count_if(paths, [&](const Path &other) {
        return other.size() >= length &&
               ArrayRef(other).take_front(length) == ArrayRef(path).take_front(length);
      });
    };
    while (length > best.size() && 2 * sharers() <= static_cast<int64_t>(paths.size())) {
      --length;
    }
    if (length > best.size()) {
      best.assign(path.begin(), path.begin() + length);
    }
  }
  return best;
}

} // namespace

NodeOrigin originOf(Location location) {
  Parts parts;
  collect(location, parts);
  parts.origin.module = llvm::join(commonModule(parts.modules), "/");
  return std::move(parts.origin);
}

std::string nodeName(Operation *op) {
  std::vector<std::string> names = op ? originOf(op->getLoc()).names : std::vector<std::string>();
  return !names.empty() ? names.front() : op ? op->getName().getStringRef().str() : "";
}

} // namespace tenon::tn
