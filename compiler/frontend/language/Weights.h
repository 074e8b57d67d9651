// Tensors of a language model as values: floats as they are, blocks as numbers behind their scales,
// which stay as small as the file has them.
#pragma once

#include "compiler/frontend/common/Emitter.h"
#include "compiler/frontend/language/Model.h"
#include "compiler/graph/WeightStore.h"

namespace tenon::language {

/// Some rows of a tensor: what several parts of a model share is cut by whole rows.
struct Rows {
  int64_t whole, first, count;

  Rows(int64_t all) : whole(all), first(0), count(all) {}
  Rows(int64_t ofWhole, int64_t from, int64_t number)
      : whole(ofWhole), first(from), count(number) {}
};

class Weights {
public:
  /// The arrays behind a tensor of blocks. A number stands for (number - zero) * scale - rest.
  /// Numbers have 8 bits each; nibbles are those that have 4.
  enum class Part : uint8_t { Numbers, Nibbles, Scales, Zeros, Rests };

  Weights(const Model &theModel, tn::WeightStore &theStore)
      : model(theModel), store(theStore), read(theModel.read) {}

  /// A tensor of these dims as f32; null after an error, or where it is missing and optional.
  mlir::Value get(frontend::Emitter &c, std::string_view name, llvm::ArrayRef<int64_t> dims,
                  bool isOptional = false);
  /// Some rows, each of the dims `inner`; blocks stay as they are.
  mlir::Value cut(frontend::Emitter &c, std::string_view name, Rows rows,
                  llvm::ArrayRef<int64_t> inner, bool isOptional = false);
  /// Rows of a matrix of these dims as f32, one for each index: taken out of their blocks when they
  /// are read, so that a table of embeddings stays as small as in the file.
  mlir::Value rows(frontend::Emitter &c, std::string_view name, llvm::ArrayRef<int64_t> dims,
                   mlir::Value indices);
  /// Names of tensors that nothing has asked for.
  std::vector<std::string> unread() const;

private:
  /// Null after an error, or where it is missing and optional.
  const gguf::Tensor *find(frontend::Emitter &c, std::string_view name,
                           llvm::ArrayRef<int64_t> dims, bool isOptional);
  mlir::Value valueOf(frontend::Emitter &c, const gguf::Tensor &tensor);
  mlir::Value floats(frontend::Emitter &c, const gguf::Tensor &tensor);
  mlir::Value blocks(frontend::Emitter &c, const gguf::Tensor &tensor);
  /// [groups, group], unpacked by the engine where they have 4 bits. Products take them unpacked:
  /// their weights get a layout of their own.
  mlir::Value smallNumbers(frontend::Emitter &c, const gguf::Tensor &tensor);
  mlir::Value part(frontend::Emitter &c, const gguf::Tensor &tensor, Part kind);

  const Model &model;
  tn::WeightStore &store;
  std::set<std::string, std::less<>> read;
};

} // namespace tenon::language
