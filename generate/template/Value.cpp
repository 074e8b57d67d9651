// Values as Python compares and writes them.
#include "generate/template/Value.h"

#include "generate/text/Utf8.h"
#include "generate/tokenizer/CodeClass.h"
#include "support/text/Text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon::generate::jinja {
namespace {

std::string numberText(double value) {
  if (std::isnan(value) || std::isinf(value)) {
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  // Python's repr: the shortest digits that read back, an exponent below 1e-4 and from 1e16 on.
  char buffer[64];
  double magnitude = std::fabs(value);
  bool isPlain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                           isPlain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  return isPlain && text.find('.') == text.npos ? text + ".0" : text;
}

/// Python's repr: what does not print is escaped.
std::string quoted(std::string_view text) {
  char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string result(1, quote);
  std::vector<size_t> letters = lettersOf(text);
  for (size_t i = 0; i + 1 < letters.size(); ++i) {
    std::string_view letter = text.substr(letters[i], letters[i + 1] - letters[i]);
    Result<std::u32string> decoded = decodeUtf8(letter);
    char32_t point = decoded ? decoded->front() : U'\ufffd';
    CodeClass kind = classOf(point);
    if (point == static_cast<char32_t>(quote) || point == '\\') {
      result += strCat('\\', letter);
    } else if (point == '\n' || point == '\r' || point == '\t') {
      result += point == '\n' ? "\\n" : point == '\r' ? "\\r" : "\\t";
    } else if (point != ' ' && (kind == CodeClass::Other || kind == CodeClass::Space)) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      int digits = point < 0x100 ? 2 : point < 0x10000 ? 4 : 8;
      result += point < 0x100 ? "\\x" : point < 0x10000 ? "\\u" : "\\U";
      for (int digit = digits - 1; digit >= 0; --digit) {
        result.push_back(kDigits[(point >> (4 * digit)) & 15]);
      }
    } else {
      result += letter;
    }
  }
  return result + quote;
}

} // namespace

Value::Value(List list) {
  for (const Value &part : list) {
    hold(part);
  }
  content = std::make_shared<List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto &[key, part] : dict) {
    hold(key);
    hold(part);
  }
  content = std::make_shared<Dict>(std::move(dict));
}

void Value::hold(const Value &part) {
  int height = part.isNamespace() ? kTooHigh : part.heightInside + 1;
  heightInside = static_cast<uint8_t>(std::clamp<int>(height, heightInside, kTooHigh));
  uint64_t cost = part.cost() + costInside;
  costInside = static_cast<uint32_t>(std::min<uint64_t>(cost, UINT32_MAX));
}

uint64_t Value::cost() const {
  const Text *value = text();
  return value ? 1 + value->bytes.size() / 64 : costInside;
}

std::optional<int64_t> Value::integer() const {
  if (std::optional<bool> truth = boolean()) {
    return *truth ? 1 : 0;
  }
  return get<int64_t>();
}

std::optional<double> Value::number() const {
  if (std::optional<int64_t> whole = integer()) {
    return static_cast<double>(*whole);
  }
  return get<double>();
}

bool Value::isTrue() const {
  if (std::optional<double> value = number()) {
    return *value != 0;
  }
  if (const Text *value = text()) {
    return !value->bytes.empty();
  }
  if (const List *value = list()) {
    return !value->empty();
  }
  if (const Dict *value = dict()) {
    return isNamespace() || !value->empty();
  }
  return function() != nullptr;
}

