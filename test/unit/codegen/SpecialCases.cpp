// One kernel computes all ops of a type at once, so that a hundred ops take a dozen compilations.
#include "test/unit/codegen/SpecialCases.h"

#include "compiler/graph/Shape.h"
#include "compiler/reference/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "support/Check.h"
#include "test/unit/codegen/RegionCheck.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen {
namespace {

using Strings = std::vector<std::string>;
using Numbers = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Rounded to the type they are used in: those past its range become infinite.
Numbers floatSpecials(bool withHuge) {
  Numbers numbers = {0,     -0.0,    1,      -1,    0.5,     -0.5,  1.5,    -1.5,  2.5,
                     -2.5,  kInf,    -kInf,  kNan,  1e-3,    -1e-3, 30,     -30,   88.9,
                     -104,  127.5,   -129.2, 300.7, 1e-7,    -1e-7, 6e-8,   1e-40, -1e-40,
                     1e-45, 32768.5, -32769, 65504, 65535.5, 70000, 1048577};
  if (withHuge) {
    numbers.insert(numbers.end(),
                   {2147483648.0, -2147483649.0, 4294967296.0, 1e19, -1e19, 3.4e38, -3.4e38});
  }
  return numbers;
}

/// The ends of an integer type and what lies around zero; unsigned types have the ends of 0.
Numbers integerSpecials(unsigned bits, bool isUnsigned) {
  double top = std::ldexp(1, isUnsigned ? bits : bits - 1);
  Numbers numbers = {0, 1, 2, 3, 5, 7, 31, 64, 100, top - 1, top - 2, top / 2};
  if (!isUnsigned) {
    numbers.insert(numbers.end(), {-1, -2, -3, -7, -100, -top, 1 - top});
  }
  return numbers;
}

reference::Tensor tensorOf(const Numbers &numbers, DType dtype, llvm::ArrayRef<int64_t> dims) {
  reference::Tensor wide = *reference::Tensor::create(DType::F64, dims);
  for (int64_t i = 0; i < wide.count(); ++i) {
    wide.as<double>()[i] = numbers[i % numbers.size()];
  }
  return *reference::convert(wide, dtype);
}

/// A kernel of statements over inputs; each statement gives one result.
class KernelText {
public:
  KernelText(std::string name, std::string strategy)
      : name(std::move(name)), strategy(std::move(strategy)) {}

  void input(const std::string &type, reference::Tensor tensor) {
    signature += (inputs.empty() ? "%a" : ", %b") + (": " + type);
    inputs.push_back(std::move(tensor));
  }
  void result(const std::string &statement, const std::string &type) {
    std::string number = std::to_string(count++);
    body += "%r" + number + " = " + statement + "\n";
    values += (count > 1 ? ", %r" : "%r") + number;
    types += (count > 1 ? ", " : "") + type;
  }

