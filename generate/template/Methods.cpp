// What templates call: methods of Python's strings, lists and dictionaries, and the functions of
// transformers' environment.
#include "generate/template/Interpreter.h"

#include "support/text/Text.h"

#include <algorithm>
#include <ctime>

namespace tenon::generate::jinja {
namespace {

using Method = Result<Value> (*)(Interpreter &, const Value &, const Arguments &);
struct MethodRow {
  std::string_view name;
  Method run;
};

constexpr std::string_view kWhite = " \t\n\r\f\v";

Result<Value> byFilter(std::string_view name, Interpreter &self, const Value &x,
                       const Arguments &a) {
  return self.applyFilter(name, x, a);
}

template <bool atBegin, bool atEnd>
Result<Value> strip(Interpreter &, const Value &x, const Arguments &arguments) {
  const Text &text = *x.text();
  const Value *given = arguments.get(0, "chars");
  std::string chars(given && given->text() ? std::string_view(given->text()->bytes) : kWhite);
  size_t begin = atBegin ? text.bytes.find_first_not_of(chars) : 0;
  size_t last = text.bytes.find_last_not_of(chars);
  size_t end = atEnd ? (last == std::string::npos ? 0 : last + 1) : text.bytes.size();
  return Value(begin == std::string::npos || begin >= end ? Text() : text.part(begin, end - begin));
}

template <bool atBegin>
Result<Value> affix(Interpreter &self, const Value &x, const Arguments &arguments) {
  const Value *sought = arguments.get(0, "prefix");
  if (!sought || (!sought->text() && !sought->list())) {
    return self.fail("'startswith' and 'endswith' need a text");
  }
  auto holds = [&](const Value &each) {
    std::string_view text = x.text()->bytes;
    return each.text() &&
           (atBegin ? text.starts_with(each.text()->bytes) : text.ends_with(each.text()->bytes));
  };
  return Value(sought->text() ? holds(*sought) : std::ranges::any_of(*sought->list(), holds));
}

template <bool fromEnd>
Result<Value> split(Interpreter &self, const Value &x, const Arguments &arguments) {
  const Text &text = *x.text();
  const Value *given = arguments.get(0, "sep"), *limit = arguments.get(1, "maxsplit");
  int64_t most = limit ? limit->integer().value_or(-1) : -1;
  std::string_view bytes = text.bytes;
  TENON_TRY(self.spend(x.cost() * (given ? given->cost() : 1)));
  std::vector<std::pair<size_t, size_t>> parts;
  if (!given || given->isNone()) { // at runs of white space, of which ends do not count
    if (fromEnd) {
      return self.fail("'rsplit' without a separator is not supported");
    }
    size_t at = bytes.find_first_not_of(kWhite);
    while (at != bytes.npos) {
      bool isLast = most >= 0 && static_cast<int64_t>(parts.size()) == most;
      size_t end = isLast ? bytes.find_last_not_of(kWhite) + 1
                          : std::min(bytes.find_first_of(kWhite, at), bytes.size());
      parts.emplace_back(at, end - at);
      at = isLast ? bytes.npos : bytes.find_first_not_of(kWhite, end);
    }
  } else {
    std::string separator = given->written().bytes;
    if (separator.empty()) {
      return self.fail("'split' needs a separator that is not empty");
    }
    size_t begin = 0, end = bytes.size();
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
      std::string_view left = bytes.substr(0, end);
      size_t found = fromEnd ? left.substr(begin).rfind(separator) : left.find(separator, begin);
      found = fromEnd && found != bytes.npos ? found + begin : found;
      if (found == bytes.npos) {
        break;
      }
      fromEnd ? parts.emplace_back(found + separator.size(), end - found - separator.size())
              : parts.emplace_back(begin, found - begin);
      (fromEnd ? end : begin) = fromEnd ? found : found + separator.size();
    }
    parts.emplace_back(begin, end - begin);
    if (fromEnd) {
      std::ranges::reverse(parts);
    }
  }
  TENON_TRY(self.spend(parts.size()));
  List list;
  for (auto [begin, size] : parts) {
    list.emplace_back(text.part(begin, size));
  }
  return Value(std::move(list));
}

Result<Value> find(Interpreter &self, const Value &x, const Arguments &arguments) {
  const Value *sought = arguments.get(0, "sub");
  if (!sought || !sought->text()) {
    return self.fail("'find' needs a text");
  }
  // Counted in letters.
  TENON_TRY(self.spendOnSearch(*sought, x));
  size_t at = x.text()->bytes.find(sought->text()->bytes);
  if (at == std::string::npos) {
    return Value(int64_t{-1});
  }
  return Value(static_cast<int64_t>(lettersOf(x.text()->bytes.substr(0, at)).size() - 1));
}

/// '{} and {name}' with values; what Python writes between the braces beside names is not known.
Result<Value> format(Interpreter &self, const Value &x, const Arguments &arguments) {
  const Text &text = *x.text();
  std::string_view bytes = text.bytes;
  Text result;
  size_t next = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    bool isBrace = bytes[at] == '{' || bytes[at] == '}';
    if (!isBrace || bytes.substr(at + 1, 1) == bytes.substr(at, 1)) {
      result.append(text.part(at, 1));
      at += isBrace ? 1 : 0;
      continue;
    }
    size_t end = bytes.find('}', at);
    std::string_view name = bytes.substr(at + 1, end - at - 1);
    bool isNumber =
        !name.empty() && name.size() < 4 && name.find_first_not_of("0123456789") == name.npos;
    const Value *value = name.empty() ? arguments.get(next++, "")
                         : isNumber   ? arguments.get(std::stoul(std::string(name)), "")
                                      : arguments.get(arguments.positional.size(), name);
    if (bytes[at] == '}' || end == bytes.npos || !value) {
      return self.fail(strCat("'format' does not take '{", name.substr(0, 40), "}'"));
    }
    TENON_TRY(self.spend(value->cost()));
    result.append(value->written());
    at = end;
  }
  TENON_TRY(self.spend(x.cost()));
  return Value(std::move(result));
}

