// What an operator's import function sees: a node's arguments by the names of PyTorch's schema, its
// results, and the helpers of Emitter.
#pragma once

#include "compiler/frontend/common/Emitter.h"
#include "compiler/frontend/pt2/Importer.h"
#include "compiler/graph/TensorInfo.h"
#include "llvm/ADT/DenseSet.h"

namespace tenon::pt2 {

class Call : public frontend::Emitter {
public:
  Call(Importer &importer, const Node &node, const Graph &graph, Scope &scope);

  const Node &node;
  const Target target;

  //===--- Arguments ---===//
  /// Whether it is given and not None.
  bool has(llvm::StringRef name) const;
  /// A tensor; null (after an error) without one, null without a failure where it is absent or
  /// None.
  mlir::Value value(llvm::StringRef name);
  /// A tensor or a number. A number becomes a scalar of the type that PyTorch computes in with
  /// `beside`.
  mlir::Value operand(llvm::StringRef name, mlir::Type element);
  /// The type of the first result, or f32 where that is narrower and one of these arguments, a
  /// number or a scalar beside tensors, has digits that it lacks: products and quotients keep them.
  mlir::Type productElement(llvm::ArrayRef<llvm::StringRef> factors);
  /// Of a complex tensor, whose real part `value` gives; null without a failure for a real one.
  mlir::Value imaginary(llvm::StringRef name);
  llvm::SmallVector<mlir::Value> values(llvm::StringRef name);
  /// As `values`, with null for None.
  llvm::SmallVector<mlir::Value> optionalValues(llvm::StringRef name);
  mlir::RankedTensorType type(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, int64_t otherwise);
  double real(llvm::StringRef name, double otherwise);
  bool truth(llvm::StringRef name, bool otherwise);
  std::string text(llvm::StringRef name, llvm::StringRef otherwise);
  /// Constant integers; a single one is a list of one.
  llvm::SmallVector<int64_t> integers(llvm::StringRef name, llvm::ArrayRef<int64_t> otherwise = {});
  llvm::SmallVector<double> reals(llvm::StringRef name);
  mlir::AffineExpr size(llvm::StringRef name);
  tn::Dims sizes(llvm::StringRef name);
  /// The integer at a position; null (after a failure) without one.
  mlir::AffineExpr sizeAt(size_t index);
  /// Whether the argument at a position is an integer that sizes decide.
  bool isSizeAt(size_t index);
  /// The number at a position, whether the file, sizes or data decide it: a scalar of i64 or f64.
  mlir::Value numberAt(size_t index);
  /// The element type of an argument 'dtype'.
  mlir::Type elementNamed(llvm::StringRef name, mlir::Type otherwise);
  /// In [0, rank), from one in [-rank, rank).
  int64_t axis(llvm::StringRef name, int64_t otherwise, int64_t rank);
  int64_t normalizeAxis(int64_t axis, int64_t rank);
  /// Sorted and distinct; all axes where the argument is absent, None or (with `emptyIsAll`) empty.
  llvm::SmallVector<int64_t> axes(llvm::StringRef name, int64_t rank, bool emptyIsAll = true);
  /// The argument as it stands, for operators that take functions; null without it.
  const Argument *argument(llvm::StringRef name);
  const Argument *positional(size_t index);
  /// What a name in an argument stands for; null (after an error) if nothing defines it.
  Value *find(const Argument &argument);
  /// Arguments that have no effect on the results of this form.
  void ignore(std::initializer_list<llvm::StringRef> names);
  /// Everything that is given must have been read: the name of an argument that was not.
  std::string unread() const;

  //===--- Types ---===//
  /// Whether it reads or gives a complex tensor.
  bool isComplex() const;
  /// Whether the first result is complex.
  bool givesComplex() const;
  /// The element type that PyTorch states for an output; that of the parts of a complex one.
  mlir::Type resultElement(unsigned output = 0);
  /// The dims that PyTorch states for an output; none where they name unknown symbols.
  std::optional<tn::Dims> statedDims(unsigned output);
  /// The range that the program states of its first result, a number.
  std::optional<Range> statedRange();
  /// The type that tensors and numbers of these arguments are computed in together.
  mlir::Type promoted(llvm::ArrayRef<llvm::StringRef> names);
  /// x in the type of the first result.
  mlir::Value toResult(mlir::Value x) { return x ? cast(x, resultElement()) : x; }

  //===--- Results ---===//
  void setOutput(mlir::Value value) { setOutput(0, value); }
  void setOutput(unsigned i, mlir::Value value);
  void setComplex(unsigned i, mlir::Value real, mlir::Value imaginary);
  /// Imports the real parts and then the imaginary parts of the arguments.
  void importParts(void (*import)(Call &));
  void setSize(mlir::AffineExpr size);
  void setValue(unsigned i, pt2::Value value);
  /// The results are views of the tensor `name`: what is written to one is seen by the other.
  void setView(llvm::StringRef name, ViewFunctions functions) {
    setView(0, name, std::move(functions));
  }
  void setView(unsigned i, llvm::StringRef name, ViewFunctions functions);
  /// As `setView` where PyTorch gives a view, and memory of its own where it copies. Where that is
  /// not known, what is written to one of both is a gap for the other.
  void setPerhapsView(llvm::StringRef name, std::optional<bool> isView, ViewFunctions functions);
  /// Whether the elements of a tensor lie in order and without space; none where sizes decide it.
  std::optional<bool> isContiguous(llvm::StringRef name);
  /// Whether a reshape to these dims needs no copy; none where sizes decide it.
  std::optional<bool> isViewAs(llvm::StringRef name, llvm::ArrayRef<mlir::AffineExpr> dims);
  /// The result is the tensor itself.
  void forward(llvm::StringRef name);

  void gap(const llvm::Twine &why, const llvm::Twine &workaround = "") override;
  void error(ErrorId id, const llvm::Twine &what) override;
  std::string label() const override;

  /// The results depend on a gap that was noted elsewhere.
  void poison() { hasFailed = true; }

  Importer &importer() { return owner; }
  /// A result as far as it is set; null for one that the node does not have.
  pt2::Value *output(unsigned i) { return i < outputs.size() ? &outputs[i] : nullptr; }
  unsigned numOutputs() const { return static_cast<unsigned>(outputs.size()); }

private:
  friend class Importer;

  /// What the program states of a tensor.
  struct Strided {
    tn::Dims dims, strides;
  };

  /// Every name that the results have, lists taken apart.
  void listOutputs();
  std::optional<Strided> stridesOf(llvm::StringRef name);
  /// In its own type without an element type.
  mlir::Value numberOf(const Argument &argument, llvm::StringRef name, mlir::Type element = {});
  std::optional<int64_t> constantOf(const Argument &argument, llvm::StringRef name);
  mlir::AffineExpr sizeOf(const Argument &argument, llvm::StringRef name);
  std::shared_ptr<Tensor> tensorOf(const Argument &argument, llvm::StringRef name);

  Importer &owner;
  const Graph &graph;
  Scope &scope;
  std::vector<std::string> outputNames; ///< empty for a result that nobody names
  std::vector<pt2::Value> outputs;
  /// Complex arguments stand for their imaginary parts.
  bool readsImaginary = false;
  llvm::SmallDenseSet<const Argument *> reads;
};

using tn::rankOf;

} // namespace tenon::pt2
