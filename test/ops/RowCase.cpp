// Builds the module of a cell and runs its regions as machine code inside the interpreter's walk,
// so that what stays outside of regions (packing, reshapes) is evaluated as the plan would.
#include "test/ops/RowCase.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/dispatch/Dispatch.h"
#include "compiler/graph/Shape.h"
#include "compiler/opt/Constants.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/SelectKernels.h"
#include "engine/KernelAbi.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "support/text/Text.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/SelectedText.h"
#include "test/unit/codegen/foreign/Emulation.h"

#include <cctype>
#include <cmath>

using namespace mlir;

namespace tenon::ops {
namespace {

/// Not a multiple of any vector, so that every loop has a rest.
constexpr int64_t kSize = 19;
constexpr int64_t kLargestSize = 64;

Status fault(const std::string &text) { return Status::error(ErrorId::InternalError, text); }

std::string replaceWord(const std::string &text, char word, const std::string &by) {
  auto isPart = [&](size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    bool isWord = text[i] == word && !isPart(i + 1) && (i == 0 || !isPart(i - 1));
    result += isWord ? by : std::string(1, text[i]);
  }
  return result;
}

/// Uniform numbers, the same for the same seed.
class Generator {
public:
  explicit Generator(uint64_t seed) : state(seed) {}
  double next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return double(state >> 40) / double(1 << 24);
  }

private:
  uint64_t state;
};

double element(Generator &generator, const Operand &operand, Type type) {
  double uniform = generator.next();
  if (type.isInteger(1)) {
    return operand.low == operand.high ? operand.low : uniform < 0.5;
  }
  double low = operand.low, high = operand.high;
  if (high == kEverything) {
    const double special[] = {std::nan(""), kEverything, -kEverything, 0};
    if (isa<FloatType>(type) && uniform < 0.2) {
      return special[int(uniform * 20)];
    }
    low = -3, high = 3;
  }
  if (isa<FloatType>(type)) {
    return low + generator.next() * (high - low);
  }
  low = std::ceil(type.isUnsignedInteger() ? std::max(low, 0.0) : low);
  return low + std::floor(generator.next() * (std::floor(high) - low + 1));
}

Result<reference::Tensor> seeded(const Operand &operand, Type type, ArrayRef<int64_t> dims,
                                 uint64_t seed) {
  Generator generator(seed);
  TENON_ASSIGN(reference::Tensor wide, reference::Tensor::create(DType::F64, dims));
  for (int64_t i = 0; i < wide.count(); ++i) {
    wide.as<double>()[i] = element(generator, operand, type);
  }
  return reference::convert(wide, *reference::dtypeOf(type));
}

} // namespace

const char *nameOf(Form form) {
  return form == Form::Static ? "static" : form == Form::Dynamic ? "dynamic" : "constant";
}

RowCase::RowCase() : context(MLIRContext::Threading::DISABLED) {
  context.loadDialect<tn::TnDialect, func::FuncDialect>();
  context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    diagnostics += diagnostic.str() + "\n";
    return success();
  });
}

Result<std::unique_ptr<RowCase>> RowCase::make(const OpRow &row, const std::string &dtype,
                                               Form form) {
  std::unique_ptr<RowCase> made(new RowCase);
  made->form = form;
  TENON_TRY(made->build(row, dtype));
  return made;
}

std::string RowCase::inForm(std::string text, const std::string &dtype) const {
  text = replaceWord(text, 'T', dtype);
  if (form == Form::Dynamic) {
    return text;
  }
  for (size_t at = text.find("[N]"); at != std::string::npos; at = text.find("[N]")) {
    text.erase(at, 3);
  }
  return replaceWord(text, 'N', std::to_string(kSize));
}

Result<RankedTensorType> RowCase::typeOf(const Operand &operand, const std::string &dtype) {
  std::string text = strCat("affine_map<()[N] -> (", operand.dims, ")>");
  AffineMapAttr dims =
      dyn_cast_or_null<AffineMapAttr>(parseAttribute(inForm(text, dtype), &context));
  Type type = parseType(inForm(operand.element, dtype), &context);
  if (!dims || !type) {
    return fault(strCat("no tensor: ", operand.dims, " of ", operand.element, ": ", diagnostics));
  }
  tn::Dims simple;
  for (AffineExpr dim : dims.getValue().getResults()) {
    simple.push_back(tn::simplify(dim));
  }
  return tn::makeTensor(simple, type);
}

