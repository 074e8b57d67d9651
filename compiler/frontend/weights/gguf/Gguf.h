// The container of llama.cpp's models, GGUF 2 and 3: keys with values, and tensors of which many
// are quantized in blocks. Relies on the file staying mapped: text and tensors are views of it.
//
// Source: the specification of GGUF, and what its writers put down where that says nothing.
#pragma once

#include "compiler/frontend/weights/Tensor.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tenon::gguf {

/// The value of a key. Numbers of every width are held in the widest of their kind.
class Value {
public:
  struct List;
  using Content =
      std::variant<uint64_t, int64_t, double, bool, std::string_view, std::shared_ptr<const List>>;

  explicit Value(Content newContent) : content(std::move(newContent)) {}

  /// None where it is of another kind; an integer is a number too, and fits.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;
  std::optional<bool> truth() const;
  std::optional<std::string_view> text() const;
  /// Null where it is no array.
  const List *list() const;
  /// For people: "64", "\"llama\"", "an array of 30".
  std::string describe() const;

private:
  Content content;
};

/// An array: values of one kind.
struct Value::List {
  std::vector<int64_t> integers;
  std::vector<double> numbers; ///< floats
  std::vector<std::string_view> texts;

  size_t size() const { return integers.size() + numbers.size() + texts.size(); }
};

using weights::Tensor;

/// A key as the file has it: its value's type and the value, in the file's encoding.
struct StoredKey {
  std::string_view name;
  Bytes value;
};

struct File {
  std::map<std::string, Value, std::less<>> keys;
  /// The same in the order of the file; none of another format.
  std::vector<StoredKey> stored;
  /// Names of tensors in the order of the file; none of another format.
  std::vector<std::string> order;
  std::map<std::string, Tensor, std::less<>> tensors;
  /// What another format calls a key or a tensor, where the file is of another.
  std::map<std::string, std::string, std::less<>> names;

  /// For messages.
  std::string nameOf(std::string_view key) const;
  const Value *find(std::string_view key) const;
  const Tensor *tensor(std::string_view name) const;
};

/// Whether a file begins as GGUF does, in either order of bytes.
bool looksLikeGguf(Bytes beginning);

/// Reads all but the tensors' elements. TN0243 with the offset where it is damaged: sizes that
/// leave the file, tensors that overlap, names that are there twice; TN0244 for a version or a type
/// of tensors that is not known.
Result<File> read(Bytes bytes);

} // namespace tenon::gguf
