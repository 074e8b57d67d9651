// Nodes in the model's order, so that chains are followed; what is still read then becomes an
// initializer.
#include "compiler/quant/FoldConstants.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/quant/ConstantOps.h"
#include "compiler/quant/InnerModel.h"

#include <algorithm>

namespace tenon::quant {
namespace {

using std::string_view;

/// Results of more elements than this many times the largest operand stay computed, above a size.
constexpr size_t kGrowth = 4, kSmall = 1 << 16;

/// A Transpose of stored weights before a product stays: both forms of a matrix are one constant.
bool isKeptTransposed(const Graph &graph, size_t node, bool isStored) {
  constexpr string_view kProducts[] = {"MatMul", "Gemm"};
  const std::vector<Use> &uses = graph.uses(graph.node(node).outputs.front());
  return isStored && graph.isOp(node, "Transpose") &&
         std::any_of(uses.begin(), uses.end(),
                     [&](const Use &use) { return graph.isOneOf(use.node, kProducts); });
}

/// Moves a stored tensor, whose elements stay what they are: it is found by its name there, and the
/// results of some such nodes are names too, as of equal parameters.
bool isNamed(const Graph &graph, size_t node) {
  constexpr string_view kMoving[] = {"Identity", "Unsqueeze", "Squeeze",   "Reshape",
                                     "Flatten",  "Slice",     "Transpose", "Gather"};
  onnx::DataType type = graph.typeOf(graph.node(node).inputs.front());
  bool isInteger = type == onnx::DataType::Int64 || type == onnx::DataType::Int32;
  return graph.isOneOf(node, kMoving) && !isInteger;
}

class ConstantFolder {
public:
  ConstantFolder(const onnx::Model &model, const Graph &graph, ModelEdit &edit,
                 onnx::ExternalFiles &files, bool keepsNames)
      : model(model), graph(graph), edit(edit), files(files), keepsNames(keepsNames) {}

  bool run();

private:
  string_view resolved(string_view name) const {
    auto found = same.find(name);
    return found == same.end() ? name : found->second;
  }
  bool isConstant(string_view name) const {
    return name.empty() || graph.constant(resolved(name)) || made.contains(name);
  }
  bool isCandidate(size_t index) const;
  bool foldsTo(size_t index, std::vector<Folded> &results);
  void expandSparse();
  void fold(size_t index);
  void write(string_view name, const Constant &constant);
  void replace(size_t index);

  const onnx::Model &model;
  const Graph &graph;
  ModelEdit &edit;
  onnx::ExternalFiles &files;
  bool keepsNames;
  std::map<string_view, Constant> made;
  std::map<string_view, string_view> same; ///< results of Identity, and what they are
  std::set<size_t> gone;
  bool hasSparse = false;
};

bool ConstantFolder::isCandidate(size_t index) const {
  const onnx::Node &node = graph.node(index);
  bool hasGraph = std::any_of(node.attributes.begin(), node.attributes.end(),
                              [](const onnx::Attribute &a) { return a.graph != nullptr; });
  bool isKept = std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](string_view output) { return graph.isOutput(output); });
  bool isStored = node.outputs.size() == 1 && graph.constant(node.outputs.front());
  return !hasGraph && !isKept && !isStored &&
         (node.outputs.size() == 1 || graph.isOp(index, "Split")) &&
         (!node.inputs.empty() || graph.isOp(index, "Constant")) &&
         std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](string_view name) { return isConstant(name); });
}

/// All results of a node, of which none takes many times what it is made of.
bool ConstantFolder::foldsTo(size_t index, std::vector<Folded> &results) {
  const onnx::Node &node = graph.node(index);
  if (node.inputs.empty()) {
    results.push_back(loadConstant(node, files));
    return results.front().has_value();
  }
  std::map<string_view, Constant> loaded;
  std::vector<const Constant *> operands;
  size_t most = 0;
  for (string_view input : node.inputs) {
    string_view name = resolved(input);
    auto own = made.find(name);
    if (own == made.end() && !name.empty()) {
      Folded read = loadConstant(*graph.constant(name), files);
      if (!read) {
        return false;
      }
      own = loaded.insert_or_assign(name, std::move(*read)).first;
    }
    operands.push_back(name.empty() ? nullptr : &own->second);
    most = std::max(most, operands.back() ? operands.back()->size() : 0);
  }
  for (size_t i = 0; operands.front() && i < node.outputs.size(); ++i) {
    Folded result = foldNode(graph, index, operands, i);
    if (!result || result->size() > std::max(kGrowth * most, kSmall)) {
      return false;
    }
    results.push_back(std::move(result));
  }
  return operands.front() != nullptr;
}

