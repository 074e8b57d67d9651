// The filters and tests of templates, each a row of a table.
// One file: the filters and tests are one table.
#include "generate/template/Interpreter.h"

#include "support/text/Text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon::generate::jinja {
namespace {

using Filter = Result<Value> (*)(Interpreter &, const Value &, const Arguments &);
struct FilterRow {
  std::string_view name;
  Filter run;
};
struct TestRow {
  std::string_view name;
  bool (*holds)(const Value &, const Arguments &);
};

std::string textOf(const Value *value, std::string_view otherwise = "") {
  return value ? value->written().bytes : std::string(otherwise);
}

bool isWhite(char c) { return std::string_view(" \t\n\r\f\v").find(c) != std::string_view::npos; }

/// Each byte of a text by a function of ASCII letters.
template <typename Change> Result<Value> changed(Interpreter &self, const Value &x, Change change) {
  TENON_TRY(self.spend(x.cost()));
  Text text = x.written();
  char before = ' ';
  for (char &c : text.bytes) {
    char was = c;
    c = change(c, before);
    before = was;
  }
  return Value(std::move(text));
}
char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char raised(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
bool isLetter(char c) { return lowered(c) >= 'a' && lowered(c) <= 'z'; }

Result<Value> toJsonFilter(Interpreter &self, const Value &x, const Arguments &arguments) {
  JsonForm form;
  // transformers' own: no escapes for HTML.
  if (const Value *ascii = arguments.get(0, "ensure_ascii")) {
    form.ensureAscii = ascii->isTrue();
  }
  if (const Value *indent = arguments.get(1, "indent"); indent && !indent->isNone()) {
    constexpr int64_t kMostIndent = 100;
    form.indent = std::clamp<int64_t>(indent->integer().value_or(0), 0, kMostIndent);
  }
  if (const Value *separators = arguments.get(2, "separators");
      separators && separators->list() && separators->list()->size() == 2) {
    form.itemSeparator = textOf(&(*separators->list())[0]);
    form.keySeparator = textOf(&(*separators->list())[1]);
  }
  if (const Value *sorted = arguments.get(3, "sort_keys")) {
    form.sortKeys = sorted->isTrue();
  }
  TENON_TRY(self.spend(x.cost()));
  Result<Text> text = toJson(x, form);
  if (!text) {
    return self.fail(text.status().message());
  }
  TENON_TRY(self.spend(text->bytes.size() / 16));
  return Value(std::move(*text));
}

Result<Value> length(Interpreter &self, const Value &x, const Arguments &) {
  if (x.dict()) {
    return Value(static_cast<int64_t>(x.dict()->size()));
  }
  if (x.list()) {
    return Value(static_cast<int64_t>(x.list()->size()));
  }
  if (x.text()) {
    TENON_TRY(self.spend(x.cost()));
    return Value(static_cast<int64_t>(lettersOf(x.text()->bytes).size() - 1));
  }
  TENON_ASSIGN(List elements, elementsOf(self, x));
  return Value(static_cast<int64_t>(elements.size()));
}

Result<Value> otherwise(Interpreter &, const Value &x, const Arguments &arguments) {
  const Value *given = arguments.get(0, "default_value"), *also = arguments.get(1, "boolean");
  bool isMissing = x.isUndefined() || (also && also->isTrue() && !x.isTrue());
  return !isMissing ? x : given ? *given : Value(Text());
}

Result<Value> join(Interpreter &self, const Value &x, const Arguments &arguments) {
  const Value *between = arguments.get(0, "d"), *name = arguments.get(1, "attribute");
  TENON_ASSIGN(List elements, elementsOf(self, x));
  Text text;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i > 0 && between) {
      text.append(between->written());
    }
    Value element = elements[i];
    if (name) {
      TENON_ASSIGN(element, self.attribute(elements[i], textOf(name)));
    }
    TENON_TRY(self.spend(element.cost() + (between ? between->cost() : 0)));
    text.append(element.written());
  }
  return Value(std::move(text));
}

Result<Value> items(Interpreter &self, const Value &x, const Arguments &) {
  if (x.isUndefined()) {
    return Value(List());
  }
  if (!x.dict()) {
    return self.fail(strCat("a value of type ", x.kind(), " has no items"));
  }
  List list;
  for (const auto &[key, value] : *x.dict()) {
    list.push_back(Value::tuple({key, value}));
  }
  return Value(std::move(list));
}

Result<Value> asList(Interpreter &self, const Value &x, const Arguments &) {
  TENON_ASSIGN(List elements, elementsOf(self, x));
  return Value(std::move(elements));
}

