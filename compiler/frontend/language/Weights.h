// Tensors of a language model as values: floats as they are, blocks as numbers behind their scales,
// which stay as small as the file has them.
#pragma once

#include "compiler/frontend/common/Emitter.h"
#include "compiler/frontend/language/Model.h"
#include "compiler/graph/WeightStore.h"

namespace tenon::language {

class Weights {
public:
  Weights(const Model &theModel, tn::WeightStore &theStore) : model(theModel), store(theStore) {}

  /// A tensor of these dims as f32; null after an error, or where it is missing and optional.
  mlir::Value get(frontend::Emitter &c, std::string_view name, llvm::ArrayRef<int64_t> dims,
                  bool isOptional = false);
  /// Names of tensors that nothing has asked for.
  std::vector<std::string> unread() const;

private:
  mlir::Value floats(frontend::Emitter &c, const gguf::Tensor &tensor);
  mlir::Value blocks(frontend::Emitter &c, const gguf::Tensor &tensor);
  mlir::Value generated(frontend::Emitter &c, const std::string &name, mlir::RankedTensorType type,
                        uint64_t bytes, tn::WeightGenerator generate);

  const Model &model;
  tn::WeightStore &store;
  std::set<std::string, std::less<>> read;
};

} // namespace tenon::language
