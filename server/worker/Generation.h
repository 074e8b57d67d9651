// A language model in a worker: it continues the texts that the front asks for over the model's
// text socket. One thread makes tokens of prompts (a chat template is code of the engine, and long
// texts take a while), another runs the steps of the model's TextService and sends their pieces.

#pragma once

#include "generate/service/TextService.h"
#include "generate/session/LanguageModel.h"
#include "generate/tools/ToolParser.h"
#include "server/ipc/Descriptor.h"
#include "server/ipc/TextMessages.h"
#include "server/worker/AskReader.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tenon::server {

class Generation {
public:
  /// `onFailure` is called for a step that failed, before what it continued is told. Errors are
  /// those of TextService::create.
  static Result<std::unique_ptr<Generation>> create(std::unique_ptr<generate::LanguageModel> model,
                                                    generate::ServiceOptions options,
                                                    std::function<void(const Status &)> onFailure);
  /// Waits for the step that goes on; the front is told of nothing more.
  ~Generation();

  const generate::ModelFacts &facts() const { return service->modelFacts(); }

  /// Serves the front over the socket, once.
  void start(Descriptor socket);

private:
  explicit Generation(std::unique_ptr<generate::LanguageModel> theModel)
      : model(std::move(theModel)), asks(*model) {}

  /// What the first thread hands to the second.
  struct Submission {
    generate::TextRequest request;
    bool givesTokens = false;
    std::unique_ptr<generate::ToolParser> parser; ///< null where it calls no tools
  };
  /// An answer that the front waits for.
  struct Open {
    bool givesTokens = false;
    std::unique_ptr<generate::ToolParser> parser;
  };
  struct Work {
    std::vector<Submission> submissions;
    std::vector<uint64_t> cancelled;
  };

  // The thread that reads.
  void read();
  /// False where the message is not one of the front's.
  bool handle(std::string_view message);
  Status prepare(const TextAsk &ask);

  // The thread that steps.
  void work();
  /// Sends a step, with what the service holds by then.
  void report(TextStep &out);
  void take(Work work, TextStep &out);
  void step(TextStep &out);
  void endAll(const Status &why, TextStep &out);
  TextPiece describe(uint64_t id, const Open &answer, const generate::Piece &piece) const;
  TextToken describe(const generate::Draw &draw, bool givesTokens) const;

  /// Both threads; nothing more is sent once the front has gone.
  void send(const std::string &message);

  const std::unique_ptr<generate::LanguageModel> model;
  std::function<void(const Status &)> onFailure;
  std::unique_ptr<generate::TextService> service; ///< of the thread that steps, but its facts
  std::vector<TextPreempted> preempted;           ///< in a step; of the thread that steps
  std::unordered_map<uint64_t, Open> open;        ///< by answer; the same
  AskReader asks;                                 ///< of the thread that reads
  Descriptor socket;
  std::mutex sending;

  std::mutex lock;
  std::condition_variable added;
  Work pending;
  bool isEnding = false;

  std::thread reader, stepper;
};

} // namespace tenon::server
