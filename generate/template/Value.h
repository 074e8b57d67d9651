// The values of a chat template: what Jinja2 makes of JSON. Lists, dictionaries and namespaces are
// shared, as in Python. Every byte of a text knows who wrote it, the template or the conversation,
// so that a message cannot write a control token.
#pragma once

#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::generate::jinja {

/// Text and, for each byte, whether the template wrote it.
struct Text {
  std::string bytes;
  std::vector<bool> isOfTemplate;

  static Text ofTemplate(std::string_view text) {
    return {std::string(text), std::vector<bool>(text.size(), true)};
  }
  static Text ofData(std::string_view text) {
    return {std::string(text), std::vector<bool>(text.size(), false)};
  }
  void append(const Text &other) {
    bytes += other.bytes;
    isOfTemplate.insert(isOfTemplate.end(), other.isOfTemplate.begin(), other.isOfTemplate.end());
  }
  Text part(size_t begin, size_t size) const {
    size_t end = std::min(bytes.size(), begin + size);
    return {bytes.substr(begin, size),
            std::vector<bool>(isOfTemplate.begin() + static_cast<std::ptrdiff_t>(begin),
                              isOfTemplate.begin() + static_cast<std::ptrdiff_t>(end))};
  }
};

struct Undefined {
  std::string name; ///< of what was looked for, for messages
};
struct None {};

class Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<Value, Value>>; ///< in the order of insertion

struct Arguments;
class Interpreter;
/// What a template can call.
using Function = std::function<Result<Value>(Interpreter &, const Arguments &)>;

class Value {
public:
  using Content =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                   std::shared_ptr<List>, std::shared_ptr<Dict>, std::shared_ptr<const Function>>;

  Value() : content(None{}) {}
  explicit Value(bool truth) : content(truth) {}
  explicit Value(int64_t number) : content(number) {}
  explicit Value(double number) : content(number) {}
  explicit Value(Text text) : content(std::make_shared<const Text>(std::move(text))) {}
  explicit Value(List list);
  explicit Value(Dict dict);
  explicit Value(Function function)
      : content(std::make_shared<const Function>(std::move(function))) {}
  static Value undefined(std::string name) {
    Value value;
    value.content = Undefined{std::move(name)};
    return value;
  }
  static Value tuple(List list) {
    Value value(std::move(list));
    value.isTupleOrNamespace = true;
    return value;
  }
  static Value nameSpace(Dict dict) {
    Value value(std::move(dict));
    value.isTupleOrNamespace = true;
    return value;
  }

  /// Text that the filter `safe` marked: what is joined to it is escaped for HTML, as markupsafe
  /// does.
  static Value markup(Text text) {
    Value value(std::move(text));
    value.isTupleOrNamespace = true;
    return value;
  }

  bool isUndefined() const { return std::holds_alternative<Undefined>(content); }
  bool isNone() const { return std::holds_alternative<None>(content); }
  bool isNumber() const { return integer() || std::holds_alternative<double>(content); }
  bool isMarkup() const { return text() && isTupleOrNamespace; }
  bool isNamespace() const { return dict() && isTupleOrNamespace; }
  const std::string &undefinedName() const { return std::get<Undefined>(content).name; }
  std::optional<bool> boolean() const { return get<bool>(); }
  /// An integer; a bool counts as one, as in Python.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;
  const Text *text() const { return shared<std::shared_ptr<const Text>>(); }
  List *list() const { return shared<std::shared_ptr<List>>(); }
  Dict *dict() const { return shared<std::shared_ptr<Dict>>(); }
  const Function *function() const { return shared<std::shared_ptr<const Function>>(); }

  /// Containers in each other; kTooHigh for more, and where a namespace is in one, since only
  /// namespaces change and so could hold themselves.
  int height() const { return heightInside; }
  static constexpr int kTooHigh = 100;
  /// About the work of reading all of it: a unit each value and each 64 bytes of text.
  uint64_t cost() const;

  bool isTrue() const;
  bool equals(const Value &other) const;
  /// Whether it is before another; none where the two have no order.
  std::optional<bool> isBefore(const Value &other) const;
  /// "str", "int", as Python calls it.
  std::string_view kind() const;
  /// As Python's str() and repr() write it. Nothing of it is the template's but what was text.
  Text written() const;
  std::string represented() const;

  /// A dictionary's value; null where there is none.
  const Value *find(std::string_view key) const;
  const Value *find(const Value &key) const;
  void set(const Value &key, Value value);

private:
  template <typename T> std::optional<T> get() const {
    const T *value = std::get_if<T>(&content);
    return value ? std::optional(*value) : std::nullopt;
  }
  template <typename T> typename T::element_type *shared() const {
    const T *value = std::get_if<T>(&content);
    return value ? value->get() : nullptr;
  }

  void hold(const Value &part);

  Content content;
  bool isTupleOrNamespace = false; ///< or markup
  uint8_t heightInside = 0;
  uint32_t costInside = 1;
};

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at a position or of a name; null where it is absent.
  const Value *get(size_t position, std::string_view name) const;
};

/// How JSON is written.
struct JsonForm {
  bool ensureAscii = false, sortKeys = false;
  std::optional<int64_t> indent;
  std::string itemSeparator = ", ", keySeparator = ": ";
  size_t mostBytes = size_t{64} << 20;
};
/// Where each letter of a text begins, and its end.
std::vector<size_t> lettersOf(std::string_view text);

/// As Python's json.dumps writes it; an error for what JSON lacks. Text stays whose it is.
Result<Text> toJson(const Value &value, const JsonForm &form);

} // namespace tenon::generate::jinja
