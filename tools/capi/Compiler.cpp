// The C interface to the compiler, over the functions that the verbs call too; tenon_verb alone
// takes a command line. Nothing thrown below passes this border.

#include "tenon/compiler.h"

#include "runtime/capi/StatusObject.h"
#include "runtime/capi/Structs.h"
#include "support/Environment.h"
#include "support/files/MappedFile.h"
#include "support/files/ScratchFolder.h"
#include "support/text/Printable.h"
#include "support/threads/ThreadPool.h"
#include "tools/plugin/Plugin.h"
#include "tools/tenon/Tool.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/compile/CheckFile.h"
#include "tools/tenon/compile/CompileToFile.h"
#include "tools/tenon/explain/Explain.h"
#include "tools/tenon/explain/Inspect.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/registry/Stage.h"
#include "tools/view/Escape.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>

using namespace tenon;
using capi::badArgument;

namespace {

/// Results name the file in commands to be pasted, where it must not look like a flag.
std::string protectedPath(const std::string &path) {
  return path.starts_with('-') ? "./" + path : path;
}

/// Runs a function of the interface.
tenon_status *performed(const std::function<Status()> &work) {
  return capi::guarded([&] {
    tool::ContainedCrashes contained;
    return tool::catchExceptions(work);
  });
}

/// Gives `bytes` to the caller.
void give(std::string_view bytes, tenon_blob *blob) {
  char *data = static_cast<char *>(std::malloc(bytes.size() + 1));
  if (!data) {
    throw std::bad_alloc();
  }
  std::memcpy(data, bytes.data(), bytes.size());
  data[bytes.size()] = '\0';
  *blob = {data, bytes.size()};
}

/// The caller's passes, which a later call of the same options may bring again.
Result<std::vector<tenon_pass>> passesOf(const tenon_compile_options &options) {
  std::vector<tenon_pass> passes;
  const char *entry = reinterpret_cast<const char *>(options.passes);
  for (size_t i = 0; i < options.pass_count; ++i) {
    tenon_pass pass = {};
    TENON_TRY(capi::readStruct(reinterpret_cast<const tenon_pass *>(entry), pass));
    TENON_TRY(tool::checkPass(pass, "tenon_compile_options.passes"));
    passes.push_back(pass);
    entry += *reinterpret_cast<const size_t *>(entry);
  }
  return passes;
}

std::vector<std::string> listOf(const char *const *texts) {
  std::vector<std::string> list;
  for (; texts && *texts; ++texts) {
    list.emplace_back(*texts);
  }
  return list;
}

/// As the verb prints it with --json.
void giveJson(std::string_view schema, Json value, tenon_blob *blob) {
  give(withoutControls(tool::jsonText(schema, std::move(value)), "\n\t"), blob);
}

/// The same of a text, which ends in a line.
void giveText(std::string text, tenon_blob *blob) {
  text += text.ends_with('\n') ? "" : "\n";
  give(text, blob);
}

Status compile(const char *model, const std::string &output, const tenon_compile_options &options,
               tenon_blob *report) {
  tool::CompileRequest request;
  tool::StagedVersions versions;
  TENON_ASSIGN(request.options.model, versions.pathOf(protectedPath(model)));
  request.options.output = protectedPath(output);
  request.target.targets = options.targets ? listOf(options.targets) : request.target.targets;
  request.target.precision = options.precision ? options.precision : request.target.precision;
  request.target.allow = listOf(options.allow);
  request.target.states = listOf(options.states);
  request.shapes = listOf(options.shapes);
  request.optimizeFor = listOf(options.optimize_for);
  request.extraOutputs = listOf(options.taps);
  request.kernels = listOf(options.kernels);
  request.plugins = listOf(options.plugins);
  request.ownKernels = {listOf(options.kernel_libraries), options.unchecked_kernels != 0};
  request.options.disabledFamilies = listOf(options.disabled_families);
  request.options.verify = options.verify != 0;
  request.options.strict = options.strict != 0;
  request.noCache = options.no_cache != 0;
  request.wantsCubin = options.cubin != 0;
  request.ptxas = options.ptxas ? options.ptxas : "";
  if (options.max_weights != 0) {
    request.options.maxWeights = options.max_weights;
  }
  request.options.threads = options.threads != 0 ? options.threads : usableCpus();
  TENON_ASSIGN(request.passes, passesOf(options));
  std::atomic<bool> isCancelled = false;
  request.options.cancel = &isCancelled;
  request.options.notice = [](std::string_view) {};
  if (options.progress) {
    request.options.progress = [&](pipeline::Phase phase, double fraction) {
      bool wantsEnd = options.progress(options.user, std::string(nameOf(phase)).c_str(),
                                       overallFraction(phase, fraction)) != 0;
      isCancelled = isCancelled || wantsEnd;
    };
  }
  TENON_ASSIGN(pipeline::CompileSummary summary, tool::compileToFile(request));
  if (report) {
    giveJson("compile", tool::summaryJson(summary), report);
  }
  return Status::ok();
}

} // namespace

