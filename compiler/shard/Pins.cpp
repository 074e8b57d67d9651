// Reads pins and matches their names.
#include "compiler/shard/Pins.h"

#include "compiler/graph/NodeOrigin.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::shard {
namespace {

constexpr std::pair<std::string_view, Pin::Kind> kPinKinds[] = {
    {"column", Pin::Kind::Column}, {"row", Pin::Kind::Row}, {"replicate", Pin::Kind::Replicate}};

bool matches(StringRef pattern, StringRef name) {
  auto [head, tail] = pattern.split('*');
  if (!pattern.contains('*')) {
    return pattern == name;
  }
  if (!name.consume_front(head)) {
    return false;
  }
  for (size_t skipped = 0; skipped <= name.size(); ++skipped) {
    if (matches(tail, name.drop_front(skipped))) {
      return true;
    }
  }
  return false;
}

} // namespace

std::string_view nameOf(Pin::Kind kind) { return kPinKinds[static_cast<size_t>(kind)].first; }

Result<Pin> parsePin(std::string_view text) {
  size_t equals = text.rfind('=');
  for (const auto &[name, kind] : kPinKinds) {
    if (equals != std::string_view::npos && equals > 0 && text.substr(equals + 1) == name) {
      return Pin{std::string(text.substr(0, equals)), kind};
    }
  }
  return Status::error(ErrorId::BadArgument,
                       strCat("--pin ", text, ": a node and how to cut it are expected"),
                       "write NODE=column, NODE=row or NODE=replicate");
}

const Pin *pinOf(ArrayRef<Pin> pins, Operation *op) {
  const Pin *found = nullptr;
  for (const std::string &name : tn::originOf(op->getLoc()).names) {
    for (const Pin &pin : pins) {
      found = matches(pin.node, name) ? &pin : found;
    }
  }
  return found;
}

} // namespace tenon::shard