void ConstantFolder::fold(size_t index) {
  const onnx::Node &node = graph.node(index);
  string_view output = node.outputs.front();
  string_view source = node.inputs.empty() ? "" : resolved(node.inputs.front());
  bool isStored = !source.empty() && !made.contains(source);
  if (keepsNames && isStored && isNamed(graph, index)) {
    return;
  }
  if (graph.isOp(index, "Identity") && isStored && !graph.isKept(output)) {
    same[output] = source;
    gone.insert(index);
    return;
  }
  std::vector<Folded> results;
  if (isKeptTransposed(graph, index, isStored) || !foldsTo(index, results)) {
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    made.emplace(node.outputs[i], std::move(*results[i]));
  }
  gone.insert(index);
}

void ConstantFolder::write(string_view name, const Constant &constant) {
  std::vector<int32_t> narrow(constant.ints.begin(), constant.ints.end());
  edit.addConstant(std::string(name), constant.type, constant.dims,
                   constant.isFloat()                       ? bytesOf(constant.floats)
                   : constant.type == onnx::DataType::Int32 ? bytesOf(narrow)
                                                            : bytesOf(constant.ints));
}

/// Of few elements among zeros.
void ConstantFolder::expandSparse() {
  for (const onnx::SparseTensor &sparse : model.graph.sparseInitializers) {
    Folded dense = loadConstant(sparse, files);
    if (dense && dense->isComputed()) {
      hasSparse = true;
      write(sparse.values.name, *dense);
      edit.leaveOut(sparse.values.name);
      made.emplace(sparse.values.name, std::move(*dense));
    }
  }
}

/// What is still read becomes a constant of the name that it has. Other types than those that are
/// computed with are not written, so that their nodes stay, and with them those that these read.
void ConstantFolder::replace(size_t index) {
  const onnx::Node &node = graph.node(index);
  auto isRead = [&](string_view name) {
    const std::vector<Use> &uses = graph.uses(name);
    return graph.isKept(name) || std::any_of(uses.begin(), uses.end(), [&](const Use &use) {
             return !gone.contains(use.node);
           });
  };
  bool stays = std::any_of(node.outputs.begin(), node.outputs.end(), [&](string_view name) {
    auto own = made.find(name);
    return own != made.end() && !own->second.isComputed() && isRead(name);
  });
  if (stays) {
    gone.erase(index);
    return;
  }
  edit.drop(index);
  for (string_view name : node.outputs) {
    auto own = made.find(name);
    for (const Use &use : graph.uses(name)) {
      if (own == made.end() && !gone.contains(use.node)) {
        edit.setOperand(use, std::string(same.at(name)));
        edit.keep(same.at(name));
      }
    }
    if (own != made.end() && isRead(name)) {
      write(name, own->second);
    }
  }
}

bool ConstantFolder::run() {
  expandSparse();
  for (size_t i = 0; i < graph.all().size(); ++i) {
    if (isCandidate(i)) {
      fold(i);
    }
  }
  for (size_t i = graph.all().size(); i-- > 0;) {
    if (gone.contains(i)) {
      replace(i);
    }
  }
  return hasSparse || !gone.empty();
}

} // namespace

bool foldConstants(const onnx::Model &model, const Graph &graph, ModelEdit &edit,
                   onnx::ExternalFiles &files, bool keepsNames) {
  return ConstantFolder(model, graph, edit, files, keepsNames).run();
}

Result<bool> foldInside(const onnx::Model &model, const Graph &graph, ModelEdit &edit,
                        onnx::ExternalFiles &files) {
  bool changes = false;
  for (size_t i = 0; i < graph.all().size(); ++i) {
    for (const onnx::Attribute &attribute : graph.node(i).attributes) {
      if (!attribute.graph) {
        continue;
      }
      TENON_ASSIGN(std::unique_ptr<InnerModel> inner, InnerModel::read(model, *attribute.graph));
      Graph own(inner->model(), &graph, i);
      ModelEdit innerEdit(inner->bytes(), inner->model(), own);
      innerEdit.writeInto(edit);
      innerEdit.keepExternal();
      bool folds = foldConstants(inner->model(), own, innerEdit, files, false);
      TENON_ASSIGN(bool foldsDeeper, foldInside(inner->model(), own, innerEdit, files));
      if (folds || foldsDeeper) {
        TENON_ASSIGN(std::string text, innerEdit.write(files, ""));
        TENON_ASSIGN(onnx::Model folded, onnx::readModel(std::as_bytes(std::span(text))));
        edit.setGraph(i, attribute.name, folded.graph);
        changes = true;
      }
    }
  }
  return changes;
}

} // namespace tenon::quant
