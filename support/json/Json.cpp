// A handler of nlohmann-json's events builds the tree: the library's own builder takes any depth,
// looks each key up among all before it, and copies what an object holds each time that it grows.

#include "support/json/StrictJson.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

using Fault = JsonFault::Kind;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Gives the library, which has no words for them, a number in the place of NaN, Inf and Infinity,
/// and tells afterwards which of them it was.
class NumberWords {
public:
  explicit NumberWords(std::string_view text) : end(text.data() + text.size()), last(text.data()) {}

  static bool areIn(std::string_view text) {
    return text.find("NaN") != npos || text.find("Inf") != npos;
  }

  /// Called for one character after the other.
  char read(const char *at) {
    if (at >= wordEnd && isWithinString) {
      isWithinString = *at != '"' || isEscaped;
      isEscaped = *at == '\\' && !isEscaped;
    } else if (at >= wordEnd) {
      isWithinString = *at == '"';
      beginWord(at);
      last = std::string_view(" \t\r\n").find(*at) == npos ? at : last;
    }
    return at >= wordEnd ? *at : at == wordEnd - wordBytes + 1 ? '.' : '0';
  }

  /// The word that the number stands for which was read last; 0 where it is none.
  double take() { return std::exchange(word, 0); }

private:
  void beginWord(const char *at) {
    for (std::string_view name : {"NaN", "Infinity", "Inf"}) {
      size_t left = static_cast<size_t>(end - at);
      bool begins = *last == '[' || *last == ',' || (*last == '-' && last + 1 == at && *at == 'I'),
           ends = left > name.size() && std::string_view(",] \t\r\n").find(at[name.size()]) != npos;
      if (begins && ends && std::string_view(at, left).starts_with(name)) {
        word = *at == 'N' ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
        wordBytes = static_cast<ptrdiff_t>(name.size());
        wordEnd = at + wordBytes;
      }
    }
  }

  static constexpr size_t npos = std::string_view::npos;
  const char *end;
  const char *last; ///< character that is no blank
  const char *wordEnd = nullptr;
  ptrdiff_t wordBytes = 0;
  double word = 0;
  bool isWithinString = false, isEscaped = false;
};

struct WordIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = ptrdiff_t;
  using pointer = const char *;
  using reference = char;

  char operator*() const { return words->read(at); }
  WordIterator &operator++() {
    ++at;
    return *this;
  }
  bool operator==(const WordIterator &other) const { return at == other.at; }

  NumberWords *words;
  const char *at;
};

/// Members wait in one stack, keys in another, until the object or array around them is closed.
class JsonBuilder {
public:
  JsonBuilder(const JsonLimits &limits, bool acceptsEqualKeys, std::vector<NumberList> *lists,
              NumberWords &words)
      : limits(limits), acceptsEqualKeys(acceptsEqualKeys), lists(lists), words(words) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) {
    return isInList() ? pushNumber(NumberList::Kind::Bool, value) : put(value);
  }
  bool number_integer(int64_t value) {
    return isInList() ? pushNumber(NumberList::Kind::Signed, std::bit_cast<uint64_t>(value))
                      : put(value);
  }
  bool number_unsigned(uint64_t value) {
    return isInList() ? pushNumber(NumberList::Kind::Unsigned, value) : put(value);
  }
  bool number_float(double value, const std::string &) {
    double word = words.take();
    if (word != 0 && !isInList()) {
      return refuse(Fault::Syntax,
                    "NaN or an infinite value outside '" + std::string(limits.listKey) + "'");
    }
    value = word != 0 ? std::copysign(word, value) : value;
    // Integers beyond 64 bits come as floats too.
    return isInList() ? pushNumber(NumberList::Kind::Float, std::bit_cast<uint64_t>(value))
                      : put(value);
  }
  bool string(std::string &value) { return put(std::move(value)); }
  bool binary(Json::binary_t &) { return refuse(Fault::Syntax, "binary values"); }

  bool start_object(size_t) { return open(true); }
  bool key(std::string &name) {
    if (keys.size() == limits.maxValues) {
      return refuse(Fault::Values, "too many values");
    }
    keys.push_back(std::move(name));
    return true;
  }
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  bool parse_error(size_t position, const std::string &, const Json::exception &error);

  Json takeRoot() { return std::move(values.front()); }

  std::optional<JsonFault> fault;

