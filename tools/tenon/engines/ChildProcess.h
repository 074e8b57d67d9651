// Work in a process of its own, whose memory is not this one's and whose crash is not.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"

#include <sys/types.h>

#include <functional>
#include <string>

namespace tenon::tool {

/// A copy of this process that waits for a question, answers it, and ends; without one it only
/// ends. Made early, it has nothing open that this process opens later: NVIDIA's driver does not
/// serve a copy of a process that has called it. Of one thread; its destructor waits for the end.
class Child {
public:
  using Work = std::function<Json(const std::string &question)>;

  static Result<Child> start(const Work &work);
  Child(Child &&other) noexcept;
  Child &operator=(Child &&) = delete;
  ~Child();

  /// Once, without zeros. The error `silence` where the copy ended without an
  /// answer; its message then says by which signal it ended.
  Result<Json> ask(const std::string &question, const Status &silence);

private:
  Child(pid_t process, int question, int answer)
      : process(process), question(question), answer(answer) {}

  pid_t process;
  int question, answer; ///< pipes, to write to and to read from
};

/// What `work` gives in a copy of this process.
Result<Json> inChild(const std::function<Json()> &work, const Status &silence);

/// The answer that makes Child::ask return this error.
Json describeError(const Status &status);

} // namespace tenon::tool
