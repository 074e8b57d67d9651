// `tenon doctor`: what this machine has, what Tenon will use of it, and why not more.

#include "engine/Level.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/library/Library.h"
#include "support/Environment.h"
#include "support/files/AtomicFile.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/bench/Calibrate.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/target/CpuInfo.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>

namespace tenon::tool {
namespace {

/// Where /proc/cpuinfo has the names of features (engine::CpuFeature::flags).
#if defined(__x86_64__)
constexpr std::string_view kFlags = "flags";
#else
constexpr std::string_view kFlags = "Features";
#endif

/// What a level lacks on this machine; the runtime alone decides whether it is usable.
std::string missingFeatures(const engine::Level &level) {
  if ((level.features & ~runtime::hostFeatures()) == 0) {
    return "";
  }
  std::istringstream present(cpuInfo(kFlags));
  std::set<std::string> flags{std::istream_iterator<std::string>(present), {}};
  std::string missing;
  for (const engine::CpuFeature &feature : engine::kCpuFeatures) {
    bool isAsked =
        feature.architecture == level.architecture && (level.features & feature.bit) != 0;
    std::istringstream needed{std::string(isAsked ? feature.flags : "")};
    for (std::string flag; needed >> flag;) {
      missing += flags.insert(flag).second ? " " + flag : ""; // each once
    }
  }
  return missing.empty() ? "the operating system's support" : missing.substr(1);
}

uint64_t memoryBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// The folder itself, or the nearest one above it that there is.
std::filesystem::path existingPart(std::filesystem::path folder) {
  std::error_code ignored;
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return folder;
}

uint64_t freeBytesFor(const std::string &folder) {
  struct statvfs stats = {};
  return statvfs(existingPart(folder).c_str(), &stats) == 0 ? stats.f_bavail * stats.f_frsize : 0;
}

bool mayBeWritten(const std::string &folder) {
  std::filesystem::path path = existingPart(folder);
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) && access(path.c_str(), W_OK) == 0;
}

/// Where NVIDIA's driver keeps what it compiled PTX to; or why it compiles at each load.
Json describeCodeCache() {
  std::string folder = environment("CUDA_CACHE_PATH"), problem;
  if (folder.empty() && !environment("HOME").empty()) {
    folder = environment("HOME") + "/.nv/ComputeCache";
  }
  if (environment("CUDA_CACHE_DISABLE") == "1") {
    problem = "CUDA_CACHE_DISABLE is 1";
  } else if (folder.empty()) {
    problem = "neither CUDA_CACHE_PATH nor HOME is set";
  } else if (!mayBeWritten(folder)) {
    problem = folder + " cannot be written";
  }
  return {{"folder", folder}, {"problem", problem}};
}

/// The GPUs that NVIDIA's driver finds; or why there are none.
Json describeGpus() {
  namespace cuda = runtime::cuda;
  Json report = {{"driver", nullptr},
                 {"devices", Json::array()},
                 {"problem", ""},
                 {"code_cache", describeCodeCache()}};
  auto refuse = [&](const Status &status) {
    report["problem"] = std::string(status.message());
    return report;
  };
  Result<std::shared_ptr<const cuda::CudaDriver>> driver =
      cuda::CudaDriver::open(cuda::kDriverLibrary);
  if (!driver.isOk()) {
    return refuse(driver.status());
  }
  report["driver"] = "CUDA " + (*driver)->versionText();
  Result<int> count = cuda::countDevices(**driver);
  if (!count.isOk()) {
    return refuse(count.status());
  }
  for (int i = 0; i < *count; ++i) {
    Result<cuda::DeviceInfo> info = cuda::describeDevice(**driver, i);
    if (!info.isOk()) {
      return refuse(info.status());
    }
    report["devices"].push_back({{"name", info->name},
                                 {"capability", fmt::format("sm_{}", info->capability)},
                                 {"memory_bytes", info->memoryBytes},
                                 {"multiprocessors", info->multiprocessors}});
  }
  return report;
}

/// The libraries of NVIDIA that engines may call.
Json describeLibraries() {
  Json report = Json::array();
  for (const library::FoundLibrary &found : library::findLibraries()) {
    report.push_back({{"name", found.name},
                      {"path", found.path},
                      {"version", found.version},
                      {"problem", found.problem}});
  }
  return report;
}

std::string gpuText(const Json &gpus, const Json &libraries) {
  std::string text;
  for (const Json &device : gpus["devices"]) {
    text += fmt::format("{:<12}{}, {}, {} ({})\n", text.empty() ? "GPU" : "",
                        device["name"].get<std::string>(), device["capability"].get<std::string>(),
                        formatBytes(device["memory_bytes"].get<uint64_t>()),
                        gpus["driver"].get<std::string>());
  }
  if (text.empty()) {
    return fmt::format("GPU         none: {}\n", gpus["problem"].get<std::string>());
  }
  const Json &cache = gpus["code_cache"];
  std::string kept = cache["problem"].get<std::string>();
  text +=
      fmt::format("{:<12}{}\n", "GPU code",
                  kept.empty() ? "kept by the driver in " + cache["folder"].get<std::string>()
                               : "compiled at each load: " + kept + " (or compile with --cubin)");
  for (const Json &library : libraries) {
    std::string problem = library["problem"].get<std::string>();
    text +=
        fmt::format("{:<12}{}\n", library["name"].get<std::string>(),
                    problem.empty() ? fmt::format("{} ({})", library["version"].get<std::string>(),
                                                  library["path"].get<std::string>())
                                    : "none: " + problem);
  }
  return text;
}

Status doctor(Terminal &terminal) {
  std::string cache = userCacheFolder();
  Json levels = Json::array();
  std::string text = fmt::format("processor   {}, {}\nthreads     {} usable\nmemory      {}\n",
                                 cpuInfo("model name"), nameOf(runtime::kHostArchitecture),
                                 usableCpus(), formatBytes(memoryBytes()));
  std::string best;
  for (const engine::Level &level : engine::kLevels) {
    if (level.architecture != runtime::kHostArchitecture) {
      continue;
    }
    std::string missing = missingFeatures(level);
    std::string features = engine::featureText(level.architecture, level.features);
    levels.push_back({{"level", level.name},
                      {"architecture", nameOf(level.architecture)},
                      {"features", features},
                      {"usable", missing.empty()},
                      {"missing", missing}});
    text += fmt::format("{:<12}{:<18} {}\n", levels.size() == 1 ? "CPU levels" : "", level.name,
                        missing.empty() ? "yes: " + features : "no: lacks " + missing);
    best = missing.empty() ? std::string(level.name) : best;
  }
  text +=
      fmt::format("will use    {}\n", best.empty() ? "nothing: Tenon needs AVX2 and FMA" : best);
  Json gpus = describeGpus();
  Json libraries = describeLibraries();
  text += gpuText(gpus, libraries);
  text += cache.empty()
              ? "cache       none: HOME and XDG_CACHE_HOME are not set\n"
              : fmt::format("cache       {} ({} free)\n", cache, formatBytes(freeBytesFor(cache)));
  text += fmt::format("tenon       {}\n", TENON_VERSION);
  if (terminal.json()) {
    terminal.printJson("doctor", {{"version", TENON_VERSION},
                                  {"cpu", cpuInfo("model name")},
                                  {"architecture", nameOf(runtime::kHostArchitecture)},
                                  {"threads", usableCpus()},
                                  {"memory_bytes", memoryBytes()},
                                  {"levels", levels},
                                  {"will_use", best},
                                  {"gpu", gpus},
                                  {"libraries", libraries},
                                  {"cache", cache},
                                  {"cache_free_bytes", freeBytesFor(cache)}});
  } else {
    terminal.print(text);
  }
  if (best.empty()) {
    return Status::error(ErrorId::EngineNoVariant, "this machine supports none of the CPU levels",
                         "use a processor with AVX2 and FMA (2013 and later)");
  }
  return Status::ok();
}

struct DoctorFlags {
  bool calibrates = false;
  std::string output;
};

/// Writes a device profile of this machine, to stdout if no file is named.
Status writeProfile(const std::string &path, Terminal &terminal) {
  TENON_ASSIGN(Json profile, calibrate(cpuInfo("model name"), terminal));
  std::string text = dumpJson(profile, 2) + "\n";
  if (path.empty()) {
    terminal.print(text);
    return Status::ok();
  }
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TENON_TRY(file.append(std::as_bytes(std::span(text))));
  TENON_TRY(file.commit());
  terminal.note(fmt::format("{}: use it with tenon compile --device-profile", path));
  return Status::ok();
}

Status runDoctor(const DoctorFlags &flags, Terminal &terminal) {
  if (flags.calibrates) {
    return writeProfile(flags.output, terminal);
  }
  if (!flags.output.empty()) {
    return Status::error(ErrorId::BadArgument, "-o is for the measurements of --calibrate",
                         "add --calibrate");
  }
  return doctor(terminal);
}

} // namespace

Action declareDoctor(CLI::App &command) {
  std::shared_ptr<DoctorFlags> flags = std::make_shared<DoctorFlags>();
  command.add_flag("--calibrate", flags->calibrates,
                   "Measure this machine, for some seconds, and write its device profile");
  addOutput(command, flags->output, "The profile; stdout by default");
  return [flags](Terminal &terminal) { return runDoctor(*flags, terminal); };
}

} // namespace tenon::tool