private:
  struct Open {
    size_t firstValue; ///< in `values`
    size_t firstKey;   ///< in `keys`
    bool isObject;
  };

  bool isInList() const { return listDepth != 0; }
  /// Where an array becomes a list, so that no number of the text can stand for one.
  bool isListPlace() const {
    if (!lists || opened.empty() || !opened.back().isObject || keys.back() != limits.listKey) {
      return false;
    }
    size_t above = opened.back().firstKey; // keys of the objects around
    return limits.listParent.empty() ||
           (opened.size() == 3 && !opened[1].isObject && keys[above - 1] == limits.listParent);
  }
  bool refuse(Fault kind, std::string text) {
    fault = {kind, std::move(text)};
    return false;
  }
  bool refuseInList() {
    return refuse(Fault::NoNumbers,
                  "'" + std::string(limits.listKey) + "' contains something that is not a number");
  }
  bool pushNumber(NumberList::Kind kind, uint64_t bits) {
    NumberList &list = lists->back();
    if (list.size() == list.kinds.capacity() && !growList(list)) {
      return false;
    }
    list.kinds.push_back(kind);
    list.values.push_back(bits);
    return true;
  }
  bool growList(NumberList &list);
  bool count() {
    return ++valueCount <= limits.maxValues || refuse(Fault::Values, "too many values");
  }
  bool put(Json value);
  bool open(bool isObject);
  /// Replaces the members of what is closed by it.
  void close(size_t firstValue, Json value) {
    values.resize(firstValue);
    values.push_back(std::move(value));
    opened.pop_back();
  }
  bool mergeEqualKeys(const Open &object);

  const JsonLimits &limits;
  bool acceptsEqualKeys;
  std::vector<NumberList> *lists;
  NumberWords &words;
  std::vector<Json> values;
  std::vector<std::string> keys;
  std::vector<Open> opened;
  std::vector<size_t> order; ///< of the keys of an object; kept for its memory
  size_t listDepth = 0;
  size_t valueCount = 0;
  uint64_t listBytes = 0; ///< that the lists take
};

bool JsonBuilder::growList(NumberList &list) {
  constexpr size_t kFirst = 64;
  uint64_t before = list.bytes();
  size_t capacity = std::max(kFirst, list.kinds.capacity() + list.kinds.capacity() / 2);
  uint64_t after = capacity * (sizeof(NumberList::Kind) + sizeof(uint64_t));
  if (limits.mayHold && !(*limits.mayHold)(listBytes + after - before)) {
    return refuse(Fault::Memory, "out of memory for its numbers");
  }
  list.kinds.reserve(capacity);
  list.values.reserve(capacity);
  listBytes += after - before;
  return true;
}

bool JsonBuilder::put(Json value) {
  if (isInList()) {
    return refuseInList();
  }
  if (isListPlace()) {
    return refuse(Fault::NoNumbers, "'" + std::string(limits.listKey) + "' is not an array");
  }
  values.push_back(std::move(value));
  return count();
}

bool JsonBuilder::open(bool isObject) {
  if (isInList() || isListPlace()) {
    return refuseInList();
  }
  if (opened.size() == limits.maxDepth) {
    return refuse(Fault::Depth, "values nested too deeply");
  }
  opened.push_back({values.size(), keys.size(), isObject});
  return count();
}

bool JsonBuilder::start_array(size_t) {
  if (isInList()) {
    return ++listDepth <= limits.maxDepth || refuse(Fault::Depth, "arrays nested too deeply");
  }
  if (isListPlace()) {
    values.push_back(lists->size());
    lists->emplace_back();
    listDepth = 1;
    return true;
  }
  return open(false);
}

bool JsonBuilder::end_array() {
  if (isInList()) {
    --listDepth;
    return true;
  }
  size_t first = opened.back().firstValue;
  std::vector<Json>::iterator begin = values.begin() + static_cast<ptrdiff_t>(first);
  close(first,
        Json::array_t(std::make_move_iterator(begin), std::make_move_iterator(values.end())));
  return true;
}

