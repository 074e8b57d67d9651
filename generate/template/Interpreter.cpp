// Relies on the parser having refused what is not known.
// One file: statements and expressions run over the same frames.
#include "generate/template/Interpreter.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tenon::generate::jinja {

Status Interpreter::fail(std::string_view what) const {
  return Status::error(
      ErrorId::TemplateFailed, strCat("line ", line, " of the template: ", what),
      "give messages that suit the template, or another template with --template FILE");
}

Status Interpreter::spend(uint64_t count) {
  steps += count;
  return steps > limits.steps ? fail(strCat("it needs more than ", limits.steps, " steps"))
                              : Status::ok();
}

Status Interpreter::spendOnSearch(const Value &sought, const Value &in) {
  uint64_t each = sought.cost(), all = in.cost();
  if (sought.text() && in.text()) {
    return spend(each * all);
  }
  uint64_t count = in.list() ? in.list()->size() : in.dict() ? in.dict()->size() : 1;
  return spend(std::min(each * std::max<uint64_t>(count, 1), all));
}

Result<Text> Interpreter::render(Dict context) {
  frames.assign(1, {});
  for (auto &[name, value] : context) {
    frames[0].names.insert_or_assign(name.written().bytes, std::move(value));
  }
  visible = 1;
  Text out;
  TENON_ASSIGN(Flow flow, run(program, out));
  (void)flow;
  return out;
}

//===--- Statements ---===//

Status Interpreter::write(const Text &text, Text &out) {
  bytes += text.bytes.size();
  if (bytes > limits.bytes) {
    return fail(strCat("it writes more than ", limits.bytes, " bytes"));
  }
  out.append(text);
  return Status::ok();
}

Result<Interpreter::Flow> Interpreter::run(const Body &body, Text &out) {
  if (++depth > limits.depth) {
    return fail("blocks and calls are nested too deeply");
  }
  Flow flow = Flow::On;
  for (size_t i = 0; i < body.size() && flow == Flow::On; ++i) {
    const Statement &statement = body[i];
    line = statement.line;
    TENON_TRY(spend(1));
    switch (statement.kind) {
    case Statement::Kind::Write:
      TENON_TRY(write(statement.literal, out));
      break;
    case Statement::Kind::Print: {
      TENON_ASSIGN(Value value, evaluate(*statement.value));
      TENON_TRY(spend(value.cost()));
      TENON_TRY(write(value.written(), out));
      break;
    }
    case Statement::Kind::If: {
      TENON_ASSIGN(Value value, evaluate(*statement.value));
      TENON_ASSIGN(flow, run(value.isTrue() ? statement.body : statement.otherwise, out));
      break;
    }
    case Statement::Kind::For: {
      TENON_ASSIGN(flow, runFor(statement, out));
      break;
    }
    case Statement::Kind::Set:
      TENON_TRY(runSet(statement, out));
      break;
    case Statement::Kind::Macro:
      frames.back().names.insert_or_assign(statement.text, makeMacro(statement));
      break;
    case Statement::Kind::Break:
      flow = Flow::Break;
      break;
    case Statement::Kind::Continue:
      flow = Flow::Continue;
      break;
    }
  }
  --depth;
  return flow;
}

Status Interpreter::runSet(const Statement &set, Text &out) {
  if (set.value) {
    TENON_ASSIGN(Value value, evaluate(*set.value));
    return set.names.size() == 1 ? assign(set.names[0], value, set.line)
                                 : unpack(set.names, value, set.line);
  }
  Text text;
  TENON_ASSIGN(Flow flow, run(set.body, text));
  (void)flow;
  (void)out;
  return assign(set.names[0], Value(std::move(text)), set.line);
}

Status Interpreter::assign(const std::string &target, const Value &value, int at) {
  size_t dot = target.find('.');
  if (dot == std::string::npos) {
    frames.back().names.insert_or_assign(target, value);
    return Status::ok();
  }
  Value object = lookUp(std::string_view(target).substr(0, dot));
  line = at;
  if (!object.isNamespace()) {
    return fail(strCat("'", target.substr(0, dot),
                       "' is not a namespace; only attributes of namespaces can be set"));
  }
  if (value.isNamespace()) {
    return fail("a namespace within a namespace is not supported");
  }
  object.set(Value(Text::ofTemplate(std::string_view(target).substr(dot + 1))), value);
  return Status::ok();
}