Result<Value> trim(Interpreter &self, const Value &x, const Arguments &arguments) {
  TENON_TRY(self.spend(x.cost()));
  Text text = x.written();
  const Value *given = arguments.get(0, "chars");
  std::string chars = given ? textOf(given) : " \t\n\r\f\v";
  size_t begin = text.bytes.find_first_not_of(chars);
  size_t end = text.bytes.find_last_not_of(chars);
  return Value(begin == std::string::npos ? Text() : text.part(begin, end + 1 - begin));
}

Result<Value> replace(Interpreter &self, const Value &x, const Arguments &arguments) {
  const Value *from = arguments.get(0, "old"), *to = arguments.get(1, "new");
  if (!from || !to) {
    return self.fail("'replace' needs two texts");
  }
  TENON_TRY(self.spend(x.cost() * from->cost() + to->cost()));
  Text text = x.written(), result, with = to->written();
  std::string sought = textOf(from);
  std::optional<int64_t> count =
      arguments.get(2, "count") ? arguments.get(2, "count")->integer() : std::optional<int64_t>();
  for (size_t at = 0; at <= text.bytes.size();) {
    size_t found = sought.empty() || count == 0 ? std::string::npos : text.bytes.find(sought, at);
    size_t end = std::min(found, text.bytes.size());
    result.append(text.part(at, end - at));
    if (found == std::string::npos) {
      break;
    }
    result.append(with);
    TENON_TRY(self.spend(1 + with.bytes.size() / 16));
    at = found + sought.size();
    count = count ? std::optional(*count - 1) : count;
  }
  return Value(std::move(result));
}

Result<Value> indent(Interpreter &self, const Value &x, const Arguments &arguments) {
  const Value *width = arguments.get(0, "width"), *first = arguments.get(1, "first"),
              *blank = arguments.get(2, "blank");
  Text by = Text::ofTemplate(
      width && width->text() ? width->text()->bytes
                             : std::string(static_cast<size_t>(std::clamp<int64_t>(
                                               width ? width->integer().value_or(4) : 4, 0, 1000)),
                                           ' '));
  TENON_TRY(self.spend(x.cost()));
  Text text = x.written(), result;
  bool isFirst = true;
  for (size_t at = 0; at <= text.bytes.size();) {
    size_t end = std::min(text.bytes.find('\n', at), text.bytes.size());
    bool isBlank = at == end;
    TENON_TRY(self.spend(1 + by.bytes.size() / 16));
    if (isFirst ? first && first->isTrue() : !isBlank || (blank && blank->isTrue())) {
      result.append(by);
    }
    result.append(text.part(at, end - at));
    if (end < text.bytes.size()) {
      result.append(text.part(end, 1));
    }
    isFirst = false;
    at = end + 1;
  }
  return Value(std::move(result));
}

