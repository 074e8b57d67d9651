// The table of verbs, the flags that all share, and the way from a Status to an exit code.
// It relies on each verb declaring its own flags; see Verb.h for how to add one.

#include "tools/tenon/Tool.h"

#include "tools/plugin/GpuTrials.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/HelpData.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/StandardInput.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/cli/Usage.h"
#include "tools/tenon/registry/Stage.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <sstream>

using namespace tenon;
using namespace tenon::tool;

namespace {

constexpr Verb kVerbs[] = {
    {"doctor", "reference/targets.md", "show what this machine has and what Tenon will use of it",
     "tenon doctor", declareDoctor, false},
    {"inspect", "explanation/graph.md",
     "show the graph of a model or engine: shapes, FLOPs, regions; as a table or a web page",
     "tenon inspect model.onnx\ntenon inspect model.tenon --format html -o model.html",
     declareInspect},
    {"check", "tutorials/first-model.md",
     "list everything in a model that Tenon does not support, or verify an engine file",
     "tenon check model.onnx --target cpu\ntenon check model.tenon", declareCheck},
    {"compile", "tutorials/first-model.md", "compile a model to an engine",
     "tenon compile bert.onnx -o bert.tenon --shape input_ids:[1..8]x[1..512]", declareCompile},
    {"quantize", "guides/quantize.md", "quantize a trained model to 8 bits, with samples",
     "tenon quantize model.onnx --data calib.npz -o model.int8.onnx", declareQuantize},
    {"prune", "guides/prune.md", "remove channels, attention heads and FFN widths from a model",
     "tenon prune model.onnx --ratio 30% -o narrow.onnx", declarePrune},
    {"run", "tutorials/first-model.md", "run an engine or a model once",
     "tenon run model.tenon --inputs x.npz -o out.npz\n"
     "tenon run model.tenon --inputs image=cat.png --resize --mean 0.485,0.456,0.406 "
     "--std 0.229,0.224,0.225 --layout nchw",
     declareRun},
    {"bench", "guides/compare.md", "measure latency, throughput, load time and memory",
     "tenon bench model.tenon --threads 2 --batch 8\ntenon bench new.tenon --ab old.tenon",
     declareBench},
    {"profile", "guides/profile.md",
     "show what the model's operators cost, what limits each, and what to try",
     "tenon profile model.tenon --top 5\ntenon profile bert.onnx --shape input_ids:1x128",
     declareProfile},
    {"tune", "guides/tune.md",
     "measure which kernels are fastest for a model on this machine, and use them",
     "tenon tune model.onnx -o model.tenon --time 60s\ntenon tune bert.onnx --shape "
     "input_ids:1x128 --time 2m",
     declareTune},
    {"cache", "guides/tune.md",
     "manage tune's measurements: list, explain misses, export and import, tidy up",
     "tenon cache ls\ntenon cache explain model.onnx\ntenon cache export -o measured.tuning\ntenon "
     "cache import measured.tuning",
     declareCache},
    {"compare", "guides/wrong-numbers.md",
     "measure how far the results of two engines or models differ, layer by layer",
     "tenon compare compiled:model.onnx model.onnx --layers\n"
     "tenon compare model.tenon model.onnx --inputs x.npz",
     declareCompare},
    {"accuracy", "guides/accuracy.md",
     "measure accuracy on labelled data, with intervals, and the cost of models",
     "tenon accuracy model.onnx new.tenon --data test.npz --metric top1\n"
     "tenon accuracy new.tenon --data test.npz --metric cosine --reference model.onnx",
     declareAccuracy},
    {"explain", "reference/explain.md",
     "explain what the compiler decided and why: fusion, kernels, memory, placement, precision, "
     "passes; and what several GPUs would bring: sharding",
     "tenon explain fusion model.tenon /layer1/conv1/Conv\ntenon explain memory model.tenon\n"
     "tenon explain sharding model.gguf --tp 1,2,4",
     declareExplain},
    {"generate", "guides/language-models.md",
     "answer a prompt with a language model: a GGUF file or its engine",
     "tenon generate model.gguf \"How many days are there in a week?\"\n"
     "tenon generate model.gguf --temperature 0.8 --top-p 0.95 --seed 1 \"A story:\" --raw",
     declareGenerate},
    {"tokenize", "guides/language-models.md", "show the tokens of a text",
     "tenon tokenize model.gguf \"How many days?\"", declareTokenize},
    {"score", "guides/language-models.md",
     "measure a language model's perplexity on a text, and how far it is from another model",
     "tenon score model.gguf --text text.txt\n"
     "tenon score small.gguf --text text.txt --against large.gguf",
     declareScore},
    {"debug", "guides/wrong-numbers.md",
     "reduce a failing model to a few nodes, or find the pass that breaks it",
     "tenon debug reduce model.onnx -o small.onnx\n"
     "tenon debug bisect model.onnx --inputs x.npz",
     declareDebug},
    {"registry", "guides/platform.md",
     "keep versions of models and engines, gate and promote them, roll back",
     "tenon registry push cnn model.tenon --registry models.registry\n"
     "tenon registry promote cnn:1 production --registry models.registry\n"
     "tenon registry history --registry models.registry",
     declareRegistry, false},
    {"sign", "guides/signing.md", "sign a model or engine in the format of OpenSSF Model Signing",
     "tenon sign model.tenon --key key.pem\ntenon sign folder/ --key key.pem --certificate-chain "
     "chain.pem -o model.sig",
     declareSign},
    {"verify", "guides/signing.md", "verify that a trusted key has signed a model or engine",
     "tenon verify model.tenon --trusted public.pem", declareVerify},
    {"serve", "guides/serving.md",
     "serve engines over HTTP and gRPC, for clients of KServe v2, Triton and OpenAI",
     "tenon serve model.tenon\ntenon serve models/ --port 9000\ntenon serve models/ --address "
     "0.0.0.0 --token-file tokens",
     declareServe, false},
    {"help", "index.md", "show the page of an error, or the flags of a verb",
     "tenon help TN0301\ntenon help compile", declareHelp, false},
};

struct CommonFlags {
  bool json = false;
  bool quiet = false;
  std::string progress;
  std::string registry; ///< read before the parse, by StagedVersions
};

void declareCommon(CLI::App &command, CommonFlags &flags) {
  command.add_flag("--json", flags.json, "Print the result as JSON");
  command.add_flag("--quiet", flags.quiet, "Print results and errors only");
  addChoice(command, "--progress", flags.progress, {"line", "json", "none"},
            "Progress on stderr; by default a line if that is a terminal");
}

ProgressStyle progressStyle(const CommonFlags &flags) {
  if (flags.progress == "json") {
    return ProgressStyle::JsonLines;
  }
  if (flags.progress == "none" || flags.quiet) {
    return ProgressStyle::None;
  }
  bool wantsLine = flags.progress == "line" || (flags.progress.empty() && isatty(STDERR_FILENO));
  return wantsLine ? ProgressStyle::Line : ProgressStyle::None;
}

/// What the caller is told by the end: the verb's own error, else that of printing its results.
/// A reader that went away before the end, as `head` does, needs no message.
int finish(const Status &status, Terminal &terminal) {
  if (!status.isOk()) {
    terminal.printError(status);
  }
  Status printed = terminal.finish();
  if (status.isOk() && !printed.isOk() && !terminal.lostReader()) {
    terminal.printError(printed);
  }
  Code code = !status.isOk()    ? status.code()
              : !printed.isOk() ? printed.code()
                                : terminal.verdict();
  return static_cast<int>(code);
}

/// A parse that did not end in a verb: help, the version, or wrong usage.
int reportParse(const CLI::App &app, const CLI::ParseError &error, Terminal &terminal) {
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) {
    return finish(describeUsage(app, error), terminal);
  }
  std::ostringstream text;
  app.exit(error, text, text);
  terminal.print(text.str());
  return finish(Status::ok(), terminal);
}

