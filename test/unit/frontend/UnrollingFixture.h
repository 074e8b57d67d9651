// Imports models with bodies that are unrolled, and evaluates what came out of them.
#pragma once

#include "compiler/reference/Interpreter.h"
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

namespace tenon::onnx::test {

using Floats = std::vector<float>;
using Messages = std::vector<Message>;

inline Message named(std::string_view name) { return Message().text(1, name); }

inline Messages namedAll(const std::vector<std::string> &names) {
  Messages infos;
  for (const std::string &name : names) {
    infos.push_back(named(name));
  }
  return infos;
}

inline Message body(const Messages &nodes, const std::vector<std::string> &inputs,
                    const std::vector<std::string> &outputs, const Messages &initializers = {}) {
  return attrGraph("body", graph({nodes, namedAll(inputs), namedAll(outputs), initializers}));
}

inline Message integer(std::string_view name, int64_t value) {
  return rawTensor(name, kInt64, {}, bytesOf<int64_t>({value}));
}
inline Message boolean(std::string_view name, bool value) {
  return rawTensor(name, kBool, {}, std::string(1, value ? '\1' : '\0'));
}

class UnrollingFixture : public ImportFixture {
protected:
  Result<std::vector<reference::Tensor>> run(std::string bytes,
                                             const std::vector<reference::Tensor> &inputs,
                                             const ImportOptions &options = {}) {
    TENON_ASSIGN(ImportResult imported, import(std::move(bytes), options));
    if (!imported.module) {
      return Status::error(ErrorId::InternalError,
                           imported.gaps[0].opType + ": " + imported.gaps[0].why);
    }
    reference::Interpreter interpreter(&store);
    return interpreter.evaluate(imported.module->lookupSymbol<mlir::func::FuncOp>("main"), inputs);
  }

  template <typename T>
  static reference::Tensor tensor(DType dtype, const std::vector<int64_t> &dims,
                                  const std::vector<T> &values) {
    return *reference::Tensor::copy(
        dtype, dims,
        llvm::ArrayRef(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)));
  }
  static reference::Tensor floatsOf(const std::vector<int64_t> &dims, const Floats &values) {
    return tensor(DType::F32, dims, values);
  }

  void expectFloats(const Result<std::vector<reference::Tensor>> &results,
                    const std::vector<Floats> &expected) {
    ASSERT_TRUE(results) << results.status().toString();
    ASSERT_EQ(results->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const reference::Tensor &y = (*results)[i];
      EXPECT_EQ(Floats(y.as<float>(), y.as<float>() + y.count()), expected[i]) << "output " << i;
    }
  }

  /// A model over x of f32[2].
  static std::string over(const Messages &nodes, const std::vector<std::string> &outputs,
                          const Messages &initializers, const Messages &moreInputs = {}) {
    Messages inputs = {valueInfo("x", kFloat, {2})};
    inputs.insert(inputs.end(), moreInputs.begin(), moreInputs.end());
    return model(graph({nodes, inputs, namedAll(outputs), initializers}));
  }
};

} // namespace tenon::onnx::test
