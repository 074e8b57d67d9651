// What an object file of the user's must be so that code objects can hold it.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/ObjectFile.h"

namespace tenon::codegen::cpu {

static llvm::Triple::ArchType archOf(engine::Architecture architecture) {
  switch (architecture) {
  case engine::Architecture::X86_64:
    return llvm::Triple::x86_64;
  case engine::Architecture::AArch64:
    return llvm::Triple::aarch64;
  default:
    return llvm::Triple::riscv64;
  }
}

llvm::Expected<std::vector<std::string>>
functionsOf(llvm::StringRef library, llvm::ArrayRef<std::string> symbols, engine::CpuLevel level) {
  llvm::Expected<std::string> relocatable = relocatableOf(library);
  if (!relocatable) {
    return relocatable.takeError();
  }
  llvm::StringRef object = *relocatable;
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "library"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return llvm::createStringError("it is not an ELF object file, as cc -c makes it");
  }
  if ((*file)->getArch() != archOf(engine::rowOf(level).architecture)) {
    return llvm::createStringError("it is for " +
                                   llvm::Triple::getArchTypeName((*file)->getArch()).str() +
                                   ", the engine for " + std::string(engine::nameOf(level)));
  }
  llvm::Expected<std::vector<std::string>> defined = definedSymbols(object);
  llvm::Expected<std::vector<std::string>> called = undefinedSymbols(object);
  if (!defined || !called) {
    return llvm::joinErrors(defined.takeError(), called.takeError());
  }
  for (const std::string &symbol : symbols) {
    if (!llvm::is_contained(*defined, symbol)) {
      return llvm::createStringError("it has no function '" + symbol +
                                     "'; its functions are: " + llvm::join(*defined, ", "));
    }
  }
  auto isOurs = [](llvm::StringRef name) {
    return name == "memcpy" || name == "memset" || name == "memmove";
  };
  for (const std::string &name : *called) {
    if (!isOurs(name) && name != "_GLOBAL_OFFSET_TABLE_") {
      return llvm::createStringError("it calls '" + name +
                                     "', but the code of an engine calls no library");
    }
  }
  for (const std::string &name : *defined) {
    if (isOurs(name)) {
      return llvm::createStringError("it defines '" + name +
                                     "', which the code of an engine has already");
    }
  }
  return std::move(*defined);
}

} // namespace tenon::codegen::cpu
