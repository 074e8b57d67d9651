// Compares a node with the row of its operator.
// Relies on the rows of an operator being sorted by opset.
#include "compiler/frontend/onnx/Signature.h"

using namespace llvm;

namespace tenon::onnx {
namespace {

constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();

/// The opsets of any row that have the attribute, in words; empty if none has it.
std::string otherOpsets(OpRows rows, StringRef name) {
  int64_t first = kOpen;
  int64_t last = 0;
  for (auto [i, row] : enumerate(rows)) {
    int64_t end = i + 1 < rows.size() ? rows[i + 1]->since - 1 : kOpen;
    for (const AttributeRow &attribute : row->attributes) {
      if (name == attribute.name) {
        first = std::min(first, std::max(row->since, attribute.since));
        last = std::max(last, std::min(end, attribute.until));
      }
    }
  }
  if (last == 0) {
    return "";
  }
  return (last == kOpen ? "from opset " + Twine(first) + " on"
                        : "in opsets " + Twine(first) + " to " + Twine(last))
      .str();
}

/// The known name that a misspelled one is close to; empty if none is.
StringRef nearestName(StringRef name, ArrayRef<StringRef> known) {
  StringRef nearest;
  unsigned least = 1 + static_cast<unsigned>(name.size()) / 3;
  for (StringRef candidate : known) {
    unsigned distance = name.edit_distance(candidate, true, least);
    if (distance <= least && (nearest.empty() || distance < least)) {
      nearest = candidate;
      least = distance;
    }
  }
  return nearest;
}

void unknownAttribute(NodeContext &call, StringRef name, ArrayRef<StringRef> known,
                      StringRef elsewhere) {
  StringRef nearest = nearestName(name, known);
  std::string remedy = !elsewhere.empty() ? "; it has one only " + elsewhere.str()
                       : nearest.empty()  ? ""
                                          : "; the nearest one is '" + nearest.str() + "'";
  call.schemaError(ErrorId::OnnxBadAttribute,
                   "the operator has no attribute '" + name + "' in this opset" + remedy);
}

/// Names that mean nothing to an operator: tools' own marks, which ONNX's checker lets through, and
/// the hints for memory that every operator of the first opsets had.
bool isInert(const NodeContext &call, StringRef name) {
  return name.starts_with("__") ||
         (name == "consumed_inputs" && call.opset < 6 && call.node.domain.empty());
}

void checkAttributes(NodeContext &call, OpRows rows, const OpRow &row) {
  SmallVector<StringRef> known;
  for (const AttributeRow &attribute : row.attributes) {
    if (attribute.isIn(call.opset)) {
      known.push_back(attribute.name);
    }
  }
  for (const Attribute &given : call.node.attributes) {
    StringRef name = given.name;
    if (isInert(call, name)) {
      call.ignore(name);
    } else if (!is_contained(known, name)) {
      unknownAttribute(call, name, known, otherOpsets(rows, name));
    }
  }
  for (const AttributeRow &attribute : row.attributes) {
    if (!attribute.isIn(call.opset)) {
      continue;
    }
    const Attribute *given = call.lookup(attribute.name);
    if (given && given->type != attribute.type) {
      call.schemaError(ErrorId::OnnxBadAttribute,
                       "attribute '" + Twine(attribute.name) +
                           "' has another type than the operator declares");
    } else if (!given && attribute.required) {
      call.schemaError(ErrorId::OnnxBadAttribute,
                       "attribute '" + Twine(attribute.name) + "' is missing");
    }
  }
}

void checkCounts(NodeContext &call, const OpRow &row) {
  auto fits = [](unsigned count, unsigned least, unsigned most) {
    return count >= least && (most == kMany || count <= most);
  };
  auto counted = [](unsigned least, unsigned most) {
    return most == kMany   ? Twine(least).str() + " or more"
           : least == most ? Twine(least).str()
                           : (Twine(least) + " to " + Twine(most)).str();
  };
  if (!fits(call.numInputs(), row.minInputs, row.maxInputs)) {
    call.schemaError(ErrorId::OnnxBadArity, "has " + Twine(call.numInputs()) +
                                                " inputs; in this opset the operator accepts " +
                                                counted(row.minInputs, row.maxInputs));
  }
  if (!fits(call.numOutputs(), 1, row.maxOutputs)) {
    call.schemaError(ErrorId::OnnxBadArity, "has " + Twine(call.numOutputs()) +
                                                " outputs; in this opset the operator has " +
                                                counted(1, row.maxOutputs));
  }
  for (unsigned i = 0; i < row.minInputs; ++i) {
    if (!call.has(i) && (row.optional >> i & 1) == 0) {
      call.schemaError(ErrorId::OnnxBadArity, "omits input " + Twine(i) + ", which is required");
    }
  }
}

} // namespace

void checkSignature(NodeContext &call, OpRows rows, const OpRow &row) {
  checkAttributes(call, rows, row);
  checkCounts(call, row);
}

void checkArguments(NodeContext &call, const Function &function) {
  SmallVector<StringRef> known(function.attributes.begin(), function.attributes.end());
  for (const Attribute &attribute : function.defaults) {
    known.push_back(attribute.name);
  }
  for (const Attribute &given : call.node.attributes) {
    StringRef name = given.name;
    if (!isInert(call, name) && !is_contained(known, name)) {
      unknownAttribute(call, name, known, "");
    }
  }
}

} // namespace tenon::onnx
