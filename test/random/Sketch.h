// A random ONNX model under construction: values with their types and sizes, and the ways to add
// sources and nodes. The importer says what a node gives, so that generators only choose operands
// and attributes; what it refuses is taken back.
#pragma once

#include "support/DType.h"
#include "support/random/Random.h"
#include "test/unit/frontend/ModelBytes.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon::random {

using onnx::test::Dim;
using onnx::test::Message;
using Types = std::vector<DType>;

/// How the elements of a source are drawn: uniform in [low, high], whole numbers for integers.
struct Content {
  double low = -2;
  double high = 2;
  bool isWhole = false;     ///< whole numbers for floats too
  bool hasExtremes = false; ///< with zeros, infinities, NaN and the type's limits
  bool isNonzero = false;
};

struct Value {
  std::string name;
  DType type = DType::F32;
  /// As another input can state them; "" for an expression that no input can.
  std::vector<Dim> dims;
  std::vector<int64_t> sizes; ///< at the drawn values of the symbols

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  int64_t count() const;
  bool isFixed(size_t dim) const { return std::holds_alternative<int64_t>(dims[dim]); }
  bool isFixed() const;
};

struct Symbol {
  std::string name;
  int64_t value = 1;
  int64_t min = 1;
  int64_t max = 1;
};

/// What a run gives the model as an input.
struct Port {
  Value value;
  Content content;
};

/// A finished model.
struct Model {
  std::string bytes;
  std::vector<Symbol> symbols;
  std::vector<Port> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> operators; ///< in the order of the nodes
};

class Sketch {
public:
  Sketch(uint64_t seed, bool hasRelations);
  ~Sketch();

  Random draw;
  int64_t opset;

  const std::vector<Value> &all() const { return values; }

  // Types.
  DType floating();
  DType integer();
  DType number() { return draw.chance(0.8) ? floating() : integer(); }
  DType anyType() { return draw.chance(0.85) ? number() : DType::Bool; }

  // Shapes.
  Dim dim();
  std::vector<Dim> shape(int64_t minRank, int64_t maxRank);
  int64_t sizeOf(const Dim &dim) const;
  /// A symbol of its own, of this size in this run.
  Dim symbol(int64_t size, int64_t min, int64_t max);

  // Operands.
  /// An input, an initializer or a constant node.
  Value source(DType type, std::vector<Dim> dims, Content content = {});
  /// An initializer or a constant node of these elements.
  Value constant(DType type, std::vector<int64_t> dims, const std::vector<double> &elements);
  Value integers(const std::vector<int64_t> &elements, DType type = DType::I64);
  Value scalar(DType type, double element) { return constant(type, {}, {element}); }
  /// A value that there is and that fits, or a source.
  Value operand(const Types &types, int64_t minRank, int64_t maxRank, Content content = {});
  Value operand(DType type, int64_t minRank, int64_t maxRank, Content content = {}) {
    return operand(Types{type}, minRank, maxRank, content);
  }
  /// As operand, of whose dims `fits` approves; a source of `dims` where there is none.
  Value operandLike(DType type, const std::vector<Dim> &dims, Content content = {});
  /// One that broadcasts with `other` in numpy's way.
  Value partner(const Value &other, DType type, Content content = {});
  /// The dims of `value` as an input can state them; where it cannot, another draw of 1.
  std::vector<Dim> dimsLike(const Value &value);

  // Nodes.
  /// False if the importer refuses the node, which is then not there.
  bool node(std::string_view op, const std::vector<std::string> &inputs, int outputs = 1,
            std::vector<Message> attributes = {}, std::string_view domain = "");
  const std::string &refusal() const { return lastRefusal; }

  /// Unread values become outputs, and now and then others.
  Model finish();

private:
  struct Checker;

  std::string freshName() { return "v" + std::to_string(nextName++); }
  std::string modelBytes(const std::vector<std::string> &outputs) const;
  bool learn(const std::vector<std::string> &names);

  bool hasRelations;
  std::vector<Symbol> symbols;
  std::vector<Value> values;
  std::vector<Port> inputs;
  std::vector<Message> initializers;
  std::vector<Message> nodes;
  std::vector<std::string> operators;
  std::vector<std::string> results; ///< of nodes
  std::vector<std::string> read;
  std::string lastRefusal;
  int nextName = 0;
  std::unique_ptr<Checker> checker;
};

int onnxType(DType type);
/// Elements of a type as ONNX stores them.
std::string encode(DType type, const std::vector<double> &elements);
std::vector<double> elementsOf(Random &draw, DType type, int64_t count, const Content &content);

} // namespace tenon::random
