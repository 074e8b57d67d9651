// Code of an engine, loaded into this process through an anonymous file. It relies on the dynamic
// loader and /proc; the bytes were checked by engine/ElfCheck before.

#pragma once

#include "engine/KernelAbi.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <memory>
#include <string>

namespace tenon::runtime {

class CodeObject {
public:
  static Result<std::unique_ptr<CodeObject>> load(Bytes code);
  ~CodeObject();
  CodeObject(const CodeObject &) = delete;
  CodeObject &operator=(const CodeObject &) = delete;

  /// Null when there is no such symbol.
  TenonKernelFn find(const std::string &symbol) const;

private:
  CodeObject(int descriptor, void *loaded) : fd(descriptor), handle(loaded) {}

  int fd;
  void *handle;
};

} // namespace tenon::runtime
