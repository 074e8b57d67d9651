// The tree of a template. Every node knows its line.
#pragma once

#include "generate/template/Value.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon::generate::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct NamedExpression {
  std::string name; ///< empty for a positional one
  ExpressionPtr value;
};

struct Expression {
  enum class Kind : uint8_t {
    Constant,
    Name,
    List,
    Tuple,
    Dict,      ///< keys and values in turn
    Attribute, ///< operands[0].text
    Index,     ///< operands[0][operands[1]]
    Slice,     ///< operands[0][operands[1]:operands[2]:operands[3]], null where absent
    Call,      ///< operands[0](arguments)
    Filter,    ///< operands[0]|text(arguments)
    Test,      ///< operands[0] is text(arguments)
    Unary,     ///< text of "-", "+" or "not"
    Binary,    ///< text is the operator
    Choice,    ///< operands[0] if operands[1] else operands[2], which may be null
  };
  Kind kind;
  int line;
  std::string text = {};
  Value constant = {};
  std::vector<ExpressionPtr> operands = {};
  std::vector<NamedExpression> arguments = {};
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  enum class Kind : uint8_t {
    Write, ///< text of the template
    Print, ///< value
    If,    ///< value, body, otherwise
    For,   ///< names in value, of which condition holds; body, otherwise
    Set,   ///< names = value, or of `text`.names[0]; without a value the body's output
    Macro, ///< text(parameters) is body
    Break,
    Continue,
  };
  Kind kind;
  int line;
  Text literal = {};
  std::string text = {};
  std::vector<std::string> names = {};
  ExpressionPtr value = {}, condition = {};
  std::vector<NamedExpression> parameters = {}; ///< a name and its default, or null
  Body body = {}, otherwise = {};
};

} // namespace tenon::generate::jinja