Status Interpreter::unpack(const std::vector<std::string> &targets, const Value &value, int at) {
  line = at;
  TENON_ASSIGN(List parts, elementsOf(*this, value));
  if (parts.size() != targets.size()) {
    return fail(strCat(parts.size(), " values do not fit ", targets.size(), " names"));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    TENON_TRY(assign(targets[i], parts[i], at));
  }
  return Status::ok();
}

Result<Interpreter::Flow> Interpreter::runFor(const Statement &loop, Text &out) {
  TENON_ASSIGN(Value over, evaluate(*loop.value));
  line = loop.line;
  TENON_ASSIGN(List all, elementsOf(*this, over));
  List elements;
  for (Value &element : all) {
    TENON_TRY(spend(1));
    if (loop.condition) {
      frames.emplace_back();
      TENON_TRY(loop.names.size() == 1 ? assign(loop.names[0], element, loop.line)
                                       : unpack(loop.names, element, loop.line));
      TENON_ASSIGN(Value holds, evaluate(*loop.condition));
      frames.pop_back();
      if (!holds.isTrue()) {
        continue;
      }
    }
    elements.push_back(std::move(element));
  }
  int64_t count = static_cast<int64_t>(elements.size());
  for (int64_t i = 0; i < count; ++i) {
    constexpr uint64_t kFacts = 11;
    TENON_TRY(spend(kFacts));
    frames.emplace_back();
    Dict facts;
    auto fact = [&](std::string_view name, Value value) {
      facts.emplace_back(Value(Text::ofTemplate(name)), std::move(value));
    };
    fact("index0", Value(i));
    fact("index", Value(i + 1));
    fact("revindex", Value(count - i));
    fact("revindex0", Value(count - i - 1));
    fact("first", Value(i == 0));
    fact("last", Value(i == count - 1));
    fact("length", Value(count));
    fact("depth", Value(int64_t{1}));
    fact("depth0", Value(int64_t{0}));
    fact("previtem", i > 0 ? elements[i - 1] : Value::undefined("loop.previtem"));
    fact("nextitem", i + 1 < count ? elements[i + 1] : Value::undefined("loop.nextitem"));
    frames.back().names.insert_or_assign("loop", Value(std::move(facts)));
    TENON_TRY(loop.names.size() == 1 ? assign(loop.names[0], elements[i], loop.line)
                                     : unpack(loop.names, elements[i], loop.line));
    TENON_ASSIGN(Flow flow, run(loop.body, out));
    frames.pop_back();
    if (flow == Flow::Break) {
      break;
    }
  }
  return count == 0 ? run(loop.otherwise, out) : Result<Flow>(Flow::On);
}

/// A macro sees its own names and the template's.
Value Interpreter::makeMacro(const Statement &macro) {
  return Value(Function([&macro](Interpreter &self, const Arguments &arguments) -> Result<Value> {
    if (arguments.positional.size() > macro.parameters.size()) {
      return self.fail(
          strCat("the macro '", macro.text, "' takes ", macro.parameters.size(), " arguments"));
    }
    Frame frame;
    std::vector<Frame> kept(std::make_move_iterator(self.frames.begin() + 1),
                            std::make_move_iterator(self.frames.end()));
    self.frames.resize(1);
    self.frames.push_back(std::move(frame));
    Text out;
    auto body = [&]() -> Status {
      for (size_t i = 0; i < macro.parameters.size(); ++i) {
        const NamedExpression &parameter = macro.parameters[i];
        Value value = Value::undefined(parameter.name);
        if (const Value *given = arguments.get(i, parameter.name)) {
          value = *given;
        } else if (parameter.value) {
          TENON_ASSIGN(value, self.evaluate(*parameter.value));
        }
        self.frames.back().names.insert_or_assign(parameter.name, std::move(value));
      }
      TENON_ASSIGN(Flow flow, self.run(macro.body, out));
      (void)flow;
      return Status::ok();
    };
    Status status = body();
    self.frames.resize(1);
    std::move(kept.begin(), kept.end(), std::back_inserter(self.frames));
    TENON_TRY(std::move(status));
    return Value(std::move(out));
  }));
}