/// A function of an element that map, select and their kin apply.
Result<List> filtered(Interpreter &self, const Value &x, const Arguments &arguments,
                      bool byAttribute, bool wanted) {
  if (!x.isTrue()) { // Jinja2 asks that first, so that none has no elements here
    return List();
  }
  TENON_ASSIGN(List elements, elementsOf(self, x));
  size_t used = byAttribute ? 1 : 0;
  if (byAttribute && arguments.positional.empty()) {
    return self.fail("the name of an attribute is missing");
  }
  const Value *test = arguments.positional.size() > used ? &arguments.positional[used] : nullptr;
  Arguments rest;
  for (size_t i = used + 1; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  List taken;
  for (Value &element : elements) {
    Value value = element;
    if (byAttribute) {
      TENON_ASSIGN(value, self.attribute(element, textOf(&arguments.positional[0])));
    }
    bool holds = value.isTrue();
    if (test) {
      TENON_ASSIGN(Value result, self.applyTest(textOf(test), value, rest));
      holds = result.isTrue();
    }
    TENON_TRY(self.spend(1));
    if (holds == wanted) {
      taken.push_back(std::move(element));
    }
  }
  return taken;
}

template <bool byAttribute, bool wanted>
Result<Value> choose(Interpreter &self, const Value &x, const Arguments &arguments) {
  TENON_ASSIGN(List taken, filtered(self, x, arguments, byAttribute, wanted));
  return Value(std::move(taken));
}

Result<Value> map(Interpreter &self, const Value &x, const Arguments &arguments) {
  if (!x.isTrue()) {
    return Value(List());
  }
  TENON_ASSIGN(List elements, elementsOf(self, x));
  const Value *name = nullptr, *fallback = nullptr;
  for (const auto &[key, value] : arguments.named) {
    name = key == "attribute" ? &value : name;
    fallback = key == "default" ? &value : fallback;
  }
  Arguments rest;
  for (size_t i = 1; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  if (!name && arguments.positional.empty()) {
    return self.fail("'map' needs an attribute or the name of a filter");
  }
  for (Value &element : elements) {
    if (name) {
      TENON_ASSIGN(Value value, self.attribute(element, textOf(name)));
      element = value.isUndefined() && fallback ? *fallback : value;
    } else {
      TENON_ASSIGN(element, self.applyFilter(textOf(&arguments.positional[0]), element, rest));
    }
    TENON_TRY(self.spend(1));
  }
  return Value(std::move(elements));
}

/// The order of `sort`, `unique` and `dictsort`: text without regard to case.
Result<Value> sortKey(Interpreter &self, const Value &x) {
  return x.text() ? changed(self, x, [](char c, char) { return lowered(c); }) : Result<Value>(x);
}

Result<Value> sortBy(Interpreter &self, List elements, const Arguments &arguments,
                     const std::function<Result<Value>(const Value &)> &keyOf) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value &element : elements) {
    TENON_TRY(self.spend(16 * element.cost()));
    TENON_ASSIGN(Value key, keyOf(element));
    keyed.emplace_back(std::move(key), std::move(element));
  }
  for (size_t i = 1; i < keyed.size(); ++i) {
    if (!keyed[i].first.isBefore(keyed[0].first)) {
      return self.fail(strCat("values of type ", keyed[i].first.kind(), " and ",
                              keyed[0].first.kind(), " cannot be ordered"));
    }
  }
  std::ranges::stable_sort(keyed, [](const auto &a, const auto &b) {
    return a.first.isBefore(b.first).value_or(false);
  });
  List sorted;
  for (auto &[key, element] : keyed) {
    sorted.push_back(std::move(element));
  }
  const Value *reverse = arguments.get(0, "reverse");
  if (reverse && reverse->isTrue()) {
    std::ranges::reverse(sorted);
  }
  return Value(std::move(sorted));
}

Result<Value> sort(Interpreter &self, const Value &x, const Arguments &arguments) {
  TENON_ASSIGN(List elements, elementsOf(self, x));
  const Value *name = arguments.get(2, "attribute"), *exact = arguments.get(1, "case_sensitive");
  return sortBy(self, std::move(elements), arguments, [&](const Value &element) -> Result<Value> {
    Value key = element;
    if (name) {
      TENON_ASSIGN(key, self.attribute(element, textOf(name)));
    }
    return exact && exact->isTrue() ? Result<Value>(key) : sortKey(self, key);
  });
}

Result<Value> dictsort(Interpreter &self, const Value &x, const Arguments &arguments) {
  TENON_ASSIGN(Value pairs, items(self, x, arguments));
  const Value *by = arguments.get(1, "by");
  size_t place = textOf(by) == "value" ? 1 : 0;
  Arguments order;
  if (const Value *reverse = arguments.get(2, "reverse")) {
    order.positional.push_back(*reverse);
  }
  return sortBy(self, *pairs.list(), order,
                [&](const Value &pair) { return sortKey(self, (*pair.list())[place]); });
}

Result<Value> unique(Interpreter &self, const Value &x, const Arguments &) {
  TENON_ASSIGN(List elements, elementsOf(self, x));
  List taken, keys;
  for (Value &element : elements) {
    TENON_ASSIGN(Value key, sortKey(self, element));
    TENON_TRY(self.spend(1 + keys.size() * key.cost() / 16));
    if (std::ranges::none_of(keys, [&](const Value &known) { return known.equals(key); })) {
      keys.push_back(std::move(key));
      taken.push_back(std::move(element));
    }
  }
  return Value(std::move(taken));
}

template <bool isLast> Result<Value> end(Interpreter &self, const Value &x, const Arguments &) {
  TENON_ASSIGN(List elements, elementsOf(self, x));
  return elements.empty() ? Value::undefined("an element")
         : isLast         ? elements.back()
                          : elements.front();
}

template <bool isMost> Result<Value> extreme(Interpreter &self, const Value &x, const Arguments &) {
  TENON_ASSIGN(List elements, elementsOf(self, x));
  Value best = elements.empty() ? Value::undefined("an element") : elements.front();
  for (const Value &element : elements) {
    std::optional<bool> isBefore = isMost ? best.isBefore(element) : element.isBefore(best);
    best = isBefore.value_or(false) ? element : best;
  }
  return best;
}