bool takesVersions(const std::vector<std::string> &arguments) {
  return std::ranges::any_of(kVerbs, [&](const Verb &verb) {
    return !arguments.empty() && arguments.front() == verb.name && verb.takesVersions;
  });
}

/// CLI11 writes a list as "[cpu:native]", also one that is empty.
void tidyDefaults(CLI::App &command) {
  for (CLI::Option *option : command.get_options()) {
    std::string text = option->get_default_str();
    if (text.starts_with('[') && text.ends_with(']')) {
      option->default_str(text.substr(1, text.size() - 2));
    }
  }
  for (CLI::App *part : command.get_subcommands({})) {
    tidyDefaults(*part);
  }
}

/// The command line as it is parsed once.
class CommandLine {
public:
  CommandLine()
      : app("Compiles trained models to engines, and runs, measures and explains them.", "tenon") {
    app.set_version_flag("--version", TENON_VERSION);
    app.require_subcommand(1);
    app.footer(
        "tenon VERB --help shows a verb's flags, its page and an example. The pages begin at "
        "docs/index.md, in a clone and in the folder of the Python package.");
    for (const Verb &verb : kVerbs) {
      CLI::App *command = app.add_subcommand(verb.name, verb.summary);
      command->footer(
          fmt::format("{}{}\n\n{}{}", kPageTitle, verb.page, kExampleTitle, verb.example));
      command->option_defaults()->always_capture_default();
      declareCommon(*command, flags);
      if (verb.takesVersions) {
        command->add_option("--registry", flags.registry,
                            "Registry folder for registry:NAME@ALIAS in place of a file; the "
                            "user's own by default");
      }
      Action action = verb.declare(*command);
      tidyDefaults(*command);
      command->callback([this, action = std::move(action)] { chosen = action; });
    }
  }

