// The state of the import of one model: what each tensor of its main graph stands for, variables,
// the module being built, and gaps. Internal to the importer; Tflite.h is the interface.
#pragma once

#include "compiler/frontend/common/ModuleBuilder.h"
#include "compiler/frontend/tflite/OpTable.h"
#include "compiler/frontend/tflite/wire/ModelReader.h"

#include <map>

namespace tenon::tflite {

/// What a tensor stands for. With neither value it depends on a gap.
struct Known {
  mlir::Value stored;   ///< its elements as the file types them
  mlir::Value real;     ///< of quantized numbers: what they stand for, in f32; made when first read
  std::string variable; ///< of a handle: the name of what it stands for
};

/// What lives from run to run. It begins with zeros, so what is kept is the difference to what the
/// model begins with.
struct Variable {
  mlir::Value now;     ///< null as long as nothing reads or writes it
  mlir::Value initial; ///< integers, in the type of `now`; null for zeros
};

class Importer : public frontend::ModuleBuilder {
public:
  Importer(const fb::Model &model, const frontend::ImportOptions &options,
           mlir::MLIRContext &context, tn::WeightStore &store);

  Result<frontend::ImportResult> run();

  //===--- For Node and the operators ---===//
  const fb::Model &model() const { return file; }
  const fb::Tensor &tensor(int32_t index) const { return *graph.tensors()->Get(index); }
  Known &known(int32_t index) { return values[index]; }
  std::map<std::string, Variable> variables;
  /// A new input of the module that the session owns.
  mlir::Value addState(llvm::StringRef name, mlir::RankedTensorType type);
  /// The constant with its dims in another order.
  mlir::Value permuted(const fb::Tensor &tensor, llvm::ArrayRef<int64_t> permutation,
                       llvm::StringRef name);
  tn::WeightStore &weights() { return store; }
  void addGap(frontend::Gap gap);
  void setError(Status status);

private:
  Status importInputs();
  Status checkShapeOption(const std::string &name, const fb::Tensor &tensor) const;
  Status importNode(const fb::Operator &op, size_t index);
  Status finish();

  const fb::Model &file;
  const fb::SubGraph &graph;
  const frontend::ImportOptions &options;
  OpTable table;
  std::vector<Known> values;
  std::vector<frontend::Gap> gaps;
  Status pending;
};

/// Its type with static dims; null for elements that Tenon lacks.
mlir::RankedTensorType storedType(mlir::MLIRContext *context, const fb::Tensor &tensor);
/// Its name, or one by its number.
std::string labelOf(const fb::Tensor &tensor, int32_t index);

} // namespace tenon::tflite