Result<Value> reverse(Interpreter &self, const Value &x, const Arguments &) {
  TENON_ASSIGN(List elements, elementsOf(self, x));
  std::ranges::reverse(elements);
  if (!x.text()) {
    return Value(std::move(elements));
  }
  Text text;
  for (const Value &letter : elements) {
    text.append(*letter.text());
  }
  return Value(std::move(text));
}

Result<Value> toInteger(Interpreter &, const Value &x, const Arguments &arguments) {
  const Value *given = arguments.get(0, "default");
  Value fallback = given ? *given : Value(int64_t{0});
  if (const Text *text = x.text()) {
    int64_t value = 0;
    std::string trimmed(text->bytes);
    std::erase_if(trimmed, isWhite);
    auto end = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
    return end.ec == std::errc() && end.ptr == trimmed.data() + trimmed.size() ? Value(value)
                                                                               : fallback;
  }
  std::optional<double> number = x.number();
  return number && std::fabs(*number) < 9e18 ? Value(static_cast<int64_t>(*number)) : fallback;
}

Result<Value> toFloat(Interpreter &, const Value &x, const Arguments &arguments) {
  const Value *given = arguments.get(0, "default");
  if (const Text *text = x.text()) {
    double value = 0;
    auto end = std::from_chars(text->bytes.data(), text->bytes.data() + text->bytes.size(), value);
    return end.ec == std::errc() ? Value(value) : given ? *given : Value(0.0);
  }
  return x.number() ? Value(*x.number()) : given ? *given : Value(0.0);
}

Result<Value> absolute(Interpreter &self, const Value &x, const Arguments &) {
  if (std::optional<int64_t> whole = x.integer()) {
    return Value(*whole < 0 && *whole != INT64_MIN ? -*whole : *whole);
  }
  return x.number() ? Result<Value>(Value(std::fabs(*x.number())))
                    : Result<Value>(self.fail("'abs' needs a number"));
}

Result<Value> roundTo(Interpreter &self, const Value &x, const Arguments &arguments) {
  const Value *digits = arguments.get(0, "precision");
  double factor = std::pow(10.0, static_cast<double>(digits ? digits->integer().value_or(0) : 0));
  return x.number() ? Result<Value>(Value(std::nearbyint(*x.number() * factor) / factor))
                    : Result<Value>(self.fail("'round' needs a number"));
}

constexpr FilterRow kFilters[] = {
    {"abs", absolute},
    {"capitalize",
     [](Interpreter &self, const Value &x, const Arguments &) -> Result<Value> {
       bool isFirst = true;
       return changed(self, x, [&](char c, char) {
         c = isFirst ? raised(c) : lowered(c);
         isFirst = false;
         return c;
       });
     }},
    {"count", length},
    {"d", otherwise},
    {"default", otherwise},
    {"dictsort", dictsort},
    {"first", end<false>},
    {"float", toFloat},
    {"indent", indent},
    {"int", toInteger},
    {"items", items},
    {"join", join},
    {"last", end<true>},
    {"length", length},
    {"list", asList},
    {"lower",
     [](Interpreter &self, const Value &x, const Arguments &) -> Result<Value> {
       return changed(self, x, [](char c, char) { return lowered(c); });
     }},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", choose<false, false>},
    {"rejectattr", choose<true, false>},
    {"replace", replace},
    {"reverse", reverse},
    {"round", roundTo},
    {"safe",
     [](Interpreter &self, const Value &x, const Arguments &) -> Result<Value> {
       TENON_TRY(self.spend(x.cost()));
       return Value::markup(x.written());
     }},
    {"select", choose<false, true>},
    {"selectattr", choose<true, true>},
    {"sort", sort},
    {"string",
     [](Interpreter &self, const Value &x, const Arguments &) -> Result<Value> {
       TENON_TRY(self.spend(x.cost()));
       return Value(x.written());
     }},
    {"title",
     [](Interpreter &self, const Value &x, const Arguments &) -> Result<Value> {
       return changed(
           self, x, [](char c, char before) { return isLetter(before) ? lowered(c) : raised(c); });
     }},
    {"tojson", toJsonFilter},
    {"trim", trim},
    {"unique", unique},
    {"upper",
     [](Interpreter &self, const Value &x, const Arguments &) -> Result<Value> {
       return changed(self, x, [](char c, char) { return raised(c); });
     }},
};