  CLI::App app;
  CommonFlags flags;
  Action chosen;
};

/// "--reason=" as two words: the parser would take the next flag for the value that is empty.
void separateEmptyValues(std::vector<std::string> &arguments) {
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    std::string &word = arguments[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      word.pop_back();
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(++i), "");
    }
  }
}

} // namespace

Status tool::catchExceptions(const std::function<Status()> &work) {
  try {
    return work();
  } catch (const std::bad_alloc &) {
    return Status::error(ErrorId::OutOfMemory, "out of memory");
  } catch (const std::exception &error) {
    return Status::error(ErrorId::InternalError, fmt::format("internal error: {}", error.what()),
                         "please report it with the command line");
  }
}

Status tool::runVerb(std::vector<std::string> arguments, Terminal &terminal) {
  CommandLine line;
  StagedVersions versions;
  if (takesVersions(arguments)) {
    TENON_TRY(versions.replace(arguments));
  }
  try {
    separateEmptyValues(arguments);
    std::reverse(arguments.begin(), arguments.end());
    line.app.parse(std::move(arguments));
  } catch (const CLI::ParseError &error) {
    return describeUsage(line.app, error);
  }
  return catchExceptions([&] { return line.chosen(terminal); });
}

int tool::runTool(int argc, char **argv) {
  if (isGpuTrialProcess(argc, argv)) {
    return serveGpuTrials();
  }
  prepareStreams();
  CommandLine line;
  std::vector<std::string> arguments(argv + 1, argv + std::max(argc, 1));
  Status input = takeStandardInput(arguments);
  StagedVersions versions;
  if (input.isOk() && takesVersions(arguments)) {
    input = versions.replace(arguments);
  }
  if (!input.isOk()) {
    Terminal terminal(std::ranges::find(arguments, "--json") != arguments.end(), false,
                      ProgressStyle::None);
    return finish(input, terminal);
  }
  try {
    separateEmptyValues(arguments);
    std::reverse(arguments.begin(), arguments.end());
    line.app.parse(std::move(arguments));
  } catch (const CLI::ParseError &error) {
    Terminal terminal(line.flags.json, false, ProgressStyle::None);
    return reportParse(line.app, error, terminal);
  }
  Terminal terminal(line.flags.json, line.flags.quiet, progressStyle(line.flags));
  Status status = catchExceptions([&] { return line.chosen(terminal); });
  int code = finish(status, terminal);
  if (status.code() == Code::Internal) {
    // Nothing more runs: what a crash left behind may be damaged.
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

const char *tool::version() { return TENON_VERSION; }
