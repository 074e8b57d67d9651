// The state of one import: scopes of named values, the module being built, symbols and gaps.
// Internal to the importer; Onnx.h is the interface.
#pragma once

#include "compiler/frontend/common/ModuleBuilder.h"
#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/frontend/onnx/OpTable.h"
#include "compiler/frontend/onnx/wire/TensorData.h"

#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tenon::onnx {

/// A named value of the model. Constants and known integers become operations only when used as
/// data. Sequences and optionals exist during the import only.
struct ImportedValue {
  enum class Kind : uint8_t { Tensor, Sequence, Optional };
  Kind kind = Kind::Tensor;
  std::vector<ImportedValue> elements; ///< of a sequence; of an optional none or one
  mlir::RankedTensorType type;         ///< null: no tensor, or one that depends on a gap
  mlir::Value value;                   ///< null until it is needed as data
  std::optional<Sizes> sizes;
  std::shared_ptr<TensorData> constant;
  bool isEvaluated = false; ///< whether it was tried to compute the elements from constants
  std::string_view name;

  bool isContainer() const { return kind != Kind::Tensor; }
  /// Whether it depends on a gap; no element of a container does.
  bool isPoisoned() const { return !isContainer() && !type; }
};

/// The values visible in a graph, and those of the graphs around it.
struct Scope {
  Scope *outer = nullptr;
  std::unordered_map<std::string_view, ImportedValue> values;
  /// Names that nodes further down define.
  std::unordered_set<std::string_view> defined;
  /// Inputs of a function that its call leaves out.
  std::unordered_set<std::string_view> absent;
  std::unordered_map<std::string_view, const ValueInfo *> stated;

  ImportedValue *find(std::string_view name);
  bool definesLater(std::string_view name) const;
  bool isAbsent(std::string_view name) const;
};

/// A call of a function of the model that is being inlined.
struct FunctionFrame {
  const FunctionFrame *outer = nullptr;
  const Function *function = nullptr;
  std::unordered_map<std::string_view, const Attribute *> attributes;
  const std::vector<OpsetImport> *opsets = nullptr;
};

/// The name of a node; nodes without one are known by their first output.
std::string_view nameOf(const Node &node);

/// An error at a node, which it names.
Status nodeError(ErrorId id, const Node &node, std::string_view what, std::string_view hint);

/// What an import assumes, and finds out that it must not: then it is to be repeated.
struct ImportChoices {
  std::set<const Graph *> ruledOut; ///< branches that are not imported
  /// Whether Squeeze without axes takes a batch that may be 1 for one; else it stays, 2 or more.
  bool batchIsOne = true;
  bool hasSqueezedBatch = false; ///< set by the import
};

class Importer : public ModuleBuilder {
public:
  Importer(const Model &model, const ImportOptions &options, ExternalFiles &files,
           mlir::MLIRContext &context, tn::WeightStore &store, ImportChoices &choices);

  Result<ImportResult> run();

  //===--- For NodeContext and the operators ---===//
  /// Imports the nodes of a subgraph or function body in place.
  Status importNodes(const std::vector<Node> &nodes, Scope &scope, const FunctionFrame *frame);
  Status importInitializers(const Graph &graph, Scope &scope);
  /// `values`: of the tensor, or of the sparse tensor.
  Status defineConstant(Scope &scope, std::string_view name, const Tensor &values,
                        const SparseTensor *sparse = nullptr);
  /// The value as an operand: emits a constant, weight or sizes operation at the first use.
  mlir::Value materialize(ImportedValue &value, mlir::Location location);
  /// Computes the elements of a small value, if constants alone decide them.
  void evaluate(ImportedValue &value);
  void addGap(NodeContext &node, const llvm::Twine &why, const llvm::Twine &workaround);
  size_t numGaps() const { return gaps.size(); }
  void setError(Status status);
  /// The error that ends the import, which it no longer does.
  Status takeError() { return std::exchange(pending, Status::ok()); }
  ImportChoices &choices;
  /// Nodes of bodies that loops have repeated so far.
  uint64_t unrolledNodes = 0;
  const Function *findFunction(const Node &node) const;
  Status importFunction(NodeContext &call, const Function &function);
  mlir::Type elementType(DataType type);
  mlir::RankedTensorType typeOf(const TensorData &data);
  /// Dims as the model states them; a parameter becomes its symbol, an unknown one gives null.
  tn::Dims statedDims(const ValueInfo &info);
  using ModuleBuilder::bringUpToDate;
  /// The same for a value of a scope.
  void bringUpToDate(ImportedValue &value);

private:
  Status checkModel();
  Status importInputs(Scope &scope);
  Status importInput(const ValueInfo &info, Scope &scope);
  Status fixInput(const FixedInput &fixed, mlir::Type element, ImportedValue &value);
  /// `rank`: of an input whose shape the model does not state.
  Result<tn::Dims> inputDims(const ValueInfo &info, std::optional<size_t> rank);
  Result<mlir::AffineExpr> inputDim(const ValueInfo &info, size_t index,
                                    const DimOverride *override);
  Status importNode(const Node &node, Scope &scope, const FunctionFrame *frame);
  void runOperator(NodeContext &node, bool poisoned);
  void runKernel(NodeContext &node, bool poisoned);
  Status resolveInputs(NodeContext &node, bool &poisoned);
  Status defineOutputs(NodeContext &node);
  Status finishOutputs(Scope &scope);
  void storeMetadata();
  Status checkOverridesUsed() const;
  int64_t opsetOf(std::string_view domain, const FunctionFrame *frame) const;
  mlir::Value materializeConstant(const std::shared_ptr<TensorData> &constant, llvm::StringRef name,
                                  mlir::Location location);

  const Model &model;
  const ImportOptions &options;
  ExternalFiles &files;
  OpTable table;
  std::vector<Gap> gaps;
  /// A tensor of the model is read once, however often a loop or function repeats its node.
  std::unordered_map<const Tensor *, std::shared_ptr<TensorData>> loaded;
  /// One store entry a constant, however often it is used.
  std::unordered_map<std::shared_ptr<TensorData>, std::string> weightIds;
  Status pending;
  /// What an input's dim_param means, fixed by the first override or by default.
  std::unordered_map<std::string, mlir::AffineExpr> parameters;
  /// By domain, name and overload.
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, const Function *>
      functions;
  unsigned functionDepth = 0;
  uint64_t inlinedNodes = 0;
};

} // namespace tenon::onnx