Result<Value> joinMethod(Interpreter &self, const Value &x, const Arguments &arguments) {
  Arguments with;
  with.positional = {x};
  return arguments.positional.empty() ? Result<Value>(self.fail("'join' needs a list"))
                                      : self.applyFilter("join", arguments.positional[0], with);
}

constexpr MethodRow kOfText[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"startswith", affix<true>},
    {"endswith", affix<false>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"find", find},
    {"format", format},
    {"join", joinMethod},
    {"replace", [](Interpreter &s, const Value &x,
                   const Arguments &a) { return byFilter("replace", s, x, a); }},
    {"upper",
     [](Interpreter &s, const Value &x, const Arguments &a) { return byFilter("upper", s, x, a); }},
    {"lower",
     [](Interpreter &s, const Value &x, const Arguments &a) { return byFilter("lower", s, x, a); }},
    {"title",
     [](Interpreter &s, const Value &x, const Arguments &a) { return byFilter("title", s, x, a); }},
    {"capitalize", [](Interpreter &s, const Value &x,
                      const Arguments &a) { return byFilter("capitalize", s, x, a); }},
    {"isdigit",
     [](Interpreter &, const Value &x, const Arguments &) -> Result<Value> {
       return Value(!x.text()->bytes.empty() && std::ranges::all_of(x.text()->bytes, [](char c) {
         return c >= '0' && c <= '9';
       }));
     }},
};

constexpr MethodRow kOfList[] = {
    {"index",
     [](Interpreter &self, const Value &x, const Arguments &a) -> Result<Value> {
       TENON_TRY(a.positional.empty() ? Status::ok() : self.spendOnSearch(a.positional[0], x));
       for (size_t i = 0; !a.positional.empty() && i < x.list()->size(); ++i) {
         if ((*x.list())[i].equals(a.positional[0])) {
           return Value(static_cast<int64_t>(i));
         }
       }
       return self.fail("'index' finds no such element");
     }},
};

