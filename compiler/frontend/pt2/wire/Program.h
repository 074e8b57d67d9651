// A program that torch.export has saved, as plain structs: its graph, the meaning of its inputs and
// outputs, and its weights, whose bytes are views of the archive. What is here is syntactically
// valid only. Source: torch/_export/serde/schema.py of PyTorch, major version 8.
#pragma once

#include "support/DType.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::pt2 {

/// The major version of the schema that is read. A new minor one only adds fields.
inline constexpr int64_t kSchemaMajor = 8;

/// A size: a constant, or an expression over symbols as sympy's srepr writes it.
struct Size {
  std::optional<int64_t> constant;
  std::string expression;
  std::optional<int64_t> traced = {}; ///< of an expression: its value in the trace
};

struct TensorMeta {
  int64_t scalarType = 0; ///< PyTorch's number, see `dtypeOf`
  std::vector<Size> sizes;
  std::vector<Size> strides; ///< in elements
  Size offset;               ///< in elements
  bool isStrided = true;     ///< neither sparse nor of another backend
};

/// The element type of PyTorch's number; none for those that Tenon lacks.
std::optional<DType> dtypeOf(int64_t scalarType);
/// The number of the type of a complex type's real and imaginary part; none for other types.
std::optional<int64_t> partsOf(int64_t scalarType);
/// "float32", "complex64", ...; "unknown" without one.
std::string_view nameOfScalarType(int64_t scalarType);

struct Graph;

/// An argument of a node, an output of one, or a port of a graph. What PyTorch spells as a list of
/// some kind is a List of single arguments here.
struct Argument {
  enum class Kind : uint8_t {
    None,
    Tensor, ///< `text` names it
    SymInt, ///< `text` names it; so for the next two
    SymFloat,
    SymBool,
    Int,
    Float,
    Bool,
    String,
    ScalarType,
    MemoryFormat,
    Layout,
    Device, ///< `text` is its type
    Complex,
    Graph,
    List,
    Other, ///< a kind that Tenon does not read; `text` is the schema's name of it
  };
  Kind kind = Kind::None;
  std::string text;
  int64_t integer = 0;
  double real = 0;
  std::vector<Argument> elements;
  std::shared_ptr<Graph> graph;

  bool isName() const {
    return kind == Kind::Tensor || kind == Kind::SymInt || kind == Kind::SymFloat ||
           kind == Kind::SymBool;
  }
};

struct NamedArgument {
  std::string name; ///< of the parameter of the operator
  Argument value;
};

struct Node {
  std::string target; ///< "torch.ops.aten.add.Tensor"
  std::string name;
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::string stackTrace; ///< of the Python source, innermost call last; may be empty
  std::string modules;    ///< path of the module, "encoder.layer.0"; may be empty
};

struct Graph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Node> nodes;
  std::map<std::string, TensorMeta> tensors;
  std::map<std::string, Size> sizes; ///< of symbolic integers
};

struct InputSpec {
  enum class Kind : uint8_t { User, Parameter, Buffer, Constant, Value, Other };
  Kind kind = Kind::User;
  Argument argument;
  std::string target; ///< of parameters, buffers and constants: the key of `weights`
};

struct OutputSpec {
  enum class Kind : uint8_t { User, BufferMutation, InputMutation, Other };
  Kind kind = Kind::User;
  Argument argument;
  std::string target; ///< the buffer or input that takes the value
};

/// A parameter, a buffer or a constant tensor.
struct Weight {
  TensorMeta meta;
  Bytes bytes; ///< of its storage
  bool isPickled = false;
};

struct Range {
  int64_t min = 0;
  int64_t max = 0;
};

struct Program {
  Graph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::map<std::string, Range> ranges; ///< of symbols; unbounded ends are those of int64
  std::vector<std::string> guards;     ///< what holds of the sizes it was traced for, in Python
  std::map<std::string, Weight> weights;
  std::vector<std::string>
      outputNames; ///< of the user's outputs, None included, where they have keys
  std::string torchVersion;
  std::vector<std::shared_ptr<void>> owners; ///< of bytes that were unpacked
};

} // namespace tenon::pt2
