// An ONNX model as plain structs whose strings and bytes are views into the model file. Relies on
// that file staying mapped for as long as the structs live; what is here is syntactically valid
// only.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace tenon::onnx {

/// TensorProto.DataType.
enum class DataType : int32_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float4E2M1 = 23,
  Float8E8M0 = 24,
  UInt2 = 25,
  Int2 = 26,
};
inline constexpr int32_t kLastDataType = 26;

/// "float", "int64", ... as ONNX prints them.
std::string_view nameOf(DataType type);

/// AttributeProto.AttributeType.
enum class AttributeType : int32_t {
  Undefined = 0,
  Float = 1,
  Int = 2,
  String = 3,
  Tensor = 4,
  Graph = 5,
  Floats = 6,
  Ints = 7,
  Strings = 8,
  Tensors = 9,
  Graphs = 10,
  SparseTensor = 11,
  SparseTensors = 12,
  Type = 13,
  Types = 14,
};

struct KeyValue {
  std::string_view key;
  std::string_view value;
};

/// TensorProto. Each entry of a typed list is a run of packed elements, still encoded.
struct Tensor {
  std::string_view name;
  std::vector<int64_t> dims;
  DataType type = DataType::Undefined;
  bool hasRaw = false;
  bool external = false;
  bool segmented = false;
  std::string_view raw;
  std::vector<std::string_view> floats;  ///< fixed32
  std::vector<std::string_view> doubles; ///< fixed64
  std::vector<std::string_view> int32s;  ///< varint
  std::vector<std::string_view> int64s;  ///< varint
  std::vector<std::string_view> uint64s; ///< varint
  std::vector<std::string_view> strings;
  std::vector<KeyValue> externalData;
};

/// SparseTensorProto: the elements that are not zero, and where they are. Its name is that of the
/// values.
struct SparseTensor {
  Tensor values;
  Tensor indices;
  std::vector<int64_t> dims;
};

struct Dimension {
  enum class Kind : uint8_t { Unknown, Value, Parameter };
  Kind kind = Kind::Unknown;
  int64_t value = 0;
  std::string_view parameter;
};

/// ValueInfoProto.
struct ValueInfo {
  enum class Kind : uint8_t { Missing, Tensor, Sequence, Optional, Map, Sparse, Opaque };
  std::string_view name;
  Kind kind = Kind::Missing;
  DataType type = DataType::Undefined;
  bool hasShape = false;
  std::vector<Dimension> dims;
};

struct Graph;

struct Attribute {
  Attribute();
  ~Attribute();
  Attribute(Attribute &&) noexcept;
  Attribute &operator=(Attribute &&) noexcept;

  std::string_view name;
  std::string_view reference; ///< ref_attr_name, in function bodies
  AttributeType type = AttributeType::Undefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::unique_ptr<Tensor> tensor;
  std::unique_ptr<SparseTensor> sparse;
  std::unique_ptr<Graph> graph;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
};

struct Node {
  std::string_view name;
  std::string_view opType;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<Attribute> attributes;
  std::string_view scopes; ///< what torch's exporter says of the modules that hold it
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<SparseTensor> sparseInitializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> values;
  std::string_view bytes; ///< of the message
};

struct OpsetImport {
  std::string_view domain; ///< "" for ai.onnx
  int64_t version = 0;
};

struct Function {
  std::string_view name;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> attributes;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  std::vector<OpsetImport> opsets;
};

struct Model {
  int64_t irVersion = 0;
  std::string_view producer;
  std::vector<OpsetImport> opsets;
  std::vector<Function> functions;
  std::vector<KeyValue> metadata; ///< metadata_props
  bool hasGraph = false;
  Graph graph;
};

} // namespace tenon::onnx