bool equalsFirst(const Value &x, const Arguments &arguments) {
  return !arguments.positional.empty() && x.equals(arguments.positional[0]);
}
/// Both in order, where the first argument is before x (or after it, as `isGreater` says).
template <bool isGreater, bool orEqual> bool ordered(const Value &x, const Arguments &arguments) {
  if (arguments.positional.empty()) {
    return false;
  }
  const Value &other = arguments.positional[0];
  return (orEqual && x.equals(other)) ||
         (isGreater ? other.isBefore(x) : x.isBefore(other)).value_or(false);
}
std::optional<int64_t> remainder(const Value &x, int64_t by) {
  std::optional<int64_t> whole = x.integer();
  return whole && by != 0 ? std::optional(by == -1 ? 0 : *whole % by) : std::nullopt;
}

constexpr TestRow kTests[] = {
    {"==", equalsFirst},
    {"boolean", [](const Value &x, const Arguments &) { return x.boolean().has_value(); }},
    {"callable", [](const Value &x, const Arguments &) { return x.function() != nullptr; }},
    {"defined", [](const Value &x, const Arguments &) { return !x.isUndefined(); }},
    {"divisibleby",
     [](const Value &x, const Arguments &a) {
       return !a.positional.empty() && remainder(x, a.positional[0].integer().value_or(0)) == 0;
     }},
    {"eq", equalsFirst},
    {"equalto", equalsFirst},
    {"even", [](const Value &x, const Arguments &) { return remainder(x, 2) == 0; }},
    {"false", [](const Value &x, const Arguments &) { return x.boolean() == false; }},
    {"float", [](const Value &x, const Arguments &) { return x.kind() == "float"; }},
    {"ge", ordered<true, true>},
    {"greaterthan", ordered<true, false>},
    {"gt", ordered<true, false>},
    {"in",
     [](const Value &x, const Arguments &a) {
       const List *list = a.positional.empty() ? nullptr : a.positional[0].list();
       const Text *text = a.positional.empty() ? nullptr : a.positional[0].text();
       return (list && std::ranges::any_of(*list, [&](auto &each) { return each.equals(x); })) ||
              (text && x.text() && text->bytes.find(x.text()->bytes) != std::string::npos) ||
              (!a.positional.empty() && a.positional[0].find(x));
     }},
    {"integer", [](const Value &x, const Arguments &) { return x.integer() && !x.boolean(); }},
    {"iterable",
     [](const Value &x, const Arguments &) {
       return x.list() || x.dict() || x.text() || x.isUndefined();
     }},
    {"le", ordered<false, true>},
    {"lower",
     [](const Value &x, const Arguments &) {
       return x.text() &&
              std::ranges::none_of(x.text()->bytes, [](char c) { return c != lowered(c); });
     }},
    {"lessthan", ordered<false, false>},
    {"lt", ordered<false, false>},
    {"mapping", [](const Value &x, const Arguments &) { return x.dict() != nullptr; }},
    {"ne", [](const Value &x, const Arguments &a) { return !equalsFirst(x, a); }},
    {"none", [](const Value &x, const Arguments &) { return x.isNone(); }},
    {"number", [](const Value &x, const Arguments &) { return x.isNumber(); }},
    {"odd", [](const Value &x, const Arguments &) { return remainder(x, 2).value_or(0) != 0; }},
    {"sequence",
     [](const Value &x, const Arguments &) { return x.list() || x.dict() || x.text(); }},
    {"string", [](const Value &x, const Arguments &) { return x.text() != nullptr; }},
    {"true", [](const Value &x, const Arguments &) { return x.boolean() == true; }},
    {"undefined", [](const Value &x, const Arguments &) { return x.isUndefined(); }},
    {"upper",
     [](const Value &x, const Arguments &) {
       return x.text() &&
              std::ranges::none_of(x.text()->bytes, [](char c) { return c != raised(c); });
     }},
};

} // namespace

Result<Value> Interpreter::applyFilter(std::string_view name, const Value &x,
                                       const Arguments &arguments) {
  for (const FilterRow &row : kFilters) {
    if (row.name == name) {
      return row.run(*this, x, arguments);
    }
  }
  return fail(strCat("the filter '", name, "' is not supported"));
}

Result<Value> Interpreter::applyTest(std::string_view name, const Value &x,
                                     const Arguments &arguments) {
  for (const TestRow &row : kTests) {
    if (row.name == name) {
      TENON_TRY(arguments.positional.empty() ? spend(x.cost())
                                             : spendOnSearch(x, arguments.positional[0]));
      return Value(row.holds(x, arguments));
    }
  }
  return fail(strCat("the test '", name, "' is not supported"));
}

} // namespace tenon::generate::jinja
