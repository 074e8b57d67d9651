// Loads the tensors of a case with the importer's own reader, imports, evaluates and compares.
// Relies on ONNX's tolerances: relative 1e-3, absolute 1e-7.
#include "test/unit/frontend/NodeSuite.h"

#include "compiler/frontend/onnx/Importer.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "compiler/frontend/onnx/wire/Wire.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"
#include "test/unit/frontend/ModelBytes.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace tenon::onnx {
namespace {

namespace fs = std::filesystem;
using Outcome = CaseResult::Outcome;

/// A tensor file kept mapped beside its decoded data.
struct TestTensor {
  MappedFile file;
  TensorData data;
};

Result<TestTensor> loadTestTensor(const fs::path &path) {
  TestTensor result;
  TENON_ASSIGN(result.file, MappedFile::open(path.string()));
  TENON_ASSIGN(onnx::Tensor tensor, readTensor(result.file.bytes()));
  if (!toDType(tensor.type)) {
    return Status::error(ErrorId::OnnxTensorType, "strings are not tested");
  }
  ExternalFiles files("");
  TENON_ASSIGN(result.data, loadTensor(tensor, files));
  if (result.data.bits < 8) {
    result.data.owned = unpackedBytes(result.data);
    result.data.view = result.data.owned;
  }
  return result;
}

Result<std::vector<TestTensor>> loadAll(const fs::path &folder, const std::string &prefix) {
  std::vector<TestTensor> tensors;
  for (unsigned i = 0; fs::exists(folder / strCat(prefix, "_", i, ".pb")); ++i) {
    TENON_ASSIGN(TestTensor tensor, loadTestTensor(folder / strCat(prefix, "_", i, ".pb")));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// The model's inputs that are no initializers, in order.
std::vector<ValueInfo> realInputs(const Model &model) {
  std::set<std::string_view> initialized;
  for (const onnx::Tensor &tensor : model.graph.initializers) {
    initialized.insert(tensor.name);
  }
  std::vector<ValueInfo> inputs;
  for (const ValueInfo &info : model.graph.inputs) {
    if (!initialized.count(info.name)) {
      inputs.push_back(info);
    }
  }
  return inputs;
}

/// The suite of opset 17 stores bfloat16 data as uint16.
void readAsBFloat16(TensorData &data) {
  if (data.type == DType::U16) {
    data.type = DType::BF16;
  }
}

bool mayDecideShapes(const TensorData &data) {
  bool isReal = data.type == DType::F32 || data.type == DType::F64 || data.type == DType::F16;
  return data.dims.size() <= 1 && data.elements <= 16 &&
         (!isReal || data.dims.size() == 0 || data.elements <= 8);
}

std::string compare(const std::vector<TestTensor> &expected,
                    const std::vector<reference::Tensor> &actual) {
  if (expected.size() != actual.size()) {
    return strCat("gives ", actual.size(), " results instead of ", expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const TensorData &data = expected[i].data;
    llvm::ArrayRef<char> bytes(reinterpret_cast<const char *>(data.view.data()), data.view.size());
    Result<reference::Tensor> wanted = reference::Tensor::copy(data.type, data.dims, bytes);
    if (!wanted) {
      return wanted.status().toString();
    }
    bool isReal = data.type == DType::F32 || data.type == DType::F64 || data.type == DType::F16 ||
                  data.type == DType::BF16;
    reference::Tolerance tolerance =
        isReal ? reference::Tolerance{1e-3, 1e-7} : reference::Tolerance{};
    reference::Comparison comparison = reference::compareTensors(*wanted, actual[i], tolerance);
    if (!comparison.equal()) {
      return strCat("result ", i, ": ",
                    comparison.mismatch.empty() ? comparison.text(wanted->dims())
                                                : comparison.mismatch);
    }
  }
  return "";
}

//===--- Symbolic variants ---===//

/// Copies a field of a message as it is.
void copyField(const Field &field, test::Message &out) {
  if (field.type == WireType::Varint) {
    out.varint(field.number, field.varint);
  } else {
    out.text(field.number, field.bytes);
  }
}

/// Rewrites a message field by field: `onField` gives the replacement or none to copy.
template <typename OnField> test::Message rewrite(std::string_view body, const OnField &onField) {
  test::Message out;
  WireReader reader(body, body);
  Field field;
  for (Result<bool> more = reader.next(field); more && *more; more = reader.next(field)) {
    std::optional<test::Message> replacement = onField(field);
    if (replacement) {
      out.add(field.number, *replacement);
    } else {
      copyField(field, out);
    }
  }
  return out;
}

test::Message symbolicInput(const ValueInfo &info, Shapes shapes) {
  std::vector<test::Dim> dims;
  for (const Dimension &dim : info.dims) {
    bool isSymbol = shapes == Shapes::Symbolic || (dims.empty() && info.dims.size() > 1);
    if (dim.kind == Dimension::Kind::Parameter) {
      dims.push_back(std::string(dim.parameter));
    } else if (isSymbol && dim.value > 1 && dim.value <= 65536) {
      dims.push_back(strCat("d", dim.value));
    } else {
      dims.push_back(dim.value);
    }
  }
  return test::valueInfo(info.name, static_cast<int>(info.type), dims);
}

/// The model with symbolic inputs and results without stated shapes.
std::string symbolicModel(std::string_view model, const std::vector<ValueInfo> &inputs,
                          Shapes shapes) {
  auto inGraph = [&](const Field &field) -> std::optional<test::Message> {
    std::string_view name;
    if (field.number < 11 || field.number > 13) {
      return std::nullopt;
    }
    WireReader reader(field.bytes, field.bytes);
    Field first;
    for (Result<bool> more = reader.next(first); more && *more && name.empty();
         more = reader.next(first)) {
      name = first.number == 1 ? first.bytes : name;
    }
    if (field.number > 11) {
      return test::Message().text(1, name);
    }
    for (const ValueInfo &info : inputs) {
      if (info.name == name && info.kind == ValueInfo::Kind::Tensor) {
        return symbolicInput(info, shapes);
      }
    }
    return std::nullopt;
  };
  return rewrite(model,
                 [&](const Field &field) -> std::optional<test::Message> {
                   return field.number == 7 ? std::optional(rewrite(field.bytes, inGraph))
                                            : std::nullopt;
                 })
      .str();
}

struct Case {
  MappedFile file;
  std::string symbolic;
  Bytes model;
  std::vector<std::string> names;
  std::vector<TestTensor> inputs;
  std::vector<TestTensor> outputs;
};

/// Imports with the inputs in `fixed` as constants and evaluates; none if there are gaps.
CaseResult runWith(const Case &test, const std::vector<bool> &fixed) {
  CaseResult result;
  mlir::MLIRContext context;
  tn::WeightStore store;
  ImportOptions options;
  std::vector<reference::Tensor> inputs;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const TensorData &data = test.inputs[i].data;
    if (fixed[i]) {
      options.fixed.push_back({test.names[i], data.type, data.dims, data.view});
      continue;
    }
    llvm::ArrayRef<char> bytes(reinterpret_cast<const char *>(data.view.data()), data.view.size());
    Result<reference::Tensor> tensor = reference::Tensor::copy(data.type, data.dims, bytes);
    if (!tensor) {
      result.detail = tensor.status().toString(); // a type that the reference cannot hold
      result.outcome = Outcome::Gap;
      return result;
    }
    inputs.push_back(*tensor);
  }
  Result<ImportResult> imported = importOnnx(test.model, "", options, context, store);
  if (!imported) {
    result.detail = imported.status().toString();
    return result;
  }
  if (!imported->gaps.empty()) {
    result.outcome = Outcome::Gap;
    result.detail = strCat(imported->gaps[0].opType, ": ", imported->gaps[0].why);
    return result;
  }
  mlir::func::FuncOp main = imported->module->lookupSymbol<mlir::func::FuncOp>("main");
  reference::Interpreter interpreter(&store);
  Result<std::vector<reference::Tensor>> outputs = interpreter.evaluate(main, inputs);
  result.detail = outputs ? compare(test.outputs, *outputs) : outputs.status().toString();
  result.outcome = result.detail.empty() ? Outcome::Passed : Outcome::Wrong;
  return result;
}

Result<Case> loadCase(const fs::path &folder, Shapes shapes) {
  Case test;
  TENON_ASSIGN(test.file, MappedFile::open((folder / "model.onnx").string()));
  test.model = test.file.bytes();
  TENON_ASSIGN(Model model, readModel(test.model));
  std::vector<ValueInfo> declared = realInputs(model);
  TENON_ASSIGN(test.inputs, loadAll(folder / "test_data_set_0", "input"));
  TENON_ASSIGN(test.outputs, loadAll(folder / "test_data_set_0", "output"));
  for (size_t i = 0; i < declared.size(); ++i) {
    test.names.emplace_back(declared[i].name);
    if (i < test.inputs.size() && declared[i].type == DataType::BFloat16) {
      readAsBFloat16(test.inputs[i].data);
    }
  }
  for (size_t i = 0; i < test.outputs.size() && i < model.graph.outputs.size(); ++i) {
    if (model.graph.outputs[i].type == DataType::BFloat16) {
      readAsBFloat16(test.outputs[i].data);
    }
  }
  if (shapes != Shapes::Static) {
    test.symbolic = symbolicModel(
        {reinterpret_cast<const char *>(test.model.data()), test.model.size()}, declared, shapes);
  }
  if (test.names.size() < test.inputs.size()) {
    return Status::error(ErrorId::BadArgument, "has more test inputs than the model");
  }
  return test;
}

} // namespace

CaseResult runCase(const std::string &folder, Shapes shapes) {
  CaseResult result;
  Result<Case> test = loadCase(folder, shapes);
  if (!test) {
    result.detail = test.status().toString();
    result.outcome = Outcome::Gap;
  } else {
    if (shapes != Shapes::Static) {
      test->model = std::as_bytes(std::span(test->symbolic.data(), test->symbolic.size()));
    }
    std::vector<bool> fixed(test->inputs.size(), false);
    result = runWith(*test, fixed);
    if (result.outcome == Outcome::Gap) {
      for (size_t i = 0; i < fixed.size(); ++i) {
        fixed[i] = mayDecideShapes(test->inputs[i].data);
      }
      result = runWith(*test, fixed);
    }
  }
  result.name = fs::path(folder).filename().string();
  return result;
}

std::string importCase(const std::string &folder, const std::function<void(Model &)> &edit) {
  Result<Case> test = loadCase(folder, Shapes::Static);
  Result<Model> model = test ? readModel(test->model) : test.takeStatus();
  if (!model) {
    return model.status().toString();
  }
  edit(*model);
  ImportOptions options;
  for (size_t i = 1; i < test->inputs.size(); ++i) {
    const TensorData &data = test->inputs[i].data;
    if (mayDecideShapes(data)) {
      options.fixed.push_back({test->names[i], data.type, data.dims, data.view});
    }
  }
  mlir::MLIRContext context;
  context.loadDialect<tn::TnDialect, mlir::func::FuncDialect>();
  tn::WeightStore store;
  ExternalFiles files("");
  ImportChoices choices;
  Result<ImportResult> imported = Importer(*model, options, files, context, store, choices).run();
  if (!imported) {
    return imported.status().toString();
  }
  if (!imported->gaps.empty()) {
    return "gap: " + imported->gaps[0].why;
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  imported->module->print(stream);
  return text;
}

std::vector<std::string> listCases(const std::string &root) {
  std::vector<std::string> cases;
  for (const char *group : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    if (!fs::is_directory(fs::path(root) / group)) {
      continue;
    }
    for (const fs::directory_entry &entry : fs::directory_iterator(fs::path(root) / group)) {
      if (fs::exists(entry.path() / "model.onnx")) {
        cases.push_back(entry.path().string());
      }
    }
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

} // namespace tenon::onnx
