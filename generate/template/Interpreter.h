// Runs a template: the statements of its tree over frames of names. Steps, bytes and depth are
// limited, so that no template holds up whoever renders it.
#pragma once

#include "generate/template/Syntax.h"
#include "support/Result.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::generate::jinja {

struct Limits {
  uint64_t steps = 5'000'000;
  size_t bytes = size_t{64} << 20; ///< of what it writes
  int depth = 200;                 ///< of calls and blocks in each other
  int expressions = 500;           ///< in each other
};

class Interpreter {
public:
  Interpreter(const Body &theProgram, Limits theLimits) : program(theProgram), limits(theLimits) {}

  /// TN0251 with the line where the template fails: by itself (raise_exception), by a value that is
  /// not there, or by a limit.
  Result<Text> render(Dict context);

  Status fail(std::string_view what) const;
  /// Counts work that a filter or a method does in one go.
  Status spend(uint64_t count);
  /// The work of comparing a value with another, or with all that the other holds.
  Status spendOnSearch(const Value &sought, const Value &in);
  Result<Value> call(const Value &function, const Arguments &arguments);
  Result<Value> applyFilter(std::string_view name, const Value &x, const Arguments &arguments);
  Result<Value> applyTest(std::string_view name, const Value &x, const Arguments &arguments);
  /// x.name or x[name]; undefined where it is not there.
  Result<Value> attribute(const Value &x, std::string_view name);

private:
  struct Frame {
    std::map<std::string, Value, std::less<>> names;
  };
  enum class Flow : uint8_t { On, Break, Continue };

  Result<Flow> run(const Body &body, Text &out);
  Result<Flow> runFor(const Statement &loop, Text &out);
  Status runSet(const Statement &set, Text &out);
  Status assign(const std::string &target, const Value &value, int line);
  Status unpack(const std::vector<std::string> &targets, const Value &value, int line);
  Value makeMacro(const Statement &macro);
  Status write(const Text &text, Text &out);

  Result<Value> evaluate(const Expression &x);
  Result<Value> evaluateKind(const Expression &x);
  Result<Value> evaluateBinary(const Expression &x);
  Result<Value> evaluateIndex(const Value &from, const Value &index);
  Result<Value> evaluateSlice(const Expression &x);
  Result<Value> evaluateCall(const Expression &x);
  Result<Arguments> argumentsOf(const Expression &x);
  Value lookUp(std::string_view name) const;
  Result<Value> method(const Value &x, std::string_view name);

  const Body &program;
  Limits limits;
  std::vector<Frame> frames; ///< the first is the template's own
  size_t visible = 0;        ///< the first frame, beside the template's, that names are seen in
  uint64_t steps = 0;
  size_t bytes = 0;
  int depth = 0, expressions = 0; ///< in each other
  int line = 1;
};

/// The elements that a loop over a value sees; TN0251 where it has none.
Result<List> elementsOf(Interpreter &interpreter, const Value &value);

/// range, namespace, raise_exception, strftime_now, dict.
Value globalFunction(std::string_view name);
/// Of strings, lists and dictionaries; none where there is none of that name.
std::optional<Function> methodOf(const Value &x, std::string_view name);

} // namespace tenon::generate::jinja
