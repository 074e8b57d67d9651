// Relies on tn::parseDim for what an expression is.
#include "compiler/kernels/Names.h"

#include "compiler/graph/DimText.h"
#include "mlir/IR/MLIRContext.h"
#include "support/text/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tenon::kernels {
namespace {

bool isWord(llvm::StringRef text) {
  return !text.empty() && (llvm::isAlpha(text.front()) || text.front() == '_') &&
         llvm::all_of(text, [](char letter) { return llvm::isAlnum(letter) || letter == '_'; });
}

class Names {
public:
  explicit Names(Kernel &described)
      : kernel(described), context(mlir::MLIRContext::Threading::DISABLED) {
    for (const std::vector<Port> *ports : {&kernel.inputs, &kernel.outputs}) {
      for (const Port &port : *ports) {
        named.push_back(port.name);
        passed.push_back(port.name);
      }
    }
    for (const AttributeRule &rule : kernel.attributes) {
      named.push_back(rule.name);
      for (size_t i = 0; i < rule.elements(); ++i) {
        passed.push_back(rule.elementName(i));
      }
    }
  }

  DescriptionFault check() {
    for (auto name = named.begin(); name != named.end(); ++name) {
      if (!isWord(*name) || std::find(named.begin(), name, *name) != name) {
        return {"inputs", strCat("the name '", *name, "' is not a word, or is given twice")};
      }
    }
    for (const Port &port : kernel.inputs) {
      for (const std::string &dim : port.dims) {
        if (isWord(dim) && !llvm::is_contained(kernel.sizes, dim)) {
          kernel.sizes.push_back(dim);
          symbols.push_back({dim, 0, kMostOfSize});
        }
      }
    }
    for (const SizeRange &range : kernel.ranges) {
      if (!llvm::is_contained(kernel.sizes, range.name)) {
        return {"sizes", strCat("'", range.name, "' is not a dim of an input")};
      }
    }
    for (const std::string &text : kernel.grid) {
      parse("grid", text);
    }
    for (const std::string &text : kernel.arguments) {
      bool isOfCpu = text == "begin" || text == "end" || text == "scratch";
      if (!llvm::is_contained(passed, text) && !(isOfCpu && kernel.backend == kCpu)) {
        parse("arguments", text);
      }
    }
    if (!kernel.scratchBytes.empty()) {
      parse("scratch_bytes", kernel.scratchBytes);
    }
    checkPorts();
    return fault;
  }

private:
  /// Each dim, and that the size that `rows` names is the first of ports alone.
  void checkPorts() {
    size_t rows = llvm::find(kernel.sizes, kernel.rows) - kernel.sizes.begin();
    bool isFirstOfInput = false, isRight = rows < kernel.sizes.size();
    for (const auto &[key, ports] :
         {std::pair("inputs", &kernel.inputs), std::pair("outputs", &kernel.outputs)}) {
      for (const Port &port : *ports) {
        bool isFirst = !port.dims.empty() && port.dims[0] == kernel.rows;
        isFirstOfInput = isFirstOfInput || isFirst;
        isRight = isRight && (isFirst || ports == &kernel.inputs);
        for (size_t i = 0; i < port.dims.size(); ++i) {
          mlir::AffineExpr dim = parse(key, port.dims[i]);
          isRight = isRight && dim && (!dim.isFunctionOfSymbol(rows) || (isFirst && i == 0));
        }
      }
    }
    if (!kernel.rows.empty() && !(isRight && isFirstOfInput) && fault.what.empty()) {
      fault = {"rows", strCat("'", kernel.rows,
                              "' is not a size that is the first dim of an input and of each "
                              "output, and in no other dim")};
    }
  }

  mlir::AffineExpr parse(const char *key, const std::string &text) {
    mlir::AffineExpr value = tn::parseDim(text, symbols, &context);
    if (!value && fault.what.empty()) {
      fault = {key, strCat("'", text,
                           "' is not an expression over the sizes of inputs: + - * mod, "
                           "floor(a / 2), ceil(a / 2), min, max")};
    }
    return value;
  }

  Kernel &kernel;
  mlir::MLIRContext context;
  std::vector<std::string> named;
  std::vector<std::string> passed; ///< what arguments may name beside sizes
  std::vector<tn::Symbol> symbols;
  DescriptionFault fault;
};

} // namespace

DescriptionFault nameSizes(Kernel &kernel) { return Names(kernel).check(); }

} // namespace tenon::kernels
