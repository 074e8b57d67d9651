// Changes to an ONNX file, collected and then written: operands renamed, nodes inserted, constants
// replaced. What is not named stays byte for byte. Relies on the file staying mapped.
#pragma once

#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/frontend/onnx/wire/Message.h"
#include "compiler/quant/ConstantSink.h"
#include "compiler/quant/Graph.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <map>
#include <memory>
#include <set>
#include <string>

namespace tenon::quant {

/// The elements as a tensor's raw data.
template <typename T> std::string_view bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

class ModelEdit {
public:
  /// Protobuf's own limit on a file.
  static constexpr size_t kMaxBytes = (size_t{1} << 31) - 1;

  ModelEdit(Bytes file, const onnx::Model &model, const Graph &graph);

  /// A name that nothing of the model has, beginning with `base`.
  std::string freshName(std::string_view base);
  /// A constant of raw elements; `type` as in TensorProto.
  void addConstant(const std::string &name, onnx::DataType type, std::span<const int64_t> dims,
                   std::string_view bytes);
  void addScalar(const std::string &name, float value);
  /// The node reads another value there.
  void setOperand(Use use, const std::string &value);
  /// Operands that the node has not so far come behind the others; for the bias of a convolution.
  void addOperand(size_t node, const std::string &value);
  /// A constant stays, since an added node reads it.
  void keep(std::string_view constant) { wanted.insert(constant); }
  /// An initializer goes although it is read: a node makes a value of its name.
  void leaveOut(std::string_view constant) { leftOut.insert(constant); }
  void dropAttribute(size_t node, std::string_view name) { withoutAttributes[node].insert(name); }
  /// In place of the attribute of that name, if the node has it.
  void setInteger(size_t node, std::string_view attribute, int64_t value);
  void setText(size_t node, std::string_view attribute, std::string_view value);
  void setIntegers(size_t node, std::string_view attribute, std::span<const int64_t> values);
  /// In place of the graph of that name.
  void setGraph(size_t node, std::string_view attribute, const onnx::Graph &changed);
  /// Names that new ones have to differ from too: those around a graph inside of a node.
  void avoidNames(const onnx::Graph &own);
  /// Of a graph inside of a node: names are new in `other` too, which gets domains and, unless the
  /// graph is closed, what is shared.
  void writeInto(ModelEdit &other, bool closed = false) {
    outer = &other;
    isClosed = closed;
    names = other.names;
  }
  /// A constant of the outermost graph, which those inside of nodes read too. The name of an equal
  /// one that such a graph has added before; else a new name that begins with `base`.
  std::string addShared(std::string_view base, onnx::DataType type, std::span<const int64_t> dims,
                        std::string_view bytes);
  /// Before all nodes of the outermost graph.
  void insertOutermost(onnx::Message added) {
    outer && !isClosed ? outer->insertOutermost(std::move(added)) : insertFirst(std::move(added));
  }
  /// What the file says of the value's shape is left out.
  void forgetShape(std::string_view value) { shapeless.insert(value); }
  /// Of ONNX's own operators, and of the file's form.
  void setVersions(int64_t opset, int64_t ir) {
    opsetVersion = opset;
    irVersion = ir;
  }
  void setResult(size_t node, std::string_view value);
  /// The node goes; who reads its results has to be told.
  void drop(size_t node);
  void insertBefore(size_t node, onnx::Message added);
  void insertAfter(size_t node, onnx::Message added);
  /// Before all nodes.
  void insertFirst(onnx::Message added);

  /// Makes an added node one of another domain, which the model imports then.
  void setDomain(onnx::Message &node, std::string_view domain);
  void importDomain(std::string_view domain);
  /// A key and a text of the model's own.
  void addMetadata(std::string_view key, std::string_view value);

  /// External constants stay beside the file: for what is read again in its place.
  void keepExternal() { keepsExternal = true; }

  /// The file with the changes. Constants that nobody reads any more are left out, external ones
  /// come into the file. Where that takes more than `maxBytes`, all but small constants go to the
  /// sink; without one, `remedy` is what a user does.
  Result<std::string> write(onnx::ExternalFiles &files, std::string_view remedy,
                            ConstantSink *sink = nullptr, size_t maxBytes = kMaxBytes) const;

private:
  Result<onnx::Message> graphMessage(std::string_view old, onnx::ExternalFiles &files,
                                     ConstantSink *sink) const;
  Result<uint64_t> sizeWithConstants(onnx::ExternalFiles &files) const;
  std::string nodeMessage(size_t index, std::string_view old) const;
  std::string share(std::string_view base, onnx::DataType type, std::span<const int64_t> dims,
                    std::string_view bytes);
  std::set<std::string_view> unread() const;
  std::set<std::string_view> readInside() const;

  std::string_view file;
  const onnx::Model &model;
  const Graph &graph;
  ModelEdit *outer = nullptr;
  bool isClosed = false;
  std::shared_ptr<std::set<std::string, std::less<>>> names;
  std::map<size_t, std::map<size_t, std::string>> operands;
  std::map<size_t, std::vector<std::string>> moreOperands;
  std::map<size_t, std::set<std::string_view>> withoutAttributes;
  std::map<size_t, onnx::Message> attributes; ///< that are set
  std::set<std::string_view> shapeless;
  std::optional<int64_t> opsetVersion, irVersion;
  std::set<std::string, std::less<>> domains; ///< that were not imported
  std::map<size_t, std::string> results;
  std::set<size_t> dropped;
  bool keepsExternal = false;
  std::set<std::string_view> wanted, leftOut;
  std::map<size_t, std::vector<onnx::Message>> before, after;
  std::vector<onnx::Message> first, constants, metadata;
  std::map<size_t, std::vector<std::pair<std::string, size_t>>> shared; ///< by hashes of bytes
  /// What graphs that were set read, by node and attribute.
  std::map<std::pair<size_t, std::string>, std::set<std::string>> innerReads;
};

/// A node of ONNX's own domain.
onnx::Message nodeMessage(std::string_view op, const std::string &name,
                          std::span<const std::string> inputs, const std::string &output);
/// One with several results.
onnx::Message nodeMessage(std::string_view op, const std::string &name,
                          std::span<const std::string> inputs,
                          std::span<const std::string> outputs);
/// Attributes of a node that is put together.
void addText(onnx::Message &node, std::string_view attribute, std::string_view value);
void addInteger(onnx::Message &node, std::string_view attribute, int64_t value);
void addReal(onnx::Message &node, std::string_view attribute, float value);
void addIntegers(onnx::Message &node, std::string_view attribute, std::span<const int64_t> values);
/// The same with an integer attribute.
onnx::Message nodeMessage(std::string_view op, const std::string &name,
                          std::span<const std::string> inputs, const std::string &output,
                          std::string_view attribute, int64_t value);

} // namespace tenon::quant
