// Tries each place in turn and keeps what the loader said of the files that exist but do not load.
// Relies on the layout of toolkits (lib64, lib) and of wheels (site-packages/nvidia/PACKAGE/lib).

#include "runtime/library/Loader.h"

#include "support/Environment.h"
#include "support/text/Text.h"

#include <climits>
#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

namespace tenon::library {
namespace {

void addMatches(const std::string &pattern, std::vector<std::string> &folders) {
  glob_t found{};
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      folders.push_back(found.gl_pathv[i]);
    }
  }
  globfree(&found);
}

/// The wheels below one installation of Python.
void addWheels(const std::string &prefix, std::vector<std::string> &folders) {
  if (prefix.empty()) {
    return;
  }
  for (const char *packages : {"/lib/python3*/site-packages", "/lib/python3*/dist-packages",
                               "/local/lib/python3*/dist-packages"}) {
    addMatches(strCat(prefix, packages, "/nvidia/*/lib"), folders);
  }
}

/// The folder above the `bin` that holds python3, first as PATH names it (a virtual environment),
/// then behind links.
std::vector<std::string> pythonPrefixes() {
  std::string path = environment("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    std::string program = path.substr(begin, end - begin) + "/python3";
    begin = end + 1;
    if (access(program.c_str(), X_OK) != 0) {
      continue;
    }
    std::vector<std::string> prefixes = {program.substr(0, program.rfind("/bin/"))};
    char real[PATH_MAX];
    if (realpath(program.c_str(), real)) {
      std::string target = real;
      prefixes.push_back(target.substr(0, target.rfind("/bin/")));
    }
    return prefixes;
  }
  return {};
}

/// Puts what the loader says into `problem` unless the file is simply not there.
void *tryOpen(const std::string &file, std::string &problem) {
  void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle && file.find('/') != std::string::npos && access(file.c_str(), F_OK) == 0) {
    problem = dlerror();
  }
  return handle;
}

OpenLibrary opened(void *handle, const std::string &file) {
  link_map *map = nullptr;
  bool isKnown = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0];
  return {handle, isKnown ? map->l_name : file};
}

} // namespace

void openParts(const LibraryName &library, const OpenLibrary &open) {
  std::string folder = open.path.substr(0, open.path.rfind('/') + 1);
  for (std::string_view part : library.parts) {
    dlopen(strCat(folder, part).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

std::vector<std::string> installedFolders() {
  std::vector<std::string> folders;
  for (const std::string &toolkit : {environment("CUDA_HOME"), std::string("/usr/local/cuda")}) {
    if (!toolkit.empty()) {
      folders.push_back(toolkit + "/lib64");
      folders.push_back(toolkit + "/lib");
    }
  }
  addWheels(environment("VIRTUAL_ENV"), folders);
  for (const std::string &prefix : pythonPrefixes()) {
    addWheels(prefix, folders);
  }
  std::string home = environment("HOME");
  addWheels(home.empty() ? home : home + "/.local", folders);
  return folders;
}

Result<OpenLibrary> openLibrary(const LibraryName &library, const std::string &folder) {
  std::string problem;
  std::vector<std::string> places;
  if (!folder.empty()) {
    places.push_back(folder + "/");
  }
  places.push_back(""); // the loader's path
  for (const std::string &installed : installedFolders()) {
    places.push_back(installed + "/");
  }
  for (const std::string &place : places) {
    for (std::string_view name : library.files) {
      std::string file = strCat(place, name);
      if (void *handle = tryOpen(file, problem)) {
        return opened(handle, file);
      }
    }
  }
  return Status::error(ErrorId::LibraryMissing,
                       strCat(library.name, ": ", library.files.front(),
                              problem.empty() ? " was not found" : " cannot be loaded: " + problem),
                       strCat("install it with 'pip install ", library.package,
                              "', or give the folder that contains it"));
}

void *findSymbol(const OpenLibrary &library, const char *symbol) {
  return dlsym(library.handle, symbol);
}

void *FunctionFinder::need(const char *symbol) {
  void *function = findSymbol(open, symbol);
  missing = function ? missing : symbol;
  return function;
}

std::string versionText(size_t number) {
  return strCat(number / 10000, '.', number / 100 % 100, '.', number % 100);
}

Status lacksSymbol(const LibraryName &library, const OpenLibrary &open, std::string_view symbol) {
  return Status::error(ErrorId::LibraryMissing,
                       strCat(library.name, ": ", open.path, " lacks ", symbol),
                       strCat("update it with 'pip install -U ", library.package, "'"));
}

} // namespace tenon::library
