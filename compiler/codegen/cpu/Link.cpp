// Links code objects with lld as a library. lld works on files and on global state: a private
// folder holds its input and output, and one link runs at a time.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "lld/Common/Driver.h"
#include "support/files/ScratchFolder.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <deque>
#include <mutex>

LLD_HAS_DRIVER(elf)

namespace tenon::codegen::cpu {

namespace {

llvm::Error writeFile(llvm::StringRef path, llvm::StringRef bytes) {
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (!code) {
    stream << bytes;
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  return code ? llvm::createFileError(path, code) : llvm::Error::success();
}

/// Everything but `symbols` is local to the object.
std::string versionScript(llvm::ArrayRef<llvm::StringRef> symbols) {
  std::string script = "{\n";
  for (llvm::StringRef symbol : symbols) {
    script += "  global: " + symbol.str() + ";\n";
  }
  return script + "  local: *;\n};\n";
}

/// Adds the libraries that are called to `objects`, and to `arguments` what gives their functions
/// the names by which they are called.
llvm::Error addLibraries(llvm::ArrayRef<llvm::StringRef> libraries,
                         llvm::SmallVector<llvm::StringRef> &objects, std::deque<std::string> &made,
                         std::vector<std::string> &arguments) {
  llvm::StringSet<> called;
  for (llvm::StringRef object : objects) {
    llvm::Expected<std::vector<std::string>> undefined = undefinedSymbols(object);
    if (!undefined) {
      return undefined.takeError();
    }
    for (llvm::StringRef name : *undefined) {
      if (name.consume_front(kUserPrefix) && called.insert(name).second) {
        arguments.push_back(("--defsym=" + kUserPrefix + name + "=" + name).str());
      }
    }
  }
  for (llvm::StringRef library : libraries) {
    if (!library.starts_with("\x7f"
                             "ELF")) {
      continue; // another device's
    }
    llvm::Expected<std::string> object = relocatableOf(library);
    if (!object) {
      return object.takeError();
    }
    llvm::Expected<std::vector<std::string>> defined = definedSymbols(*object);
    if (!defined) {
      return defined.takeError();
    }
    if (llvm::any_of(*defined, [&](const std::string &name) { return called.contains(name); })) {
      objects.push_back(made.emplace_back(std::move(*object)));
    }
  }
  return llvm::Error::success();
}

llvm::Error runLinker(llvm::ArrayRef<std::string> arguments) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  llvm::SmallVector<const char *> pointers;
  for (const std::string &argument : arguments) {
    pointers.push_back(argument.c_str());
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0) {
    return llvm::createStringError("linking generated code failed: " + text);
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::string> linkCode(llvm::ArrayRef<llvm::StringRef> ours,
                                     llvm::ArrayRef<llvm::StringRef> symbols,
                                     llvm::ArrayRef<llvm::StringRef> libraries) {
  Result<ScratchFolder> folder = ScratchFolder::create("tenon-link");
  if (!folder) {
    return llvm::createStringError(folder.status().toString());
  }
  auto inFolder = [&](const llvm::Twine &name) { return (folder->path() + "/" + name).str(); };

  // The options leave nothing to the machine: no build id, no library path, one thread.
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "-z",
                                        "defs",
                                        "-z",
                                        "now",
                                        "-z",
                                        "relro",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "--strip-all",
                                        "--gc-sections",
                                        "--threads=1",
                                        "-o",
                                        inFolder("code.so"),
                                        "--version-script=" + inFolder("symbols")};
  llvm::SmallVector<llvm::StringRef> objects(ours);
  std::deque<std::string> made;
  if (llvm::Error error = addLibraries(libraries, objects, made, arguments)) {
    return std::move(error);
  }
  if (llvm::Error error = writeFile(inFolder("symbols"), versionScript(symbols))) {
    return std::move(error);
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    arguments.push_back(inFolder(std::to_string(i) + ".o"));
    if (llvm::Error error = writeFile(arguments.back(), objects[i])) {
      return std::move(error);
    }
  }
  if (llvm::Error error = runLinker(arguments)) {
    return std::move(error);
  }
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> linked =
      llvm::MemoryBuffer::getFile(inFolder("code.so"), /*IsText=*/false,
                                  /*RequiresNullTerminator=*/false, /*IsVolatile=*/true);
  if (!linked) {
    return llvm::createFileError("the linked code", linked.getError());
  }
  return (*linked)->getBuffer().str();
}

} // namespace tenon::codegen::cpu