/// The value of the last of equal keys goes to the place of the first; what it replaces and the
/// places of the others are discarded.
bool JsonBuilder::mergeEqualKeys(const Open &object) {
  order.resize(keys.size() - object.firstKey);
  std::iota(order.begin(), order.end(), 0);
  const std::string *names = keys.data() + object.firstKey;
  std::ranges::sort(order, [&](size_t a, size_t b) {
    int compared = names[a].compare(names[b]);
    return compared < 0 || (compared == 0 && a < b);
  });
  Json *members = values.data() + object.firstValue;
  for (size_t i = order.size(); i-- > 1;) {
    if (names[order[i]] != names[order[i - 1]]) {
      continue;
    }
    if (!acceptsEqualKeys) {
      return refuse(Fault::EqualKeys, "key '" + names[order[i]].substr(0, 64) + "' occurs twice");
    }
    members[order[i - 1]] = std::move(members[order[i]]);
    members[order[i]] = Json::value_t::discarded;
  }
  return true;
}

bool JsonBuilder::end_object() {
  Open object = opened.back();
  if (!mergeEqualKeys(object)) {
    return false;
  }
  Json::object_t members;
  members.reserve(keys.size() - object.firstKey);
  for (size_t i = object.firstKey, value = object.firstValue; i < keys.size(); ++i, ++value) {
    if (!values[value].is_discarded()) {
      members.emplace_back(std::move(keys[i]), std::move(values[value]));
    }
  }
  keys.resize(object.firstKey);
  close(object.firstValue, std::move(members));
  return true;
}

bool JsonBuilder::parse_error(size_t position, const std::string &, const Json::exception &error) {
  // "[name] where: syntax error while parsing value - what; last read: ..."
  std::string_view text = error.what();
  text.remove_prefix(text.find("] ") == std::string_view::npos ? 0 : text.find("] ") + 2);
  text.remove_prefix(text.find(" - ") == std::string_view::npos ? 0 : text.find(" - ") + 3);
  text = text.substr(0, text.find("; last read")).substr(0, 200);
  return refuse(Fault::Syntax, "byte " + std::to_string(position) + ": " + std::string(text));
}

std::optional<JsonFault> build(std::string_view text, const JsonLimits &limits,
                               bool acceptsEqualKeys, std::vector<NumberList> *lists, Json &value) {
  NumberWords words(text);
  JsonBuilder builder(limits, acceptsEqualKeys, lists, words);
  // Most texts have none, and are read faster without a look at each character.
  const char *begin = text.data(), *end = begin + text.size();
  bool isWhole =
      lists && NumberWords::areIn(text)
          ? Json::sax_parse(WordIterator{&words, begin}, WordIterator{&words, end}, &builder)
          : Json::sax_parse(begin, end, &builder);
  if (isWhole) {
    value = builder.takeRoot();
  }
  return std::move(builder.fault);
}

} // namespace

std::optional<JsonFault> parseStrict(std::string_view text, const JsonLimits &limits, Json &value,
                                     std::vector<NumberList> *lists) {
  if (!limits.acceptsByteOrderMark && text.starts_with(kByteOrderMark)) {
    return JsonFault{Fault::Syntax, "byte 0: a byte order mark"};
  }
  std::optional<JsonFault> fault = build(text, limits, false, lists, value);
  if (!fault && limits.isObject && !value.is_object()) {
    fault = {Fault::NoObject, "the value is not an object"};
  }
  return fault;
}

Json parseJson(std::string_view text) {
  constexpr JsonLimits kNoLimits = {.maxDepth = SIZE_MAX};
  Json value(Json::value_t::discarded);
  build(text, kNoLimits, true, nullptr, value);
  return value;
}

std::string dumpJson(const Json &value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string dumpAscii(const Json &value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::optional<std::string> dumpUtf8(const Json &value) {
  try {
    return value.dump();
  } catch (const Json::exception &) {
    return std::nullopt;
  }
}

} // namespace tenon
