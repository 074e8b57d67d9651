// Parses, evaluates and compares for the tests of the reference interpreter.
// Relies on same-type operations being written with one type and all others with a function type.
#include "ReferenceFixture.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

namespace tenon::reference {

Tensor make(DType dtype, std::vector<int64_t> dims, const std::vector<double> &values) {
  Result<Tensor> wide = Tensor::copy(
      DType::F64, dims,
      llvm::ArrayRef(reinterpret_cast<const char *>(values.data()), values.size() * 8));
  EXPECT_TRUE(wide) << wide.status().toString();
  Result<Tensor> tensor = convert(*wide, dtype);
  EXPECT_TRUE(tensor);
  return *tensor;
}

Tensor random(DType dtype, std::vector<int64_t> dims, unsigned seed) {
  std::mt19937 engine(seed);
  bool isInteger = !isFloat(dtype);
  std::uniform_real_distribution<double> reals(-1, 1);
  std::uniform_int_distribution<int> integers(0, 100);
  std::vector<double> values(productOf(dims));
  for (double &value : values) {
    value = isInteger ? integers(engine) : reals(engine);
  }
  return make(dtype, dims, values);
}

std::vector<double> valuesOf(const Tensor &tensor) {
  Result<Tensor> wide = convert(tensor, DType::F64);
  EXPECT_TRUE(wide);
  return {wide->as<double>(), wide->as<double>() + wide->count()};
}

ReferenceTest::ReferenceTest() { context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>(); }

mlir::OwningOpRef<mlir::ModuleOp> ReferenceTest::parse(const std::string &text) {
  message.clear();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    message += diagnostic.str() + "\n";
    return mlir::success();
  });
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << message << text;
  return module;
}

Result<std::vector<Tensor>> ReferenceTest::run(mlir::ModuleOp module, llvm::ArrayRef<Tensor> inputs,
                                               Precision precision) {
  Interpreter interpreter(&weights, {precision, 2});
  return interpreter.evaluate(*module.getOps<mlir::func::FuncOp>().begin(), inputs);
}

static std::string typeText(const Tensor &tensor) {
  std::string element(nameOf(tensor.dtype()));
  if (element == "bool") {
    element = "i1";
  } else if (element[0] == 'u') {
    element = "ui" + element.substr(1);
  }
  std::string text = "tensor<";
  for (int64_t dim : tensor.dims()) {
    text += std::to_string(dim) + "x";
  }
  return text + element + ">";
}

std::string ReferenceTest::functionOf(const std::string &op, llvm::ArrayRef<Tensor> inputs,
                                      const std::string &result) {
  std::string arguments, types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string type = typeText(inputs[i]);
    arguments += (i ? ", %" : "%") + std::to_string(i) + ": " + type;
    types += (i ? ", " : "") + type;
  }
  bool sameType = result.empty();
  std::string returned = sameType ? typeText(inputs[0]) : result;
  std::string signature = sameType ? returned : "(" + types + ") -> " + result;
  return "func.func @f(" + arguments + ") -> " + returned + " {\n%y = " + op + " : " + signature +
         "\nreturn %y : " + returned + "\n}";
}

Tensor ReferenceTest::evaluate(const std::string &op, llvm::ArrayRef<Tensor> inputs,
                               const std::string &result, Precision precision) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(functionOf(op, inputs, result));
  if (!module) {
    return Tensor();
  }
  Result<std::vector<Tensor>> results = run(*module, inputs, precision);
  EXPECT_TRUE(results) << op << ": " << results.status().toString();
  return results ? results->front() : Tensor();
}

ErrorId ReferenceTest::errorOf(const std::string &op, llvm::ArrayRef<Tensor> inputs,
                               const std::string &result) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(functionOf(op, inputs, result));
  return module ? run(*module, inputs).status().id() : ErrorId::None;
}

void expectTensor(const Tensor &actual, std::vector<int64_t> dims,
                  const std::vector<double> &values, double tolerance) {
  EXPECT_EQ(actual.dims(), llvm::ArrayRef<int64_t>(dims));
  std::vector<double> found = valuesOf(actual);
  ASSERT_EQ(found.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << "at " << i << ": " << found[i];
    } else if (tolerance == 0 || std::isinf(values[i])) {
      EXPECT_EQ(found[i], values[i]) << "at " << i;
    } else {
      EXPECT_NEAR(found[i], values[i], tolerance) << "at " << i;
    }
  }
}

} // namespace tenon::reference
