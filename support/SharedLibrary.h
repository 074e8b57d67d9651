// Functions of a library that is opened when it is needed, so that programs run where it is not
// installed. It relies on dlopen(3).

#pragma once

#include <dlfcn.h>

namespace tenon {

/// Stays open to the end of the process: libraries start threads, and keep state, of their own.
class SharedLibrary {
public:
  /// `name` as dlopen takes it: "libcurl.so.4".
  explicit SharedLibrary(const char *name)
      : handle(dlopen(name, RTLD_NOW | RTLD_LOCAL)), whole(handle != nullptr) {}

  /// Null where the library is not there or has no such function.
  template <typename Function> void find(Function *&function, const char *symbol) {
    function = handle ? reinterpret_cast<Function *>(dlsym(handle, symbol)) : nullptr;
    whole = whole && function;
  }
  /// Whether it is there, with all that was looked for.
  bool isWhole() const { return whole; }

private:
  void *handle;
  bool whole;
};

} // namespace tenon