constexpr MethodRow kOfDict[] = {
    {"items",
     [](Interpreter &s, const Value &x, const Arguments &a) { return byFilter("items", s, x, a); }},
    {"keys",
     [](Interpreter &s, const Value &x, const Arguments &a) { return byFilter("list", s, x, a); }},
    {"values",
     [](Interpreter &, const Value &x, const Arguments &) -> Result<Value> {
       List values;
       for (const auto &[key, value] : *x.dict()) {
         values.push_back(value);
       }
       return Value(std::move(values));
     }},
    {"get",
     [](Interpreter &self, const Value &x, const Arguments &a) -> Result<Value> {
       const Value *key = a.get(0, "key"), *otherwise = a.get(1, "default");
       if (!key) {
         return self.fail("'get' needs a key");
       }
       const Value *found = x.find(*key);
       return found ? *found : otherwise ? *otherwise : Value();
     }},
    {"copy",
     [](Interpreter &, const Value &x, const Arguments &) -> Result<Value> {
       return Value(Dict(*x.dict()));
     }},
};

template <size_t count>
std::optional<Function> findIn(const MethodRow (&rows)[count], const Value &x,
                               std::string_view name) {
  for (const MethodRow &row : rows) {
    if (row.name == name) {
      return [run = row.run, x](Interpreter &self, const Arguments &arguments) {
        return run(self, x, arguments);
      };
    }
  }
  return std::nullopt;
}

Result<Value> range(Interpreter &self, const Arguments &arguments) {
  int64_t bounds[3] = {0, 0, 1};
  size_t count = arguments.positional.size();
  for (size_t i = 0; i < count && i < 3; ++i) {
    std::optional<int64_t> bound = arguments.positional[i].integer();
    if (!bound) {
      return self.fail("'range' needs integers");
    }
    bounds[count == 1 ? 1 : i] = *bound;
  }
  if (count == 0 || count > 3 || bounds[2] == 0) {
    return self.fail("'range' needs one to three integers, the last not 0");
  }
  List list;
  for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    TENON_TRY(self.spend(1));
    list.emplace_back(i);
    if (__builtin_add_overflow(i, bounds[2], &i)) {
      break;
    }
  }
  return Value(std::move(list));
}

Result<Value> nameSpace(Interpreter &, const Arguments &arguments) {
  Dict dict;
  for (const Value &base : arguments.positional) {
    dict = base.dict() ? *base.dict() : dict;
  }
  Value made = Value::nameSpace(std::move(dict));
  for (const auto &[name, value] : arguments.named) {
    made.set(Value(Text::ofTemplate(name)), value);
  }
  return made;
}

Result<Value> raise(Interpreter &self, const Arguments &arguments) {
  return self.fail(arguments.positional.empty() ? "it raises an exception"
                                                : arguments.positional[0].written().bytes);
}

Result<Value> now(Interpreter &self, const Arguments &arguments) {
  const Value *format = arguments.get(0, "format");
  if (!format || !format->text() || format->text()->bytes.size() > 200) {
    return self.fail("'strftime_now' needs a format");
  }
  std::time_t time = std::time(nullptr);
  std::tm local{};
  localtime_r(&time, &local);
  char buffer[1000];
  size_t size = std::strftime(buffer, sizeof buffer, format->text()->bytes.c_str(), &local);
  return Value(Text::ofTemplate(std::string_view(buffer, size)));
}

} // namespace

std::optional<Function> methodOf(const Value &x, std::string_view name) {
  return x.text()   ? findIn(kOfText, x, name)
         : x.list() ? findIn(kOfList, x, name)
         : x.dict() ? findIn(kOfDict, x, name)
                    : std::nullopt;
}

Value globalFunction(std::string_view name) {
  return name == "range"       ? Value(Function(range))
         : name == "namespace" ? Value(Function(nameSpace))
         : name == "dict"      ? Value(Function([](Interpreter &self, const Arguments &arguments) {
             Result<Value> made = nameSpace(self, arguments);
             return made ? Result<Value>(Value(Dict(*made->dict()))) : made;
           }))
         : name == "raise_exception" ? Value(Function(raise))
         : name == "strftime_now"    ? Value(Function(now))
                                     : Value::undefined(std::string(name));
}

} // namespace tenon::generate::jinja
