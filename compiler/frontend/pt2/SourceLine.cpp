// Reads the frames of a Python stack trace, 'File "x.py", line 3, in f', innermost last.
#include "compiler/frontend/pt2/SourceLine.h"

#include "compiler/frontend/pt2/OpTable.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

struct Frame {
  StringRef file;
  unsigned line = 0;
};

/// The innermost frame outside of PyTorch; else the innermost.
Frame frameOf(StringRef trace) {
  Frame last, own;
  SmallVector<StringRef> lines;
  trace.split(lines, '\n');
  for (StringRef line : lines) {
    line = line.ltrim();
    if (!line.consume_front("File \"")) {
      continue;
    }
    Frame frame;
    std::tie(frame.file, line) = line.split('"');
    if (!line.consume_front(", line ") ||
        line.take_while(llvm::isDigit).getAsInteger(10, frame.line)) {
      continue;
    }
    last = frame;
    bool isPyTorch = frame.file.contains("/torch/") || frame.file.starts_with("torch/") ||
                     frame.file.starts_with("<");
    if (!isPyTorch) {
      own = frame;
    }
  }
  return own.file.empty() ? last : own;
}

} // namespace

std::string nameOf(const Node &node) {
  return node.modules.empty() ? node.name : node.modules + "/" + node.name;
}

std::string sourceOf(const Node &node) {
  Frame frame = frameOf(node.stackTrace);
  return frame.file.empty() ? "" : (frame.file + ":" + Twine(frame.line)).str();
}

Location locationOf(const Node &node, MLIRContext *context) {
  SmallVector<Location> parts = {NameLoc::get(StringAttr::get(context, nameOf(node)))};
  Frame frame = frameOf(node.stackTrace);
  if (!frame.file.empty()) {
    parts.push_back(FileLineColLoc::get(context, frame.file, frame.line, 0));
  }
  return FusedLoc::get(context, parts, StringAttr::get(context, parseTarget(node.target).name));
}

} // namespace tenon::pt2
