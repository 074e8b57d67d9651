// The state of the import of one program: scopes of named values, the module being built, symbols
// and gaps. Internal to the importer; Pt2.h is the interface.
#pragma once

#include "compiler/frontend/common/ModuleBuilder.h"
#include "compiler/frontend/pt2/GuardText.h"
#include "compiler/frontend/pt2/OpTable.h"
#include "compiler/frontend/pt2/Pt2.h"
#include "compiler/frontend/pt2/Storage.h"

#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tenon::pt2 {

using frontend::Sizes;

/// A comparison of sizes that a program asks for.
struct Claim {
  mlir::AffineExpr left;
  tn::Predicate predicate = tn::Predicate::eq;
  mlir::AffineExpr right;
};

/// The float size * scale / divisor, rounded after each.
struct ScaledSize {
  mlir::AffineExpr size;
  double scale = 1;
  int64_t divisor = 1; ///< of a size that is not scaled
};

/// What a name of the program stands for. With none of its fields set it depends on a gap.
struct Value {
  std::shared_ptr<Tensor> tensor = {};    ///< the real part of a complex one
  std::shared_ptr<Tensor> imaginary = {}; ///< of a complex tensor
  mlir::AffineExpr size = {};             ///< of an integer
  /// Of an integer that is no size, as data decides it, or of a float that sizes or data decide: a
  /// scalar of i64 or f64.
  mlir::Value number = {};
  std::optional<ScaledSize> scaled = {}; ///< what a float of sizes stands for, if it is one
  std::optional<double> real = {};       ///< of a float that is no tensor
  std::optional<bool> truth = {};        ///< of a bool that is no tensor
  std::optional<Claim> claim = {};       ///< of a bool that sizes decide
  std::shared_ptr<Graph> graph = {};

  bool isPoisoned() const {
    return !tensor && !size && !number && !real && !truth && !claim && !graph;
  }
};

using Scope = std::unordered_map<std::string, Value>;

inline constexpr const char *kSaveAgain = "save the program again with torch.export.save";
/// The state that tells whether other state has been written.
inline constexpr const char *kStarted = "started.state";

/// A region of torch.autocast; `lower` is null outside of one.
struct Autocast {
  mlir::FloatType lower;
  bool isCuda = false;
};

/// What Tenon lacks for an input, a weight or an output of the program.
frontend::Gap portGap(std::string_view kind, std::string_view name, std::string why,
                      std::string workaround);

class Importer : public frontend::ModuleBuilder {
public:
  /// `stateful`: the buffers that the program writes, as far as that is known. `takesEmpty`: sizes
  /// that the program states from 0 begin there, else at 1.
  Importer(const Program &program, const frontend::ImportOptions &options,
           mlir::MLIRContext &context, tn::WeightStore &store,
           const std::set<std::string> &stateful, bool takesEmpty);

  Result<frontend::ImportResult> run();
  /// After `run`: buffers that the program writes and that are not among the stateful ones.
  const std::set<std::string> &written() const { return writtenBuffers; }

  //===--- For Call and the operators ---===//
  /// Imports the nodes of a graph in place, with these values for its inputs, and gives its
  /// outputs.
  Result<std::vector<Value>> importGraph(const Graph &graph, const std::vector<Value> &inputs);
  void addGap(frontend::Gap gap, const llvm::Twine &workaround);
  void setError(Status status);
  /// The region of torch.autocast that what is imported next stands in; gives the one before.
  Autocast setAutocast(Autocast region) { return std::exchange(autocast, region); }
  const Autocast &autocastRegion() const { return autocast; }
  /// Whether the program states f32 of what autocast computes in 16 bits, as strict exports do.
  bool statesUntrueTypes() const { return hasUntrueTypes; }
  void noteUntrueTypes() { hasUntrueTypes = true; }
  /// What must hold of the data, a scalar of bool: a run where it does not ends with an error.
  void assertThat(mlir::Value condition, std::string what);
  /// The size that the program states, where all its symbols are known.
  Result<mlir::AffineExpr> sizeOf(const Size &size);
  /// An integer of one element, if constants decide it.
  std::optional<int64_t> constantInteger(mlir::Value value);
  /// The range that the program states of a symbol.
  std::optional<Range> rangeOf(const std::string &symbol) const;
  /// A scalar of bool, if constants decide it.
  std::optional<bool> constantTruth(mlir::Value value);

private:
  struct UserInput {
    std::shared_ptr<Tensor> tensor;
    tn::Dims dims;
  };

  Status importInputs(Scope &scope);
  Status importUserInput(const InputSpec &spec, Scope &scope);
  Status relateDims(const std::string &name, llvm::ArrayRef<mlir::AffineExpr> dims);
  Status importWeight(const InputSpec &spec, Scope &scope);
  Result<mlir::Value> weightValue(const std::string &name, const Weight &weight);
  Result<mlir::Value> fixedValue(const frontend::FixedInput &fixed, mlir::Type element);
  mlir::Value stateValue(const std::string &name, mlir::Value initial);
  bool isZero(mlir::Value value);
  Result<mlir::AffineExpr> inputDim(const std::string &input, size_t index, const Size &size,
                                    const frontend::DimOverride *override);
  mlir::AffineExpr symbolNamed(const std::string &name);
  Status checkOverridesUsed() const;
  Status importNode(const Node &written, const Graph &graph, Scope &scope);
  /// Whether an output of the graph or something that it does needs the value.
  bool isLive(const std::string &name, const Graph &graph);
  void runOperator(Call &call, const Graph &graph);
  void runParts(Call &call);
  void runKernel(Call &call);
  Status importGuards(const Scope &scope);
  void requireGuard(const std::string &text, llvm::ArrayRef<tn::Constraint> constraints);
  void noteUnchecked(const std::string &text, std::string_view why);
  mlir::AffineExpr guardedSize(const GuardedSize &named, const Scope &scope) const;
  Status finish(Scope &scope);
  void finishState(Call &call, llvm::function_ref<void(const std::string &, mlir::Value)> add);
  void noteWrites();
  /// What the user wants to see of inner values, by the names of results.
  Result<std::vector<std::string>> chosenExtraOutputs() const;

  const Program &program;
  const frontend::ImportOptions &options;
  OpTable table;
  std::set<std::string> stateful;
  bool takesEmpty = false;
  std::set<std::string> writtenBuffers;
  std::map<std::string, std::shared_ptr<Tensor>> buffers; ///< and parameters
  std::map<std::string, UserInput> userInputs;
  /// Whether state has been written, a bool of rank 0; null where all state begins with zeros.
  mlir::Value started;
  std::vector<std::pair<std::string, std::string>> states; ///< arguments and results
  std::map<std::string, mlir::AffineExpr> symbolsByName;
  /// Tensors that nodes gave, as they were then; only where extra outputs are asked for.
  std::vector<std::pair<std::string, mlir::Value>> innerValues;
  std::vector<std::pair<mlir::Value, std::string>> assertions;
  std::vector<frontend::Gap> gaps;
  std::unordered_map<const Graph *, std::unordered_set<std::string>> liveNames;
  Status pending;
  unsigned graphDepth = 0;
  Autocast autocast;
  bool hasUntrueTypes = false;
};

} // namespace tenon::pt2
