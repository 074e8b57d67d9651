// Imports models made in memory and looks at what came out.
#pragma once

#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

namespace tenon::onnx::test {

class ImportFixture : public testing::Test {
protected:
  /// Imports; the bytes are kept for as long as the test runs.
  Result<ImportResult> import(std::string bytes, const ImportOptions &options = {}) {
    models.push_back(std::make_unique<std::string>(std::move(bytes)));
    return importOnnx(std::as_bytes(std::span(models.back()->data(), models.back()->size())),
                      folder, options, context, store);
  }
  /// The error that an import gives; None if it gives none.
  ErrorId errorOf(std::string bytes, const ImportOptions &options = {}) {
    Result<ImportResult> result = import(std::move(bytes), options);
    return result ? ErrorId::None : result.status().id();
  }
  /// The text of the imported module; the error or the first gap if there is none.
  std::string moduleOf(std::string bytes, const ImportOptions &options = {}) {
    Result<ImportResult> result = import(std::move(bytes), options);
    if (!result) {
      return result.status().toString();
    }
    if (!result->gaps.empty()) {
      return "gap: " + result->gaps[0].opType + ": " + result->gaps[0].why;
    }
    std::string text;
    llvm::raw_string_ostream stream(text);
    result->module->print(stream);
    return text;
  }

  mlir::MLIRContext context;
  tn::WeightStore store;
  std::string folder;

private:
  std::vector<std::unique_ptr<std::string>> models;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define EXPECT_HAS_NOT(text, part) EXPECT_EQ((text).find(part), std::string::npos) << (text)

} // namespace tenon::onnx::test
