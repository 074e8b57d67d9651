// Variables, which live from run to run: state of a session. A handle names one; another graph,
// which runs once, says what they begin with.
#include "compiler/frontend/tflite/Node.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::tflite {
namespace {

std::string nameOf(const fb::VarHandleOptions &options) {
  std::string container = options.container() ? options.container()->str() : "";
  std::string name = options.name() ? options.name()->str() : "";
  return container.empty() ? name : container + "/" + name;
}

void handle(Node &c) {
  const fb::VarHandleOptions *options = c.options(c.op.options_as_VarHandleOptions());
  if (!options || c.numOutputs() != 1) {
    return;
  }
  std::string name = nameOf(*options);
  if (name.empty()) {
    return c.error(ErrorId::OnnxBadName, "its variable has no name");
  }
  c.importer().known(c.op.outputs()->Get(0)) = {{}, {}, name};
}

/// Of the first operand's handle; null after an error. It is state once it has a type.
Variable *variableOf(Node &c, const fb::Tensor &like) {
  std::string name = c.has(0) ? c.importer().known(c.op.inputs()->Get(0)).variable : "";
  RankedTensorType type = storedType(&c.importer().context, like);
  if (name.empty() || !type) {
    c.gap("its operand does not name a variable, or the type of that is not supported");
    return nullptr;
  }
  Variable &variable = c.importer().variables[name];
  if (!variable.now) {
    if (variable.initial && variable.initial.getType() != type) {
      c.error(ErrorId::OnnxBadNode, "its variable begins with another type");
      return nullptr;
    }
    variable.now = c.importer().addState(name, type);
    variable.now = variable.initial ? c.add(variable.now, variable.initial) : variable.now;
  }
  if (!variable.now || variable.now.getType() != type) {
    c.error(ErrorId::OnnxBadNode, "its variable has another type elsewhere");
    return nullptr;
  }
  return &variable;
}

void read(Node &c) {
  if (c.numOutputs() == 1) {
    if (Variable *variable = variableOf(c, c.output(0))) {
      c.setStored(0, variable->now);
    }
  }
}

void assign(Node &c) {
  mlir::Value value = c.stored(1);
  if (Variable *variable = value ? variableOf(c, c.input(1)) : nullptr) {
    variable->now = value;
  }
}

/// What the graph that runs once assigns: constants only.
void callOnce(Node &c) {
  const fb::CallOnceOptions *options = c.options(c.op.options_as_CallOnceOptions());
  const fb::Model &model = c.importer().model();
  if (!options) {
    return;
  }
  if (options->subgraph() < 0 ||
      static_cast<size_t>(options->subgraph()) >= model.subgraphs()->size()) {
    return c.error(ErrorId::OnnxBadAttribute, "it calls a graph that is not there");
  }
  const fb::SubGraph &graph = *model.subgraphs()->Get(static_cast<uint32_t>(options->subgraph()));
  std::map<int32_t, std::string> handles;
  forEach(graph.operators(), [&](const fb::Operator *op) {
    std::string kind = operatorName(*model.operator_codes()->Get(op->code()));
    bool isHandle =
        kind == "VAR_HANDLE" && op->options_as_VarHandleOptions() && sizeOf(op->outputs()) == 1;
    if (isHandle) {
      handles[op->outputs()->Get(0)] = nameOf(*op->options_as_VarHandleOptions());
      return;
    }
    bool isAssignment = kind == "ASSIGN_VARIABLE" && sizeOf(op->inputs()) == 2 &&
                        op->inputs()->Get(1) >= 0 && handles.contains(op->inputs()->Get(0));
    const fb::Tensor *tensor =
        isAssignment ? graph.tensors()->Get(static_cast<uint32_t>(op->inputs()->Get(1))) : nullptr;
    if (!tensor || !isConstant(model, *tensor)) {
      return c.gap("the graph that it calls does more than to assign constants to variables");
    }
    Variable &variable = c.importer().variables[handles[op->inputs()->Get(0)]];
    RankedTensorType type = storedType(&c.importer().context, *tensor);
    Bytes data = dataOf(model, *tensor);
    if (llvm::all_of(data, [](std::byte byte) { return byte == std::byte{0}; })) {
      return;
    }
    if (variable.now || !type || !isa<IntegerType>(type.getElementType()) ||
        type.getElementType().isInteger(1)) {
      return c.gap(
          "a variable begins with other numbers than zeros or integers, or is read before");
    }
    variable.initial = c.importer().constantValue(type, data, c.label() + ".initial");
  });
}

} // namespace

llvm::ArrayRef<OpRow> variableRows() {
  static constexpr OpRow kRows[] = {
      {"ASSIGN_VARIABLE", 2, assign},
      {"CALL_ONCE", 0, callOnce},
      {"READ_VARIABLE", 1, read},
      {"VAR_HANDLE", 0, handle},
  };
  return kRows;
}

} // namespace tenon::tflite