//===--- Expressions ---===//

Value Interpreter::lookUp(std::string_view name) const {
  for (size_t i = frames.size(); i > 0; --i) {
    auto found = frames[i - 1].names.find(name);
    if (found != frames[i - 1].names.end()) {
      return found->second;
    }
  }
  return globalFunction(name);
}

Result<Arguments> Interpreter::argumentsOf(const Expression &x) {
  Arguments arguments;
  for (const NamedExpression &argument : x.arguments) {
    TENON_ASSIGN(Value value, evaluate(*argument.value));
    if (argument.name.empty()) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(argument.name, std::move(value));
    }
  }
  return arguments;
}

Result<Value> Interpreter::evaluate(const Expression &x) {
  line = x.line;
  TENON_TRY(spend(1));
  if (++expressions > limits.expressions) {
    return fail("expressions are nested too deeply");
  }
  TENON_ASSIGN(Value value, evaluateKind(x));
  --expressions;
  if (value.height() >= Value::kTooHigh) {
    return fail("lists and dictionaries are nested too deeply, or hold a namespace");
  }
  return value;
}

Result<Value> Interpreter::evaluateKind(const Expression &x) {
  using Kind = Expression::Kind;
  switch (x.kind) {
  case Kind::Constant:
    return x.constant;
  case Kind::Name:
    return lookUp(x.text);
  case Kind::List:
  case Kind::Tuple: {
    List list;
    for (const ExpressionPtr &operand : x.operands) {
      TENON_ASSIGN(Value value, evaluate(*operand));
      list.push_back(std::move(value));
    }
    return x.kind == Kind::List ? Value(std::move(list)) : Value::tuple(std::move(list));
  }
  case Kind::Dict: {
    Value dict{Dict()};
    for (size_t i = 0; i < x.operands.size(); i += 2) {
      TENON_ASSIGN(Value key, evaluate(*x.operands[i]));
      TENON_ASSIGN(Value value, evaluate(*x.operands[i + 1]));
      dict.set(key, std::move(value));
    }
    return dict;
  }
  case Kind::Attribute: {
    TENON_ASSIGN(Value from, evaluate(*x.operands[0]));
    line = x.line;
    return attribute(from, x.text);
  }
  case Kind::Index: {
    TENON_ASSIGN(Value from, evaluate(*x.operands[0]));
    TENON_ASSIGN(Value index, evaluate(*x.operands[1]));
    line = x.line;
    return evaluateIndex(from, index);
  }
  case Kind::Slice:
    return evaluateSlice(x);
  case Kind::Call:
    return evaluateCall(x);
  case Kind::Filter:
  case Kind::Test: {
    TENON_ASSIGN(Value operand, evaluate(*x.operands[0]));
    TENON_ASSIGN(Arguments arguments, argumentsOf(x));
    line = x.line;
    return x.kind == Kind::Filter ? applyFilter(x.text, operand, arguments)
                                  : applyTest(x.text, operand, arguments);
  }
  case Kind::Unary: {
    TENON_ASSIGN(Value operand, evaluate(*x.operands[0]));
    if (x.text == "not") {
      return Value(!operand.isTrue());
    }
    if (std::optional<int64_t> whole = operand.integer(); whole && *whole != INT64_MIN) {
      return Value(x.text == "-" ? -*whole : *whole);
    }
    if (std::optional<double> number = operand.number()) {
      return Value(x.text == "-" ? -*number : *number);
    }
    return fail(strCat("'", x.text, "' does not accept a value of type ", operand.kind()));
  }
  case Kind::Binary:
    return evaluateBinary(x);
  case Kind::Choice: {
    TENON_ASSIGN(Value condition, evaluate(*x.operands[1]));
    const ExpressionPtr &chosen = x.operands[condition.isTrue() ? 0 : 2];
    return chosen ? evaluate(*chosen) : Result<Value>(Value::undefined("the choice without else"));
  }
  }
  return fail("an expression of no kind");
}