Status RowCase::build(const OpRow &row, const std::string &dtype) {
  OpBuilder builder(&context);
  Location location = builder.getUnknownLoc();
  module = ModuleOp::create(location);
  OperationState state(location, row.op);
  for (const Operand &result : row.results) {
    TENON_ASSIGN(RankedTensorType type, typeOf(result, dtype));
    state.addTypes(type);
  }
  DictionaryAttr attributes = dyn_cast_or_null<DictionaryAttr>(
      parseAttribute("{" + inForm(row.attributes, dtype) + "}", &context));
  if (!attributes) {
    return fault("the attributes do not parse: " + diagnostics);
  }
  state.addAttributes(attributes.getValue());

  builder.setInsertionPointToEnd(module->getBody());
  func::FuncOp function =
      func::FuncOp::create(builder, location, "main", builder.getFunctionType({}, state.types));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  SmallVector<int64_t> symbols;
  if (form == Form::Dynamic) {
    symbols.push_back(kSize);
    tn::SymbolList list;
    list.add("N", 1, kLargestSize);
    list.store(*module);
  }
  auto addInput = [&](RankedTensorType type, reference::Tensor tensor) {
    inputs.push_back(std::move(tensor));
    return entry->addArgument(type, location);
  };
  opt::Constants constants(weights);
  for (auto [i, operand] : llvm::enumerate(row.operands)) {
    TENON_ASSIGN(RankedTensorType type, typeOf(operand, dtype));
    SmallVector<int64_t> dims;
    for (AffineExpr dim : tn::getDims(type)) {
      dims.push_back(*tn::evaluate(dim, symbols));
    }
    TENON_ASSIGN(reference::Tensor tensor, seeded(operand, type.getElementType(), dims, i + 1));
    bool isConstant = form == Form::Constant && (i > 0 || row.operands.size() == 1);
    if (isConstant) {
      std::vector<char> bytes(tensor.bytes(), tensor.bytes() + tensor.byteCount());
      state.addOperands(
          constants.make(builder, location, type, std::move(bytes), "operand", "test"));
    } else {
      state.addOperands(addInput(type, std::move(tensor)));
    }
  }
  if (form == Form::Dynamic) {
    // An input that determines N, whatever the operands are.
    Operand size{"N", "i8"};
    TENON_ASSIGN(RankedTensorType type, typeOf(size, dtype));
    TENON_ASSIGN(reference::Tensor tensor, seeded(size, type.getElementType(), symbols, 0));
    addInput(type, std::move(tensor));
  }
  Operation *op = builder.create(state);
  func::ReturnOp::create(builder, location, op->getResults());
  function.setFunctionType(
      builder.getFunctionType(entry->getArgumentTypes(), op->getResultTypes()));
  return succeeded(verify(*module)) ? Status::ok() : fault("not valid: " + diagnostics);
}

Result<Tensors> RowCase::runReference() {
  reference::Interpreter interpreter(&weights, {.threads = 1});
  return interpreter.evaluate(module->lookupSymbol<func::FuncOp>("main"), inputs);
}

Status RowCase::prepare(const target::Target &profile) {
  dispatch::Records records;
  pipeline::CodeTarget code = profile.isGpu()
                                  ? pipeline::cudaTarget(profile)
                                  : pipeline::cpuTarget(profile.level, profile, /*guarded=*/false);
  pipeline::WantedKernels none;
  pipeline::KernelSelector selector(code, none);
  if ((form == Form::Constant && failed(opt::optimize(*module, weights, {}))) ||
      failed(selector.formRegions(*module, profile, records)) || failed(verify(*module))) {
    return fault("no regions: " + diagnostics);
  }
  return selector.select(*module, records);
}

/// On the lowest level, whose accesses are like those of the others, no access leaves its buffer.
Status RowCase::checkAccesses(const std::string &text, engine::CpuLevel level,
                              ArrayRef<reference::Tensor> operands, const Tensors &results,
                              const std::vector<int64_t> &symbols) {
  if (level != codegen::cpu::machineLevels().front() || codegen::cpu::isEmulated(level)) {
    return Status::ok();
  }
  llvm::Expected<codegen::cpu::Kernel> guarded = codegen::cpu::compileRegion(
      codegen::selectedForCpu(text), "guarded", level, /*guarded=*/true);
  if (!guarded) {
    return fault(llvm::toString(guarded.takeError()) + " in\n" + text);
  }
  int32_t status = codegen::cpu::guardedStatus(*guarded, level, operands, results, symbols);
  return status == TENON_KERNEL_OUT_OF_BOUNDS ? fault("reaches outside of its buffers:\n" + text)
                                              : Status::ok();
}

Result<Tensors> RowCase::runCompiled(engine::CpuLevel level) {
  return runRegions([&](const codegen::RegionSource &source, ArrayRef<reference::Tensor> operands,
                        const Tensors &results,
                        const std::vector<int64_t> &symbols) -> Result<Tensors> {
    TENON_TRY(checkAccesses(source.text, level, operands, results, symbols));
    return runRegionCode(source, level, operands, results, symbols);
  });
}

Result<Tensors> RowCase::runRegions(const RegionRunner &runner) {
  return walkRegions(module->lookupSymbol<func::FuncOp>("main"), weights, inputs, runner,
                     regionCount);
}

} // namespace tenon::ops
