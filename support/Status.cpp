// Implements Status; the classes and titles come from Errors.def, the one list of errors.

#include "support/Status.h"

#include "support/text/Printable.h"

#include <cstdio>

namespace tenon {

Code codeOf(ErrorId id) {
  switch (id) {
  case ErrorId::None:
    return Code::Ok;
#define TENON_ERROR(number, name, code, title)                                                     \
  case ErrorId::name:                                                                              \
    return Code::code;
#include "support/Errors.def"
#undef TENON_ERROR
  }
  return Code::Internal;
}

std::string_view titleOf(ErrorId id) {
  switch (id) {
  case ErrorId::None:
    return "no error";
#define TENON_ERROR(number, name, code, title)                                                     \
  case ErrorId::name:                                                                              \
    return title;
#include "support/Errors.def"
#undef TENON_ERROR
  }
  return "unknown error";
}

std::string nameOf(ErrorId id) {
  char text[16];
  std::snprintf(text, sizeof(text), "TN%04u", static_cast<unsigned>(id));
  return text;
}

struct Status::State {
  ErrorId id;
  std::string message;
  std::string hint;
};

void Status::Deleter::operator()(State *state) const { delete state; }

ErrorId Status::id() const { return state ? state->id : ErrorId::None; }

Status &Status::operator=(const Status &other) {
  state.reset(other.state ? new State(*other.state) : nullptr);
  return *this;
}

Status Status::error(ErrorId id, std::string_view message, std::string_view hint) {
  // Messages are one line, but the report of what is not supported has one for each, which are
  // escaped when they are joined.
  std::string_view kept = id == ErrorId::ModelHasGaps ? "\n" : "";
  Status status;
  status.state.reset(new State{id, withoutControls(message, kept), withoutControls(hint)});
  return status;
}

std::string_view Status::message() const {
  return state ? std::string_view(state->message) : std::string_view();
}

std::string_view Status::hint() const {
  return state ? std::string_view(state->hint) : std::string_view();
}

std::string Status::toString() const {
  if (isOk()) {
    return "ok";
  }
  std::string text = nameOf(id()) + ": " + state->message;
  if (!state->hint.empty()) {
    text += " (" + state->hint + ")";
  }
  return text;
}

Status &Status::prefix(std::string_view where) {
  if (state) {
    state->message = withoutControls(where) + ": " + state->message;
  }
  return *this;
}

Status checkedError(Status error) {
  return error.isOk()
             ? Status::error(ErrorId::InternalError, "a result has neither a value nor an error")
             : std::move(error);
}

} // namespace tenon
