// A name that a template sets anywhere counts as its own everywhere.
#include "generate/template/Uses.h"

#include <utility>

namespace tenon::generate::jinja {
namespace {

class Collector {
public:
  Uses take(const Body &body) {
    visit(body);
    for (const std::string &name : own) {
      uses.functions.erase(name);
      uses.variables.erase(name);
    }
    return std::move(uses);
  }

private:
  using Kind = Expression::Kind;

  void visit(const Body &body) {
    for (const Statement &statement : body) {
      visit(statement);
    }
  }

  void visit(const Statement &statement) {
    switch (statement.kind) {
    case Statement::Kind::Write:
    case Statement::Kind::Print:
      break;
    case Statement::Kind::If:
      uses.statements.insert("if");
      break;
    case Statement::Kind::For:
      uses.statements.insert("for");
      own.insert("loop");
      own.insert(statement.names.begin(), statement.names.end());
      break;
    case Statement::Kind::Set:
      uses.statements.insert("set");
      own.insert(statement.names.begin(), statement.names.end());
      break;
    case Statement::Kind::Macro:
      uses.statements.insert("macro");
      own.insert(statement.text);
      break;
    case Statement::Kind::Break:
      uses.statements.insert("break");
      break;
    case Statement::Kind::Continue:
      uses.statements.insert("continue");
      break;
    }
    for (const NamedExpression &parameter : statement.parameters) {
      own.insert(parameter.name);
      visit(parameter.value);
    }
    visit(statement.value);
    visit(statement.condition);
    visit(statement.body);
    visit(statement.otherwise);
  }

  void visit(const ExpressionPtr &expression) {
    if (!expression) {
      return;
    }
    const std::vector<ExpressionPtr> &operands = expression->operands;
    size_t first = 0;
    if (expression->kind == Kind::Name) {
      uses.variables.insert(expression->text);
    } else if (expression->kind == Kind::Filter) {
      uses.filters.insert(expression->text);
    } else if (expression->kind == Kind::Test) {
      uses.tests.insert(expression->text);
    } else if (expression->kind == Kind::Call && operands.front()->kind == Kind::Name) {
      uses.functions.insert(operands.front()->text);
      first = 1;
    } else if (expression->kind == Kind::Call && operands.front()->kind == Kind::Attribute) {
      uses.methods.insert(operands.front()->text);
    }
    for (size_t i = first; i < operands.size(); ++i) {
      visit(operands[i]);
    }
    for (const NamedExpression &argument : expression->arguments) {
      visit(argument.value);
    }
  }

  Uses uses;
  std::set<std::string> own;
};

} // namespace

Uses usesOf(const Body &body) { return Collector().take(body); }

} // namespace tenon::generate::jinja
