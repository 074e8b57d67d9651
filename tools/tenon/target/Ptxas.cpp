// Runs ptxas as a child process on files in a folder of its own.

#include "tools/tenon/target/Ptxas.h"

#include "runtime/library/Loader.h"
#include "support/Environment.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/files/ScratchFolder.h"

#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>

namespace tenon::tool {
namespace {

namespace fs = std::filesystem;

/// Runs a program with what it prints going to a file; its exit status, or -1.
int runProgram(const std::vector<std::string> &arguments, const std::string &printed) {
  std::vector<char *> raw;
  for (const std::string &argument : arguments) {
    raw.push_back(const_cast<char *>(argument.c_str()));
  }
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, printed.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  int code = posix_spawn(&child, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  bool hasEnded = code == 0 && waitpid(child, &status, 0) == child;
  return hasEnded && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Result<std::vector<std::byte>> readAll(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  std::vector<std::byte> bytes(file.size());
  TENON_TRY(file.read(0, bytes));
  return bytes;
}

std::string textOf(const std::string &path) {
  Result<std::vector<std::byte>> bytes = readAll(path);
  return bytes.isOk() ? std::string(reinterpret_cast<const char *>(bytes->data()), bytes->size())
                      : std::string();
}

std::vector<std::string> candidates() {
  std::vector<std::string> files;
  std::string path = environment("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    files.push_back(path.substr(begin, end - begin) + "/ptxas");
    begin = end + 1;
  }
  // Beside each folder of libraries there is one of programs.
  for (const std::string &folder : library::installedFolders()) {
    files.push_back((fs::path(folder).parent_path() / "bin" / "ptxas").string());
  }
  return files;
}

/// "13.0.88" of "Cuda compilation tools, release 13.0, V13.0.88"; empty if there is none.
std::string versionIn(const std::string &text) {
  size_t at = text.find(", V");
  return at == std::string::npos
             ? ""
             : text.substr(at + 3, text.find_first_not_of("0123456789.", at + 3) - at - 3);
}

} // namespace

Result<Ptxas> Ptxas::find(const std::string &path) {
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-ptxas"));
  for (const std::string &file : path.empty() ? candidates() : std::vector<std::string>{path}) {
    std::string printed = folder.path() + "/version";
    if (access(file.c_str(), X_OK) != 0 || runProgram({file, "--version"}, printed) != 0) {
      continue;
    }
    std::string version = versionIn(textOf(printed));
    if (!version.empty()) {
      Ptxas ptxas;
      ptxas.program = file;
      ptxas.nameAndVersion = "ptxas " + version;
      return ptxas;
    }
  }
  return Status::error(
      ErrorId::LibraryMissing,
      path.empty() ? "ptxas was not found in PATH, CUDA_HOME, /usr/local/cuda or Python packages"
                   : fmt::format("'{}' is not ptxas", path),
      "install it with 'pip install nvidia-cuda-nvcc', name it with --ptxas, or compile without "
      "--cubin: then the driver compiles the code at load time");
}

Result<std::vector<std::byte>> Ptxas::assemble(Bytes ptx, std::string_view arch) const {
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-ptxas"));
  std::string input = folder.path() + "/code.ptx";
  std::string output = folder.path() + "/code.cubin";
  if (!ptx.empty() && ptx.back() == std::byte(0)) {
    ptx = ptx.first(ptx.size() - 1);
  }
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(input));
  TENON_TRY(file.append(ptx));
  TENON_TRY(file.commit());
  std::string printed = folder.path() + "/printed";
  if (runProgram({program, fmt::format("-arch={}", arch), input, "-o", output}, printed) != 0) {
    std::string text = textOf(printed);
    return Status::error(ErrorId::LibraryUnsupported,
                         fmt::format("{} rejects the PTX for {}: {}", nameAndVersion, arch,
                                     text.substr(0, text.find('\n'))),
                         "name a newer one with --ptxas, or compile without --cubin");
  }
  return readAll(output);
}

pipeline::Assembler assemblerOf(Ptxas ptxas) {
  std::string name = ptxas.name();
  return {std::move(name), [ptxas = std::move(ptxas)](Bytes ptx, std::string_view arch) {
            return ptxas.assemble(ptx, arch);
          }};
}

} // namespace tenon::tool