Result<Value> Interpreter::evaluateCall(const Expression &x) {
  const Expression &callee = *x.operands[0];
  Value function;
  if (callee.kind == Expression::Kind::Attribute) {
    TENON_ASSIGN(Value object, evaluate(*callee.operands[0]));
    line = callee.line;
    TENON_ASSIGN(function, method(object, callee.text));
  } else {
    TENON_ASSIGN(function, evaluate(callee));
  }
  TENON_ASSIGN(Arguments arguments, argumentsOf(x));
  line = x.line;
  if (!function.function()) {
    return fail(function.isUndefined()
                    ? strCat("'", function.undefinedName(), "' is unknown and cannot be called")
                    : strCat("a value of type ", function.kind(), " cannot be called"));
  }
  return call(function, arguments);
}

Result<Value> Interpreter::call(const Value &function, const Arguments &arguments) {
  if (++depth > limits.depth) {
    return fail("blocks and calls are nested too deeply");
  }
  int from = line;
  Result<Value> result = (*function.function())(*this, arguments);
  line = from;
  --depth;
  return result;
}

/// A method of Python comes before an entry of that name, as x.items() wants it.
Result<Value> Interpreter::method(const Value &x, std::string_view name) {
  if (std::optional<Function> found = methodOf(x, name)) {
    return Value(std::move(*found));
  }
  return attribute(x, name);
}

Result<Value> Interpreter::attribute(const Value &x, std::string_view name) {
  if (x.isUndefined()) {
    return fail(strCat("'", x.undefinedName(), "' is not defined, and has no '", name, "'"));
  }
  if (const Value *found = x.find(name)) {
    return *found;
  }
  if (const List *list = x.list()) {
    bool isNumber = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    size_t index = isNumber && name.size() < 9 ? std::stoul(std::string(name)) : list->size();
    if (index < list->size()) {
      return (*list)[index];
    }
  }
  return Value::undefined(std::string(name));
}

Result<Value> Interpreter::evaluateIndex(const Value &from, const Value &index) {
  if (from.isUndefined()) {
    return fail(strCat("'", from.undefinedName(), "' is not defined, and has no elements"));
  }
  if (from.dict()) {
    const Value *found = from.find(index);
    return found ? *found : Value::undefined(index.written().bytes);
  }
  std::optional<int64_t> at = index.integer();
  const List *list = from.list();
  const Text *text = from.text();
  if (!at || (!list && !text)) {
    const Text *name = index.text();
    return name ? attribute(from, name->bytes) : Value::undefined(index.written().bytes);
  }
  if (list) {
    int64_t size = static_cast<int64_t>(list->size());
    *at += *at < 0 ? size : 0;
    return *at >= 0 && *at < size ? (*list)[*at] : Value::undefined(index.written().bytes);
  }
  TENON_TRY(spend(from.cost()));
  std::vector<size_t> letters = lettersOf(text->bytes);
  int64_t size = static_cast<int64_t>(letters.size()) - 1;
  *at += *at < 0 ? size : 0;
  return *at >= 0 && *at < size ? Value(text->part(letters[*at], letters[*at + 1] - letters[*at]))
                                : Value::undefined(index.written().bytes);
}

