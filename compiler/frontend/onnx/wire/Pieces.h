// A model as the pieces of its file (nodes, initializers), from which other models are put
// together: with more outputs, or a part of it. Pieces are copied as they are, so nothing of a node
// is lost.
#pragma once

#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/frontend/onnx/wire/Message.h"
#include "support/DType.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tenon::onnx {

/// An input or output of a model that is put together; a dim is a size or a parameter's name.
struct Port {
  std::string name;
  DType type = DType::F32;
  std::vector<std::variant<int64_t, std::string>> dims;
};

/// A value that is known: it becomes an initializer.
struct Literal {
  std::string name;
  DType type = DType::F32;
  std::vector<int64_t> dims;
  std::string_view bytes; ///< row-major, an element to a byte where it is smaller
};

/// A part of a model. Whatever its nodes read is an input, a literal, an initializer of the model,
/// or the result of an earlier one of its nodes.
struct Part {
  std::vector<size_t> nodes; ///< indices into Pieces::nodes, ascending
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<Literal> literals;
};

class Pieces {
public:
  struct Node {
    std::string_view name; ///< of the node, or else of its first result
    std::string_view op;
    std::vector<std::string_view> reads; ///< each once, those of graphs inside of it too
    std::vector<std::string_view> results;
    std::string_view bytes;
  };

  /// The views point into `file`.
  static Result<Pieces> read(Bytes file);

  std::span<const Node> nodes() const { return list; }
  std::span<const std::string_view> outputs() const { return outputNames; }
  bool isInitializer(std::string_view name) const;

  /// The whole model with these values as outputs too, their types unstated.
  std::string withOutputs(std::span<const std::string> names) const;
  /// A model of its own: what `files` hold of the initializers is in it. Types that ONNX has no
  /// name for are an error.
  Result<std::string> assemble(const Part &part, ExternalFiles &files) const;

private:
  struct Initializer {
    std::string_view name;
    std::string_view bytes;
  };

  std::string around; ///< the fields of the model but its graph
  std::string_view graph;
  std::vector<Node> list;
  std::vector<Initializer> initializers;
  std::vector<std::string_view> outputNames;
};

/// A TensorProto of row-major elements; `type` is its number in ONNX.
Message rawTensor(std::string_view name, int32_t type, std::span<const int64_t> dims,
                  std::string_view bytes);
/// A TensorProto with its elements, wherever `files` has them. Seeded ones stay without.
Result<std::string> embedded(std::string_view tensor, ExternalFiles &files);

} // namespace tenon::onnx
