// Reads the names from what MLIR has registered.
#include "compiler/rewrite/Names.h"

#include "mlir/IR/MLIRContext.h"

using namespace mlir;

namespace tenon::rewrite {
namespace {

constexpr StringLiteral kWeight = "weight", kConstant = "constant";

/// What stands only inside other operations, and what dispatch and layouts make later.
bool isInner(StringRef name) {
  return name.ends_with(".region") || name.ends_with(".yield") || name.ends_with(".pack") ||
         name.ends_with(".unpack");
}

} // namespace

std::vector<std::string> operationNames(MLIRContext *context) {
  std::vector<std::string> names;
  for (RegisteredOperationName name : context->getRegisteredOperationsByDialect("tn")) {
    if (!isInner(name.getStringRef())) {
      StringRef own = name.stripDialect();
      names.push_back(own == kWeight ? kConstant.str() : own.str());
    }
  }
  return names;
}

std::vector<std::string> attributeNames(OperationName name) {
  std::vector<std::string> names;
  for (StringAttr attribute : name.getAttributeNames()) {
    if (attribute.getValue() != "operandSegmentSizes") {
      names.push_back(attribute.str());
    }
  }
  return names;
}

OperationName operationName(StringRef op, MLIRContext *context) {
  return OperationName(("tn." + (op == kConstant ? StringRef(kWeight) : op)).str(), context);
}

} // namespace tenon::rewrite