/// x[a:b:c] of lists and text, counted as Python does.
Result<Value> Interpreter::evaluateSlice(const Expression &x) {
  TENON_ASSIGN(Value from, evaluate(*x.operands[0]));
  std::optional<int64_t> bounds[3];
  for (int i = 0; i < 3; ++i) {
    if (x.operands[i + 1]) {
      TENON_ASSIGN(Value bound, evaluate(*x.operands[i + 1]));
      if (!bound.isNone() && !bound.integer()) {
        return fail("a bound of a slice is not an integer");
      }
      bounds[i] = bound.integer();
    }
  }
  line = x.line;
  if (!from.list() && !from.text()) {
    return fail(strCat("a value of type ", from.kind(), " has no slices"));
  }
  TENON_TRY(spend(from.text() ? from.cost() : from.list()->size() / 16));
  std::vector<size_t> letters = from.text() ? lettersOf(from.text()->bytes) : std::vector<size_t>();
  int64_t size = static_cast<int64_t>(from.text() ? letters.size() - 1 : from.list()->size());
  int64_t step = std::clamp(bounds[2].value_or(1), -size - 1, size + 1);
  if (step == 0) {
    return fail("the step of a slice is 0");
  }
  auto place = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound) {
      return otherwise;
    }
    int64_t at = *bound < 0 ? *bound + size : *bound;
    return std::clamp<int64_t>(at, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  };
  int64_t begin = place(bounds[0], step > 0 ? 0 : size - 1);
  int64_t end = place(bounds[1], step > 0 ? size : -1);
  if (from.text() && step == 1) {
    return Value(from.text()->part(letters[begin], letters[std::max(begin, end)] - letters[begin]));
  }
  List taken;
  Text text;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    TENON_TRY(spend(from.text() ? 1 : 0));
    if (from.list()) {
      taken.push_back((*from.list())[i]);
    } else {
      text.append(from.text()->part(letters[i], letters[i + 1] - letters[i]));
    }
  }
  return from.list() ? Value(std::move(taken)) : Value(std::move(text));
}

namespace {

Result<bool> contains(Interpreter &self, const Value &element, const Value &in) {
  TENON_TRY(self.spendOnSearch(element, in));
  if (const Text *text = in.text()) {
    return element.text()
               ? Result<bool>(text->bytes.find(element.text()->bytes) != std::string::npos)
               : Result<bool>(self.fail("'in' needs a text on both sides"));
  }
  if (in.dict()) {
    return in.find(element) != nullptr;
  }
  if (const List *list = in.list()) {
    return std::ranges::any_of(*list, [&](const Value &each) { return each.equals(element); });
  }
  return in.isUndefined()
             ? Result<bool>(false)
             : Result<bool>(self.fail(strCat("a value of type ", in.kind(), " has no elements")));
}

/// The text of a value beside one that is markup.
Text escaped(const Value &value) {
  if (value.isMarkup()) {
    return *value.text();
  }
  Text text = value.written(), result;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    constexpr std::string_view kSigns = "&<>\"'";
    constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    size_t known = kSigns.find(text.bytes[i]);
    result.append(known == kSigns.npos ? text.part(i, 1) : Text::ofData(kNames[known]));
  }
  return result;
}

Result<Value> power(const Interpreter &self, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    return base == 0 ? Result<Value>(self.fail("a division by 0"))
                     : Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  bool isSmall = base >= -1 && base <= 1;
  for (int64_t left = isSmall ? std::min<int64_t>(exponent, 2 - exponent % 2) : exponent; left > 0;
       --left) {
    if (__builtin_mul_overflow(result, base, &result)) {
      return self.fail("a number is too large");
    }
  }
  return Value(result);
}

/// Two texts as one.
Value joined(const Value &a, const Value &b) {
  bool isMarkup = a.isMarkup() || b.isMarkup();
  Text text = isMarkup ? escaped(a) : a.written();
  text.append(isMarkup ? escaped(b) : b.written());
  return isMarkup ? Value::markup(std::move(text)) : Value(std::move(text));
}

/// Quotient and remainder round down, as Python's.
int64_t floorDivide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

} // namespace

