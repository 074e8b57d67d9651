// What a verb of the tool is: its place in the help, its flags, and what it does once they are
// parsed. A new verb is one file in verbs/ with one function of this kind, its declaration below
// and its row in the table of Tool.cpp.

#pragma once

#include "support/Status.h"

#include <functional>

namespace CLI {
class App;
} // namespace CLI

namespace tenon::tool {

class Terminal;

/// Runs the verb. What it returns is printed and becomes the exit code.
using Action = std::function<Status(Terminal &terminal)>;

struct Verb {
  const char *name;
  /// The page that explains it, in docs.
  const char *page;
  const char *summary;
  /// Lines that can be pasted into a shell.
  const char *example;
  /// Declares flags on `command`; the returned action reads them after parsing.
  Action (*declare)(CLI::App &command);
  /// Whether registry:REF stands for a file among its arguments.
  bool takesVersions = true;
};

Action declareDoctor(CLI::App &command);
Action declareInspect(CLI::App &command);
Action declareCheck(CLI::App &command);
Action declareCompare(CLI::App &command);
Action declareCompile(CLI::App &command);
Action declareQuantize(CLI::App &command);
Action declarePrune(CLI::App &command);
Action declareRun(CLI::App &command);
Action declareBench(CLI::App &command);
Action declareProfile(CLI::App &command);
Action declareTune(CLI::App &command);
Action declareCache(CLI::App &command);
Action declareAccuracy(CLI::App &command);
Action declareExplain(CLI::App &command);
Action declareDebug(CLI::App &command);
Action declareRegistry(CLI::App &command);
Action declareSign(CLI::App &command);
Action declareVerify(CLI::App &command);
Action declareGenerate(CLI::App &command);
Action declareTokenize(CLI::App &command);
Action declareScore(CLI::App &command);
Action declareServe(CLI::App &command);
Action declareHelp(CLI::App &command);

} // namespace tenon::tool