extern "C" {

void tenon_blob_destroy(tenon_blob *blob) {
  if (blob) {
    std::free(blob->data);
    *blob = {};
  }
}

const char *tenon_compiler_version(void) { return tool::version(); }

tenon_status *tenon_compile(const char *model, const char *output,
                            const tenon_compile_options *options, tenon_blob *report) {
  return performed([&]() -> Status {
    if (!model || !output) {
      return badArgument("the path of the model or of the engine is null");
    }
    tenon_compile_options given = {};
    TENON_TRY(capi::readStruct(options, given));
    return compile(model, output, given, report);
  });
}

tenon_status *tenon_compile_memory(const char *model, const tenon_compile_options *options,
                                   tenon_blob *engine, tenon_blob *report) {
  return performed([&]() -> Status {
    if (!model || !engine) {
      return badArgument("the path of the model or the place for the engine is null");
    }
    tenon_compile_options given = {};
    TENON_TRY(capi::readStruct(options, given));
    TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-compile"));
    std::string path = folder.path() + "/model.tenon";
    tenon_blob info = {};
    TENON_TRY(compile(model, path, given, report ? &info : nullptr));
    TENON_ASSIGN(MappedFile file, MappedFile::open(path));
    give({reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()}, engine);
    if (report) {
      *report = info;
    }
    return Status::ok();
  });
}

tenon_status *tenon_check(const char *path, const tenon_check_options *options, tenon_blob *json) {
  return performed([&]() -> Status {
    if (!path || !json) {
      return badArgument("the path or the place for the text is null");
    }
    tenon_check_options given = {};
    TENON_TRY(capi::readStruct(options, given));
    tool::StagedVersions versions;
    tool::CheckRequest request;
    TENON_ASSIGN(request.path, versions.pathOf(protectedPath(path)));
    request.targets = given.targets && *given.targets ? listOf(given.targets) : request.targets;
    request.shapes = listOf(given.shapes);
    TENON_ASSIGN(tool::CheckReport report, tool::checkFile(request));
    giveJson("check", std::move(report.json), json);
    return Status::ok();
  });
}

tenon_status *tenon_inspect(const char *path, const tenon_inspect_options *options,
                            tenon_blob *text) {
  return performed([&]() -> Status {
    if (!path || !text) {
      return badArgument("the path or the place for the text is null");
    }
    tenon_inspect_options given = {};
    TENON_TRY(capi::readStruct(options, given));
    tool::StagedVersions versions;
    tool::InspectRequest request;
    TENON_ASSIGN(request.path, versions.pathOf(protectedPath(path)));
    request.format = given.format ? given.format : "json";
    request.shapes = listOf(given.shapes);
    TENON_ASSIGN(request.profile, versions.pathOf(given.profile ? given.profile : ""));
    request.output = given.output ? protectedPath(given.output) : "";
    TENON_ASSIGN(tool::Inspection shown, tool::inspectFile(request));
    if (!request.output.empty()) {
      give("", text);
    } else if (!shown.schema.empty()) {
      giveJson(shown.schema, std::move(shown.json), text);
    } else if (request.format != "text") {
      giveText(shown.text, text);
    } else {
      std::string screen = tool::inspectionScreen(shown.text, view::visible(request.path));
      giveText(withoutControls(screen, "\n\t"), text);
    }
    return Status::ok();
  });
}

tenon_status *tenon_explain(const char *engine, const char *topic, const char *node,
                            int32_t as_json, tenon_blob *text) {
  return performed([&]() -> Status {
    if (!engine || !topic || !text) {
      return badArgument("the path, the topic or the place for the text is null");
    }
    tool::StagedVersions versions;
    tool::ExplainRequest request;
    TENON_ASSIGN(request.engine, versions.pathOf(protectedPath(engine)));
    request.topic = topic;
    request.node = node ? node : "";
    TENON_ASSIGN(Json explained, tool::explainEngine(request));
    if (as_json != 0) {
      giveJson("explain-" + request.topic, std::move(explained), text);
    } else {
      std::string shown = tool::explanationText(request, std::move(explained), false);
      giveText(withoutControls(shown, "\n\t"), text);
    }
    return Status::ok();
  });
}

tenon_status *tenon_verb(const char *const *arguments, tenon_progress progress, void *user,
                         tenon_blob *json) {
  return performed([&]() -> Status {
    if (!arguments || !json) {
      return badArgument("the arguments or the place for the text is null");
    }
    tool::Listener listener;
    if (progress) {
      listener.progress = [=](std::string_view what, double fraction) {
        return progress(user, std::string(what).c_str(), fraction) != 0;
      };
    }
    tool::Terminal terminal(true, listener);
    TENON_TRY(tool::runVerb(listOf(arguments), terminal));
    give(listener.results, json);
    return Status::ok();
  });
}

int tenon_main(int argc, char **argv) {
  tool::containCrashes();
  return tool::runTool(argc, argv);
}

} // extern "C"