bool Value::equals(const Value &other) const {
  if (isUndefined() || other.isUndefined()) {
    return isUndefined() && other.isUndefined();
  }
  if (isNone() || other.isNone()) {
    return isNone() && other.isNone();
  }
  std::optional<double> number = this->number(), otherNumber = other.number();
  if (number || otherNumber) {
    return number && otherNumber && *number == *otherNumber;
  }
  if (text() || other.text()) {
    return text() && other.text() && text()->bytes == other.text()->bytes;
  }
  if (list() && other.list()) {
    return isTupleOrNamespace == other.isTupleOrNamespace &&
           std::ranges::equal(*list(), *other.list(),
                              [](const Value &a, const Value &b) { return a.equals(b); });
  }
  if (dict() && other.dict()) {
    return dict() == other.dict() || (dict()->size() == other.dict()->size() &&
                                      std::ranges::all_of(*dict(), [&](const auto &entry) {
                                        const Value *found = other.find(entry.first);
                                        return found && found->equals(entry.second);
                                      }));
  }
  return function() && function() == other.function();
}

std::optional<bool> Value::isBefore(const Value &other) const {
  std::optional<double> number = this->number(), otherNumber = other.number();
  if (number && otherNumber) {
    return *number < *otherNumber;
  }
  if (text() && other.text()) {
    return text()->bytes < other.text()->bytes;
  }
  return std::nullopt;
}

std::string_view Value::kind() const {
  return isUndefined()                              ? "undefined"
         : isNone()                                 ? "NoneType"
         : std::holds_alternative<bool>(content)    ? "bool"
         : std::holds_alternative<int64_t>(content) ? "int"
         : std::holds_alternative<double>(content)  ? "float"
         : text()                                   ? "str"
         : list() && isTupleOrNamespace             ? "tuple"
         : list()                                   ? "list"
         : isNamespace()                            ? "namespace"
         : dict()                                   ? "dict"
                                                    : "function";
}

Text Value::written() const {
  if (const Text *value = text()) {
    return *value;
  }
  return isUndefined() ? Text() : Text::ofData(represented());
}

std::string Value::represented() const {
  if (isUndefined() || isNone()) {
    return isNone() ? "None" : "Undefined";
  }
  if (std::optional<bool> truth = boolean()) {
    return *truth ? "True" : "False";
  }
  if (std::optional<int64_t> whole = integer()) {
    return std::to_string(*whole);
  }
  if (std::optional<double> value = number()) {
    return numberText(*value);
  }
  if (const Text *value = text()) {
    return quoted(value->bytes);
  }
  std::string result;
  if (const List *values = list()) {
    for (const Value &value : *values) {
      result += strCat(result.empty() ? "" : ", ", value.represented());
    }
    bool isSingle = isTupleOrNamespace && values->size() == 1;
    return isTupleOrNamespace ? strCat('(', result, isSingle ? "," : "", ')')
                              : strCat('[', result, ']');
  }
  if (const Dict *entries = dict()) {
    for (const auto &[key, value] : *entries) {
      result += strCat(result.empty() ? "" : ", ", key.represented(), ": ", value.represented());
    }
    return strCat('{', result, '}');
  }
  return "<function>";
}

const Value *Value::find(const Value &key) const {
  const Dict *entries = dict();
  for (size_t i = 0; entries && i < entries->size(); ++i) {
    if ((*entries)[i].first.equals(key)) {
      return &(*entries)[i].second;
    }
  }
  return nullptr;
}

const Value *Value::find(std::string_view key) const {
  const Dict *entries = dict();
  for (size_t i = 0; entries && i < entries->size(); ++i) {
    const Text *name = (*entries)[i].first.text();
    if (name && name->bytes == key) {
      return &(*entries)[i].second;
    }
  }
  return nullptr;
}

void Value::set(const Value &key, Value value) {
  if (!isNamespace() || value.isNamespace()) {
    hold(key);
    hold(value);
  }
  for (auto &[known, old] : *dict()) {
    if (known.equals(key)) {
      old = std::move(value);
      return;
    }
  }
  dict()->emplace_back(key, std::move(value));
}

std::vector<size_t> lettersOf(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 || at == 0) {
      starts.push_back(at);
    }
  }
  starts.push_back(text.size());
  return starts;
}

const Value *Arguments::get(size_t position, std::string_view name) const {
  if (position < positional.size()) {
    return &positional[position];
  }
  for (const auto &[known, value] : named) {
    if (known == name) {
      return &value;
    }
  }
  return nullptr;
}

