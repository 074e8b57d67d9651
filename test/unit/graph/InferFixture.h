// What the tests of shape rules share: parsing with the diagnostics kept, and inferring again.
// Relies on the parser, which verifies what it reads.
#pragma once

#include "compiler/graph/Shape.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace tenon::tn {

using namespace mlir;

/// Gives a single result a name.
inline std::string named(const std::string &op) { return op[0] == '%' ? op : "%y = " + op; }

struct InferTest : testing::Test {
  MLIRContext context;
  std::string message;

  InferTest() { context.loadDialect<TnDialect, func::FuncDialect>(); }

  OwningOpRef<ModuleOp> parse(std::string text) {
    // {A} is a symbolic tensor [s0, 3, 8], {B} [s0, s1], so that tables stay readable.
    auto replace = [&](const std::string &name, const std::string &type) {
      for (size_t at; (at = text.find(name)) != std::string::npos;) {
        text.replace(at, name.size(), type);
      }
    };
    replace("{A}", "tensor<?x3x8xf32, #tn.shape<()[s0] -> (s0, 3, 8)>>");
    replace("{B}", "tensor<?x?xf32, #tn.shape<()[s0, s1] -> (s0, s1)>>");
    message.clear();
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      message += diagnostic.str() + "\n";
      return success();
    });
    return parseSourceString<ModuleOp>(text, &context);
  }

  /// Parses one operation on arguments %0, %1, ... of these types and infers its result again.
  std::string inferred(const std::string &arguments, const std::string &op) {
    OwningOpRef<ModuleOp> module =
        parse("func.func @f(" + arguments + ") { " + named(op) + "\nreturn }");
    if (!module) {
      return "refused: " + message;
    }
    Operation *parsed = &*(*module->getOps<func::FuncOp>().begin()).getBody().front().begin();
    InferTypeOpInterface rule = dyn_cast<InferTypeOpInterface>(parsed);
    SmallVector<Type> types;
    if (!rule) {
      types.assign(parsed->result_type_begin(), parsed->result_type_end());
    } else if (failed(rule.inferReturnTypes(&context, parsed->getLoc(), parsed->getOperands(),
                                            parsed->getDiscardableAttrDictionary(),
                                            parsed->getPropertiesStorage(), parsed->getRegions(),
                                            types))) {
      return "failure";
    }
    std::string text;
    llvm::raw_string_ostream(text) << types[0];
    return text;
  }
};

} // namespace tenon::tn
