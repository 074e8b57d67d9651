// Implements the loading by dlopen, with a path that cannot mean a library of the system.

#include "tools/plugin/Plugin.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>

namespace tenon::tool {
namespace {

Status refuse(const std::string &path, std::string_view why) {
  return Status::error(ErrorId::BadPlugin, strCat("'", path, "': ", why),
                       "build it against include/tenon/graph.h of this release; "
                       "docs/guides/passes.md has an example");
}

bool isNameCharacter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
}

/// The members that a struct of that size has in common with ours.
template <typename T> T commonPart(const T &given, size_t size) {
  T own = {};
  std::memcpy(&own, &given, std::min(size, sizeof(T)));
  own.struct_size = sizeof(T);
  return own;
}

} // namespace

Status checkPass(const tenon_pass &pass, const std::string &from) {
  auto refused = [&](std::string_view what) {
    return Status::error(ErrorId::BadArgument, strCat(from, ": ", what),
                         "include/tenon/graph.h defines what a pass is");
  };
  std::string_view name = pass.name ? pass.name : "";
  std::string_view phase = pass.phase ? pass.phase : "";
  if (name.empty() || !std::all_of(name.begin(), name.end(), isNameCharacter)) {
    return refused(strCat(
        "'", name, "' is not a valid pass name: names consist of small letters, digits and '-'"));
  }
  if (phase != "normalize" && phase != "optimize") {
    return refused(strCat("pass '", name, "' is for the phase '", phase,
                          "', but the phases are 'normalize' and 'optimize'"));
  }
  if (pass.tolerance != pass.tolerance) {
    return refused(strCat("the tolerance of pass '", name, "' is not a number"));
  }
  return pass.run ? Status::ok() : refused(strCat("pass '", name, "' has no function"));
}

Result<std::vector<tenon_pass>> loadPlugin(const std::string &path) {
  std::error_code error;
  std::string absolute = std::filesystem::absolute(path, error);
  if (!std::filesystem::is_regular_file(absolute, error)) {
    return refuse(path, "there is no such file");
  }
  void *library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *said = dlerror();
    std::string_view why = said ? said : "it cannot be loaded";
    if (std::string prefix = absolute + ": "; why.starts_with(prefix)) {
      why.remove_prefix(prefix.size());
    }
    return refuse(path, why);
  }
  void *symbol = dlsym(library, "tenon_plugin_query");
  if (!symbol) {
    return refuse(path, "it does not export tenon_plugin_query");
  }
  const tenon_plugin *plugin = reinterpret_cast<tenon_plugin_query_fn>(symbol)(TENON_GRAPH_ABI);
  if (!plugin) {
    return refuse(path,
                  strCat("it does not support version ", TENON_GRAPH_ABI, " of the interface"));
  }
  if (plugin->abi != TENON_GRAPH_ABI || plugin->struct_size < sizeof(tenon_plugin)) {
    return refuse(path, strCat("it was built for version ", plugin->abi,
                               " of the interface, but this is ", TENON_GRAPH_ABI));
  }
  std::vector<tenon_pass> passes;
  // Each entry is as large as the plug-in's own tenon_pass.
  const char *entry = reinterpret_cast<const char *>(plugin->passes);
  for (size_t i = 0; i < plugin->pass_count; ++i) {
    size_t size = *reinterpret_cast<const size_t *>(entry);
    if (size < sizeof(size_t) || size % alignof(tenon_pass) != 0) {
      return refuse(path, "struct_size of a pass is not its sizeof");
    }
    passes.push_back(commonPart(*reinterpret_cast<const tenon_pass *>(entry), size));
    TENON_TRY(checkPass(passes.back(), path));
    entry += size;
  }
  return passes;
}

} // namespace tenon::tool