//===--- JSON ---===//

namespace {

class JsonWriter {
public:
  explicit JsonWriter(const JsonForm &form) : form(form) {}

  Status write(const Value &value, int depth);
  Text result;

private:
  void add(std::string_view text) { result.append(Text::ofData(text)); }
  void addText(const Text &text);
  void startLine(int depth) {
    if (form.indent) {
      add(strCat('\n', std::string(static_cast<size_t>(*form.indent * depth), ' ')));
    }
  }
  void addEscape(char32_t unit) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    add(strCat("\\u", kDigits[(unit >> 12) & 15], kDigits[(unit >> 8) & 15],
               kDigits[(unit >> 4) & 15], kDigits[unit & 15]));
  }

  const JsonForm &form;
};

void JsonWriter::addText(const Text &text) {
  add("\"");
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    unsigned char byte = static_cast<unsigned char>(text.bytes[at]);
    constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kSigns = "\"\\nrtbf";
    size_t known = kPlain.find(static_cast<char>(byte));
    if (known != kPlain.npos) {
      add(strCat('\\', kSigns[known]));
    } else if (byte < 32) {
      addEscape(byte);
    } else if (byte < 128 || !form.ensureAscii) {
      result.append(text.part(at, 1));
    } else {
      size_t size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      Result<std::u32string> points = decodeUtf8(std::string_view(text.bytes).substr(at, size));
      char32_t point = points && !points->empty() ? points->front() : U'\ufffd';
      if (point >= 0x10000) {
        addEscape(0xd800 + ((point - 0x10000) >> 10));
        addEscape(0xdc00 + ((point - 0x10000) & 0x3ff));
      } else {
        addEscape(point);
      }
      at += size - 1;
    }
  }
  add("\"");
}

Status JsonWriter::write(const Value &value, int depth) {
  if (result.bytes.size() > form.mostBytes) {
    return Status::error(ErrorId::TemplateFailed,
                         strCat("JSON of more than ", form.mostBytes, " bytes"));
  }
  if (value.isUndefined() || value.function()) {
    return Status::error(ErrorId::TemplateFailed,
                         strCat("a value of type ", value.kind(), " cannot be written as JSON"));
  }
  // Python's separator without a space where lines are broken.
  std::string item = form.indent && form.itemSeparator == ", " ? "," : form.itemSeparator;
  if (value.isNone()) {
    add("null");
  } else if (std::optional<bool> truth = value.boolean()) {
    add(*truth ? "true" : "false");
  } else if (value.isNumber()) {
    add(value.represented());
  } else if (const Text *text = value.text()) {
    addText(*text);
  } else if (const List *list = value.list()) {
    add("[");
    for (size_t i = 0; i < list->size(); ++i) {
      add(i == 0 ? "" : item);
      startLine(depth + 1);
      TENON_TRY(write((*list)[i], depth + 1));
    }
    if (!list->empty()) {
      startLine(depth);
    }
    add("]");
  } else if (const Dict *dict = value.dict()) {
    Dict entries = *dict;
    if (form.sortKeys) {
      std::ranges::stable_sort(entries, [](const auto &a, const auto &b) {
        return a.first.isBefore(b.first).value_or(false);
      });
    }
    add("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      add(i == 0 ? "" : item);
      startLine(depth + 1);
      const Text *key = entries[i].first.text();
      addText(key ? *key : Text::ofData(entries[i].first.represented()));
      add(form.keySeparator);
      TENON_TRY(write(entries[i].second, depth + 1));
    }
    if (!entries.empty()) {
      startLine(depth);
    }
    add("}");
  }
  return Status::ok();
}

} // namespace

Result<Text> toJson(const Value &value, const JsonForm &form) {
  JsonWriter writer(form);
  TENON_TRY(writer.write(value, 0));
  return std::move(writer.result);
}

} // namespace tenon::generate::jinja
