// Links code objects with lld as a library. lld works on files and on global state: its input are
// files in memory, its output goes through a pipe, and one link runs at a time. On disk, each link
// would make and remove a handful of files, which takes as long as the link. Relies on /proc.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

LLD_HAS_DRIVER(elf)

namespace tenon::codegen::cpu {

namespace {

llvm::Error systemError(const char *doing) {
  return llvm::createStringError(doing + (": " + llvm::sys::StrError()));
}

/// An open file that lld is given by a path.
class OpenFile {
public:
  explicit OpenFile(int descriptor) : fd(descriptor) {}
  OpenFile(OpenFile &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  OpenFile &operator=(OpenFile &&) = delete;
  ~OpenFile() {
    if (fd >= 0) {
      ::close(fd);
    }
  }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }

private:
  int fd;
};

/// A file in memory.
llvm::Expected<OpenFile> fileOf(llvm::StringRef bytes) {
  int fd = memfd_create("tenon-link", MFD_CLOEXEC);
  OpenFile file(fd);
  while (fd >= 0 && !bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      break;
    }
    bytes = bytes.drop_front(std::max<ssize_t>(written, 0));
  }
  if (fd < 0 || !bytes.empty()) {
    return systemError("cannot hold code to link in memory");
  }
  return file;
}

/// What comes out of a pipe before `done` is set. Its end would not do: a process that was forked
/// meanwhile holds the pipe open.
std::string readUntil(int done, int pipe) {
  std::string bytes;
  std::vector<char> part(1 << 20);
  pollfd ends[] = {{pipe, POLLIN, 0}, {done, POLLIN, 0}};
  for (bool isDone = false;;) {
    ends[0].revents = ends[1].revents = 0;
    ::poll(ends, 2, isDone ? 0 : -1);
    if ((ends[0].revents & POLLIN) != 0) {
      ssize_t count = ::read(pipe, part.data(), part.size());
      bytes.append(part.data(), std::max<ssize_t>(count, 0));
    } else if (isDone) {
      return bytes;
    } else {
      isDone = ends[1].revents != 0; // what came between the two looks is still in the pipe
    }
  }
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

/// What lld writes when it is started with `arguments` and -o.
llvm::Expected<std::string> runLinker(std::vector<std::string> arguments) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  int done = ::eventfd(0, EFD_CLOEXEC), ends[2] = {-1, -1};
  bool isOpen = done >= 0 && ::pipe2(ends, O_CLOEXEC) == 0;
  OpenFile event(done), from(ends[0]), to(ends[1]);
  if (!isOpen) {
    return systemError("cannot make a pipe for linked code");
  }
  arguments.insert(arguments.end(), {"-o", to.path()});
  llvm::SmallVector<const char *> pointers;
  for (const std::string &argument : arguments) {
    pointers.push_back(argument.c_str());
  }
  std::string text, code;
  llvm::raw_string_ostream stream(text);
  std::thread reader([&] { code = readUntil(done, ends[0]); });
  lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  eventfd_write(done, 1);
  reader.join();
  if (result.retCode != 0) {
    return llvm::createStringError("linking generated code failed: " + text);
  }
  return code;
}

} // namespace

llvm::Expected<std::string> linkCode(llvm::ArrayRef<llvm::StringRef> ours,
                                     llvm::ArrayRef<llvm::StringRef> symbols,
                                     llvm::ArrayRef<llvm::StringRef> libraries) {
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
                                        "--threads=1"};
  llvm::SmallVector<llvm::StringRef> objects(ours);
  std::deque<std::string> made;
  if (llvm::Error error = addLibraries(libraries, objects, made, arguments)) {
    return std::move(error);
  }
  llvm::Expected<OpenFile> script = fileOf(versionScript(symbols));
  if (!script) {
    return script.takeError();
  }
  arguments.push_back("--version-script=" + script->path());
  std::deque<OpenFile> files;
  for (llvm::StringRef object : objects) {
    llvm::Expected<OpenFile> file = fileOf(object);
    if (!file) {
      return file.takeError();
    }
    arguments.push_back(files.emplace_back(std::move(*file)).path());
  }
  return runLinker(std::move(arguments));
}

} // namespace tenon::codegen::cpu
