// The words of a plan.
#include "engine/Plan.h"

namespace tenon::engine {

const char *nameOf(InstructionKind kind) {
  switch (kind) {
  case InstructionKind::Launch:
    return "launch";
  case InstructionKind::Call:
    return "call";
  case InstructionKind::Copy:
    return "copy";
  case InstructionKind::Size:
    return "size";
  case InstructionKind::Collective:
    return "collective";
  case InstructionKind::Return:
    return "return";
  }
  return "unknown"; // of a plan that was not validated
}

const char *nameOf(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce ? "all-reduce" : "all-gather";
}

} // namespace tenon::engine
