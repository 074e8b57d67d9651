// What an operator's import function sees: the node's inputs, attributes and outputs, and the
// helpers of Emitter.
#pragma once

#include "compiler/frontend/common/Emitter.h"
#include "compiler/frontend/onnx/Importer.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

namespace tenon::onnx {

class NodeContext : public Emitter {
public:
  NodeContext(Importer &importer, const Node &node, Scope &scope, const FunctionFrame *frame,
              int64_t opset);

  const Node &node;
  const int64_t opset;

  //===--- Inputs ---===//
  unsigned numInputs() const { return static_cast<unsigned>(inputs.size()); }
  unsigned numOutputs() const { return static_cast<unsigned>(node.outputs.size()); }
  bool has(unsigned i) const { return i < inputs.size() && inputs[i]; }
  bool wantsOutput(unsigned i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }
  mlir::RankedTensorType type(unsigned i) const { return inputs[i]->type; }
  mlir::Type element(unsigned i) const { return type(i).getElementType(); }
  tn::Dims dims(unsigned i) const { return tn::getDims(type(i)); }
  int64_t rank(unsigned i) const { return type(i).getRank(); }
  /// The input as a value of the graph; null if it is absent.
  mlir::Value value(unsigned i);
  /// The input with all that is known of it, which may be a sequence or an optional.
  ImportedValue &input(unsigned i);
  /// True if the input is absent or a tensor; else an error.
  bool requireTensor(unsigned i);
  /// The elements of an integer value that are known now.
  std::optional<Sizes> sizesOf(ImportedValue &value);
  /// The elements of an integer input that are known now; none also if it is absent.
  std::optional<Sizes> sizes(unsigned i);
  std::optional<llvm::SmallVector<int64_t>> integers(unsigned i);
  /// The elements of a constant float input.
  std::optional<llvm::SmallVector<double>> reals(unsigned i);
  /// As `sizes`, but those that data decides within bounds become symbols, and where there is no
  /// bound, there is a gap named after what the input decides.
  std::optional<Sizes> requireSizes(unsigned i, llvm::StringRef what);
  std::optional<llvm::SmallVector<int64_t>> requireIntegers(unsigned i, llvm::StringRef what);

  //===--- Attributes ---===//
  const Attribute *attribute(llvm::StringRef name, AttributeType type);
  int64_t integer(llvm::StringRef name, int64_t otherwise);
  double real(llvm::StringRef name, double otherwise);
  std::string text(llvm::StringRef name, llvm::StringRef otherwise);
  /// A text attribute that is one of these; the first without it.
  std::string choice(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> values);
  /// The element type whose number in TensorProto an attribute gives, `otherwise` for 0 or without
  /// it; null after a gap for one that `tn` does not have.
  mlir::Type elementNamed(llvm::StringRef name, mlir::Type otherwise);
  llvm::SmallVector<int64_t> integerList(llvm::StringRef name,
                                         llvm::ArrayRef<int64_t> otherwise = {});
  /// The elements of a list of floats, or of the tensor that `name`_as_tensor or `name` itself is;
  /// none without one.
  llvm::SmallVector<double> numberList(llvm::StringRef name);
  bool hasAttribute(llvm::StringRef name) { return find(name) != nullptr; }
  /// An axis attribute in [-rank, rank), made non-negative.
  int64_t axis(llvm::StringRef name, int64_t otherwise, int64_t rank);
  int64_t normalizeAxis(int64_t axis, int64_t rank);
  /// Axes from an attribute (opset < `inputSince`) or from input `i`; sorted, distinct, not
  /// negative.
  std::optional<llvm::SmallVector<int64_t>> axes(int64_t inputSince, unsigned i, int64_t rank);

  //===--- What is read ---===//
  /// Attributes and inputs that have no effect on the results in this form of the operator. Every
  /// other one must be read: the importer makes a gap of what is given and was not.
  void ignore(llvm::StringRef attribute) { find(attribute); }
  void ignoreInput(unsigned i) { reads.inputs.insert(i); }
  /// "attribute 'x'" or "input 1 ('x')" that was neither read nor ignored; empty without one.
  std::string unread() const;

  //===--- Failing ---===//
  void gap(const llvm::Twine &why, const llvm::Twine &workaround = "") override;
  void error(ErrorId id, const llvm::Twine &what) override;
  /// An error that onnx.checker finds too, by the operator's schema.
  void schemaError(ErrorId id, const llvm::Twine &what);
  std::string label() const override;

  //===--- Outputs ---===//
  void setOutput(unsigned i, mlir::Value value);
  void setOutput(unsigned i, const Sizes &sizes, mlir::Type element);
  /// The output is a float32 constant, known to operators that ask for its elements.
  void setOutput(unsigned i, llvm::ArrayRef<float> values, llvm::ArrayRef<int64_t> shape);
  /// The output is a value that was imported elsewhere; one that depends on a gap stays poisoned.
  void setOutput(unsigned i, const ImportedValue &value);
  /// The output is the input itself, with all that is known of it.
  void forward(unsigned output, unsigned input);
  /// The output was defined in the scope by Importer::defineConstant.
  void takeDefined(unsigned i);
  /// The dims that the model states for an output, if all are known; for sizes that only data
  /// decides.
  std::optional<tn::Dims> statedDims(unsigned i);
  /// The number of dims that the model states for an output.
  std::optional<size_t> statedRank(unsigned i) const;
  Importer &importer() { return owner; }
  Scope &scope() { return where; }
  /// The enclosing function call, whose attributes the node's may refer to.
  const FunctionFrame *frame() const { return call; }
  const Attribute *find(llvm::StringRef name);
  /// As `find`, for those that do not import the node with it.
  const Attribute *lookup(llvm::StringRef name) const;

private:
  friend class Importer;
  void fail(ErrorId id, const llvm::Twine &what, std::string hint);

  void bringUpToDate() override;

  Importer &owner;
  Scope &where;
  const FunctionFrame *call;
  llvm::SmallVector<ImportedValue *> inputs;
  llvm::SmallVector<ImportedValue> outputs;
  struct Reads {
    llvm::SmallDenseSet<unsigned> inputs;
    llvm::StringSet<> attributes;
  };
  Reads reads;
  bool isPoisoned = false; ///< an output depends on a gap inside of the node
};

} // namespace tenon::onnx