  SpecialCase finish() {
    SpecialCase made{name,
                     cpu::kernelText(strategy, "(" + signature + ") -> (" + types + ")",
                                     body + "return " + values + " : " + types),
                     std::move(inputs),
                     {}};
    MLIRContext context;
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(made.text, ParserConfig(&context));
    TENON_CHECK(module, "the text of a case parses");
    reference::Interpreter interpreter(nullptr);
    func::FuncOp function = module->lookupSymbol<func::FuncOp>("kernel");
    Result<Tensors> results = interpreter.evaluate(function.getBody(), made.inputs, {});
    if (!results) {
      llvm::errs() << name << ": " << results.status().message() << "\n";
    }
    TENON_CHECK(results, "the reference evaluates a case");
    made.results = std::move(*results);
    return made;
  }

private:
  using Tensors = std::vector<reference::Tensor>;
  std::string name, strategy, signature, body, values, types;
  int count = 0;
  Tensors inputs;
};

std::string tensorType(const std::string &dims, const std::string &element) {
  return "tensor<" + dims + element + ">";
}

struct ElementType {
  std::string name;
  DType dtype;
  unsigned bits;
  bool isUnsigned = false;
};

const ElementType kFloats[] = {{"f32", DType::F32, 32},
                               {"f64", DType::F64, 64},
                               {"f16", DType::F16, 16},
                               {"bf16", DType::BF16, 16}};
const ElementType kIntegers[] = {
    {"i8", DType::I8, 8},           {"i32", DType::I32, 32},        {"i64", DType::I64, 64},
    {"ui8", DType::U8, 8, true},    {"ui16", DType::U16, 16, true}, {"ui32", DType::U32, 32, true},
    {"ui64", DType::U64, 64, true},
};

/// `dims` is "17x", or "" for rank 0.
SpecialCase floatUnary(const ElementType &type, const std::string &dims, int64_t count) {
  llvm::SmallVector<int64_t> shape;
  if (!dims.empty()) {
    shape.push_back(count);
  }
  std::string tensor = tensorType(dims, type.name);
  KernelText kernel("unary " + tensor, "elementwise");
  kernel.input(tensor, tensorOf(floatSpecials(true), type.dtype, shape));
  kernel.input(tensor, tensorOf(floatSpecials(false), type.dtype, shape));
  for (const char *op :
       {"abs",   "neg",   "exp",  "log",  "sqrt",    "rsqrt", "reciprocal", "asin",    "acos",
        "atan",  "sinh",  "cosh", "tanh", "asinh",   "acosh", "atanh",      "erf",     "ceil",
        "floor", "round", "sign", "relu", "sigmoid", "silu",  "gelu",       "softplus"}) {
    kernel.result(std::string("tn.") + op + " %a : " + tensor, tensor);
  }
  // The angle of huge numbers counts as 0 (MathFormulas.h).
  for (const char *op : {"sin", "cos"}) {
    kernel.result(std::string("tn.") + op + " %b : " + tensor, tensor);
  }
  for (const char *op :
       {"gelu %a {approximate}", "leaky_relu %a {alpha = 0.1 : f64}", "elu %a {alpha = 0.7 : f64}",
        "hard_sigmoid %a {alpha = 0.2 : f64, beta = 0.5 : f64}",
        "clamp %a {lo = -1.0 : f64, hi = 2.0 : f64}",
        "clamp %a {lo = 2.0 : f64, hi = 1.0 : f64}"}) {
    kernel.result(std::string("tn.") + op + " : " + tensor, tensor);
  }
  std::string flags = tensorType(dims, "i1");
  for (const char *op : {"is_nan %a", "is_inf %a {positive = true, negative = false}",
                         "is_inf %a {positive = true, negative = true}"}) {
    kernel.result(std::string("tn.") + op + " : (" + tensor + ") -> " + flags, flags);
  }
  for (const char *to : {"i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"}) {
    std::string target = tensorType(dims, to);
    kernel.result("tn.cast %a : (" + tensor + ") -> " + target, target);
  }
  return kernel.finish();
}

/// Two operands, each with each.
SpecialCase pairs(const std::string &name, const ElementType &type, const Numbers &a,
                  const Numbers &b, const Strings &ops) {
  int64_t rows = a.size(), columns = b.size();
  std::string left = tensorType(std::to_string(rows) + "x1x", type.name);
  std::string right = tensorType(std::to_string(columns) + "x", type.name);
  std::string dims = std::to_string(rows) + "x" + std::to_string(columns) + "x";
  KernelText kernel(name + " of " + type.name, "elementwise");
  kernel.input(left, tensorOf(a, type.dtype, {rows, 1}));
  kernel.input(right, tensorOf(b, type.dtype, {columns}));
  for (const std::string &op : ops) {
    std::string result = tensorType(dims, op.rfind("compare", 0) == 0 ? "i1" : type.name);
    bool isCompare = op.rfind("compare", 0) == 0;
    std::string operands = isCompare ? " %a " + op.substr(7) + " %b" : " %a, %b";
    size_t space = op.find(' ');
    std::string mnemonic = isCompare ? "compare" : op.substr(0, space);
    std::string attributes =
        isCompare || space == std::string::npos ? "" : " " + op.substr(space + 1);
    kernel.result("tn." + mnemonic + operands + attributes + " : (" + left + ", " + right +
                      ") -> " + result,
                  result);
  }
  return kernel.finish();
}

Numbers without(Numbers numbers, const Numbers &dropped) {
  llvm::erase_if(numbers, [&](double number) { return llvm::is_contained(dropped, number); });
  return numbers;
}

const Strings kCompares = {"compare<eq>", "compare<ne>", "compare<lt>",
                           "compare<le>", "compare<gt>", "compare<ge>"};

Strings with(Strings list, const Strings &more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

SpecialCase integerUnary(const ElementType &type) {
  Numbers numbers = integerSpecials(type.bits, type.isUnsigned);
  std::string tensor = tensorType(std::to_string(numbers.size()) + "x", type.name);
  KernelText kernel("unary " + tensor, "elementwise");
  kernel.input(tensor, tensorOf(numbers, type.dtype, {int64_t(numbers.size())}));
  for (const char *op : {"abs %a", "neg %a", "sign %a", "relu %a", "not %a",
                         "clamp %a {lo = -1.0 : f64, hi = 2.0 : f64}"}) {
    kernel.result(std::string("tn.") + op + " : " + tensor, tensor);
  }
  for (const char *to : {"i1", "i8", "i32", "i64", "ui8", "ui32", "f32", "f16", "f64"}) {
    if (to != type.name) {
      std::string target = tensorType(std::to_string(numbers.size()) + "x", to);
      kernel.result("tn.cast %a : (" + tensor + ") -> " + target, target);
    }
  }
  return kernel.finish();
}

/// Rows of 19 with what a sum, a maximum and an exponential have to survive.
reference::Tensor specialRows(DType dtype) {
  const double edges[][2] = {{-kInf, -kInf}, {kInf, 1},    {-kInf, 2}, {kInf, -kInf},  {kNan, 1},
                             {1, kNan},      {kNan, kInf}, {0, -0.0},  {65504, 65504}, {5, 5}};
  reference::Tensor wide = *reference::Tensor::create(DType::F64, {10, 19});
  for (int64_t i = 0; i < wide.count(); ++i) {
    // The odd one stands in the strip, in its tail, and first.
    int64_t row = i / 19, column = i % 19;
    bool isOdd = column == (row * 7) % 19;
    wide.as<double>()[i] = edges[row][isOdd ? 0 : 1];
  }
  return *reference::convert(wide, dtype);
}

void addRows(std::vector<SpecialCase> &cases, const ElementType &type) {
  std::string x = tensorType("10x19x", type.name), row = tensorType("10x", type.name);
  std::string places = tensorType("10x", "i64");
  auto add = [&](const std::string &op, const std::string &result) {
    KernelText kernel(op + " of " + type.name, "single");
    kernel.input(x, specialRows(type.dtype));
    kernel.result("tn." + op + " : (" + x + ") -> " + result, result);
    cases.push_back(kernel.finish());
  };
  for (const char *kind : {"sum", "mean", "max", "min"}) {
    add(std::string("reduce <") + kind + "> %a {axes = array<i64: 1>, keepdims = false}", row);
  }
  for (const char *which : {"largest = true, lastIndex = false", "largest = true, lastIndex = true",
                            "largest = false, lastIndex = true"}) {
    add(std::string("arg_reduce %a {axis = 1 : i64, keepdims = false, ") + which + "}", places);
  }
  for (const char *log : {"", ", log"}) {
    KernelText kernel("softmax of " + type.name + log, "rows");
    kernel.input(x, specialRows(type.dtype));
    kernel.result(std::string("tn.softmax %a {axis = 1 : i64") + log + "} : " + x, x);
    cases.push_back(kernel.finish());
  }
}

} // namespace

std::vector<SpecialCase> specialCases() {
  std::vector<SpecialCase> cases;
  const Strings arithmetic = {"add", "sub", "mul", "max", "min"};
  for (const ElementType &type : kFloats) {
    Numbers all = floatSpecials(true);
    cases.push_back(floatUnary(type, std::to_string(all.size()) + "x", all.size()));
    Strings ops = with(arithmetic, with(kCompares, {"div", "mod {fmod}", "mod"}));
    cases.push_back(pairs("pairs", type, all, all, ops));
    Numbers few = {0, -0.0, 1, -1, 0.5, 2, -2, 3, -3, kInf, -kInf, kNan};
    cases.push_back(pairs("powers", type, few, few, {"pow"}));
  }
  for (const char *dims : {"", "1x", "3x", "17x"}) {
    cases.push_back(floatUnary(kFloats[0], dims, dims[0] ? std::atoi(dims) : 1));
  }
  for (const ElementType &type : kIntegers) {
    Numbers all = integerSpecials(type.bits, type.isUnsigned);
    double least = -std::ldexp(1, type.bits - 1);
    cases.push_back(integerUnary(type));
    Strings ops = with(arithmetic, with(kCompares, {"and", "or", "xor"}));
    cases.push_back(pairs("pairs", type, all, all,
                          type.isUnsigned ? with(ops, {"shift", "shift {left}"}) : ops));
    cases.push_back(pairs("quotients", type, without(all, {least}), without(all, {0}),
                          {"div", "mod", "mod {fmod}"}));
    cases.push_back(pairs("remainders", type, {least}, without(all, {0}), {"mod"}));
    cases.push_back(pairs("powers", type, without(all, {0}), all, {"pow"}));
  }
  addRows(cases, kFloats[0]);
  addRows(cases, kFloats[2]);
  return cases;
}

} // namespace tenon::codegen