Result<Value> Interpreter::evaluateBinary(const Expression &x) {
  const std::string &sign = x.text;
  TENON_ASSIGN(Value a, evaluate(*x.operands[0]));
  if (sign == "and" || sign == "or") {
    return a.isTrue() == (sign == "or") ? Result<Value>(std::move(a)) : evaluate(*x.operands[1]);
  }
  TENON_ASSIGN(Value b, evaluate(*x.operands[1]));
  line = x.line;
  if (sign != "in" && sign != "not in") {
    TENON_TRY(spend(sign == "~" ? a.cost() + b.cost() : std::min(a.cost(), b.cost())));
  }
  if (sign == "==" || sign == "!=") {
    return Value(a.equals(b) == (sign == "=="));
  }
  if (sign == "in" || sign == "not in") {
    TENON_ASSIGN(bool isIn, contains(*this, a, b));
    return Value(isIn == (sign == "in"));
  }
  if (sign == "~") {
    Text text = a.written();
    text.append(b.written());
    return Value(std::move(text));
  }
  auto mismatch = [&] {
    const Value &missing = a.isUndefined() ? a : b;
    return fail(missing.isUndefined() ? strCat("'", missing.undefinedName(), "' is not defined")
                                      : strCat("'", sign, "' does not accept values of type ",
                                               a.kind(), " and ", b.kind()));
  };
  if (sign == "<" || sign == ">" || sign == "<=" || sign == ">=") {
    std::optional<bool> less = a.isBefore(b), greater = b.isBefore(a);
    if (!less || !greater) {
      return mismatch();
    }
    return Value(sign == "<" ? *less : sign == ">" ? *greater : sign == "<=" ? !*greater : !*less);
  }
  if (sign == "+" && a.text() && b.text()) {
    TENON_TRY(spend(a.cost() + b.cost()));
    return joined(a, b);
  }
  if (sign == "+" && a.list() && b.list()) {
    List list = *a.list();
    list.insert(list.end(), b.list()->begin(), b.list()->end());
    TENON_TRY(spend(list.size()));
    return Value(std::move(list));
  }
  std::optional<int64_t> i = a.integer(), j = b.integer();
  if (sign == "*" && a.text() && j) {
    Text text;
    TENON_TRY(spend(std::clamp<int64_t>(*j, 0, INT32_MAX) * (1 + a.text()->bytes.size())));
    for (int64_t k = 0; k < *j; ++k) {
      text.append(*a.text());
    }
    return Value(std::move(text));
  }
  std::optional<double> u = a.number(), v = b.number();
  if (!u || !v) {
    return mismatch();
  }
  if ((sign == "/" || sign == "//" || sign == "%") && *v == 0) {
    return fail("a division by 0");
  }
  if (sign == "/" || !i || !j) {
    double quotient = *u / *v;
    return Value(sign == "+"    ? *u + *v
                 : sign == "-"  ? *u - *v
                 : sign == "*"  ? *u * *v
                 : sign == "/"  ? quotient
                 : sign == "//" ? std::floor(quotient)
                 : sign == "%"  ? *u - std::floor(quotient) * *v
                                : std::pow(*u, *v));
  }
  int64_t result = 0;
  bool overflows = sign == "+"   ? __builtin_add_overflow(*i, *j, &result)
                   : sign == "-" ? __builtin_sub_overflow(*i, *j, &result)
                   : sign == "*" ? __builtin_mul_overflow(*i, *j, &result)
                                 : *i == INT64_MIN && *j == -1;
  if (overflows) {
    return fail("a number is too large");
  }
  if (sign == "**") {
    return power(*this, *i, *j);
  }
  return Value(sign == "//"  ? floorDivide(*i, *j)
               : sign == "%" ? *i - floorDivide(*i, *j) * *j
                             : result);
}

Result<List> elementsOf(Interpreter &interpreter, const Value &value) {
  if (const List *list = value.list()) {
    TENON_TRY(interpreter.spend(list->size() / 16));
    return *list;
  }
  List elements;
  if (const Dict *dict = value.dict()) {
    for (const auto &[key, entry] : *dict) {
      elements.push_back(key);
    }
    return elements;
  }
  if (const Text *text = value.text()) { // a letter each
    TENON_TRY(interpreter.spend(text->bytes.size()));
    std::vector<size_t> letters = lettersOf(text->bytes);
    for (size_t i = 0; i + 1 < letters.size(); ++i) {
      elements.emplace_back(text->part(letters[i], letters[i + 1] - letters[i]));
    }
    return elements;
  }
  return value.isUndefined() ? Result<List>(std::move(elements))
                             : Result<List>(interpreter.fail(
                                   strCat("a value of type ", value.kind(), " has no elements")));
}

} // namespace tenon::generate::jinja
