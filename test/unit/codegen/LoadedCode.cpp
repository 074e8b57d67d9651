// Links, writes to a memfd and opens it with dlopen. Relies on /proc being mounted.
#include "test/unit/codegen/LoadedCode.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "test/unit/codegen/foreign/Emulation.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace tenon::codegen::cpu {

static std::vector<engine::CpuLevel> levelsHere(bool withRare) {
  std::vector<engine::CpuLevel> levels;
  for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
    if ((withRare || row.isDefault) && runtime::runsHere(row.level) &&
        runtime::acquireFeatures(row.features)) {
      levels.push_back(row.level);
    }
  }
  return levels;
}

std::vector<engine::CpuLevel> machineLevels() {
  return emulatedLevels().empty() ? levelsHere(false) : emulatedLevels();
}

std::vector<engine::CpuLevel> allMachineLevels() { return levelsHere(true); }

static std::string valueOrAbort(llvm::Expected<std::string> value) {
  if (!value) {
    fprintf(stderr, "%s\n", llvm::toString(value.takeError()).c_str());
    abort();
  }
  return std::move(*value);
}

/// Built once a level: they are the same for every code object.
static const std::string &support(engine::CpuLevel level, const std::string &name) {
  static std::map<std::pair<engine::CpuLevel, std::string>, std::string> built;
  std::string &object = built[{level, name}];
  if (object.empty()) {
    object = valueOrAbort(supportObject(level, name));
  }
  return object;
}

/// Those that the code calls, or all for a test of theirs.
static std::vector<std::string> supportFor(llvm::ArrayRef<llvm::StringRef> objects) {
  llvm::Expected<std::vector<std::string>> called = supportOf(objects);
  if (!called) {
    fprintf(stderr, "%s\n", llvm::toString(called.takeError()).c_str());
    abort();
  }
  return objects.empty() ? supportNames() : std::move(*called);
}

std::string linkedCode(engine::CpuLevel level, const std::vector<std::string> &objects,
                       const std::vector<std::string> &symbols) {
  std::vector<llvm::StringRef> all(objects.begin(), objects.end());
  for (const std::string &name : supportFor(all)) {
    all.push_back(support(level, name));
  }
  std::vector<llvm::StringRef> exported(symbols.begin(), symbols.end());
  return valueOrAbort(linkCode(all, exported));
}

LoadedCode::LoadedCode(engine::CpuLevel level, const std::vector<std::string> &objects,
                       const std::vector<std::string> &symbols) {
  std::string code = linkedCode(level, objects, symbols);
  file = memfd_create("code", MFD_CLOEXEC);
  if (write(file, code.data(), code.size()) != static_cast<ssize_t>(code.size())) {
    perror("write");
    abort();
  }
  handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    abort();
  }
}

LoadedCode::~LoadedCode() {
  dlclose(handle);
  close(file);
}

void *LoadedCode::address(const std::string &symbol) const {
  void *found = dlsym(handle, symbol.c_str());
  if (!found) {
    fprintf(stderr, "no symbol %s\n", symbol.c_str());
    abort();
  }
  return found;
}

} // namespace tenon::codegen::cpu
