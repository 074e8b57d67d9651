// The front reads at any time, so that a send waits for it alone, and for no client.

#include "server/worker/Generation.h"

#include "generate/session/Chat.h"
#include "generate/tools/ToolGrammar.h"
#include "support/json/Json.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace tenon::server {
namespace {

/// Of one message of the front; it refuses larger bodies itself.
constexpr uint64_t kMaxCommand = uint64_t(4) << 30;

generate::GenerateOptions optionsOf(const TextOptions &asked) {
  generate::GenerateOptions options;
  options.sampling = {.temperature = asked.temperature,
                      .topK = static_cast<int64_t>(asked.topK),
                      .topP = asked.topP,
                      .minP = asked.minP,
                      .repetition = asked.repetition,
                      .frequency = asked.frequency,
                      .presence = asked.presence,
                      .seed = asked.seed,
                      .bias = asked.bias};
  options.stops = asked.stops;
  options.topTokens = static_cast<int64_t>(asked.topTokens);
  return options;
}

TextFinish finishOf(const std::optional<generate::Finish> &finish) {
  if (!finish) {
    return TextFinish::None;
  }
  switch (*finish) {
  case generate::Finish::Stop:
    return TextFinish::Stop;
  case generate::Finish::Length:
    return TextFinish::Length;
  case generate::Finish::End:
  case generate::Finish::Cancelled:
    break;
  }
  return TextFinish::End;
}

/// Whether answers may call tools.
bool usesTools(const TextAsk &ask) {
  return !ask.options.tools.list.empty() && ask.options.tools.choice != ToolChoice::None;
}

generate::Message messageOf(const ChatMessage &message) {
  generate::Message result{message.role, message.content, {}, message.callId};
  if (!message.calls.empty()) {
    for (const Json &call : parseJson(message.calls)) {
      result.calls.push_back({call["id"].get<std::string>(), call["name"].get<std::string>(),
                              dumpJson(call["arguments"])});
    }
  }
  return result;
}

std::vector<std::string> toolNames(const ToolOptions &tools) {
  std::vector<std::string> names;
  for (const Json &tool : parseJson(tools.list)) {
    names.push_back(tool["function"]["name"].get<std::string>());
  }
  return names;
}

} // namespace

Result<std::unique_ptr<Generation>>
Generation::create(std::unique_ptr<generate::LanguageModel> model,
                   const generate::ServiceOptions &options) {
  TENON_ASSIGN(std::unique_ptr<generate::TextService> service,
               generate::TextService::create(*model, options));
  return std::unique_ptr<Generation>(new Generation(std::move(model), std::move(service)));
}

void Generation::start(Descriptor textSocket) {
  socket = std::move(textSocket);
  reader = std::thread([this] { read(); });
  stepper = std::thread([this] { work(); });
}

Generation::~Generation() {
  if (!reader.joinable()) {
    return;
  }
  shutdown(socket.get(), SHUT_RDWR); // the reader wakes, and has the other end
  reader.join();
  stepper.join();
}

void Generation::read() {
  TextFrames frames(kMaxCommand);
  std::array<char, 64 << 10> buffer;
  bool isGood = true;
  while (isGood) {
    ssize_t bytes = recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes <= 0) {
      break;
    }
    frames.append({buffer.data(), static_cast<size_t>(bytes)});
    for (bool hasMore = true; isGood && hasMore;) {
      Result<std::optional<std::string_view>> message = frames.next();
      isGood = message.isOk();
      hasMore = isGood && message->has_value();
      isGood = isGood && (!hasMore || handle(**message));
    }
  }
  shutdown(socket.get(), SHUT_RDWR);
  std::lock_guard guard(lock);
  isEnding = true;
  added.notify_one();
}

bool Generation::handle(std::string_view message) {
  Result<TextCommand> command = decodeCommand(message);
  if (!command.isOk()) {
    return false;
  }
  if (const TextCancel *cancel = std::get_if<TextCancel>(&*command)) {
    std::lock_guard guard(lock);
    pending.cancelled.push_back(cancel->id);
    added.notify_one();
    return true;
  }
  const TextAsk &ask = std::get<TextAsk>(*command);
  Status status;
  try {
    status = prepare(ask);
  } catch (const std::exception &) {
    status = Status::error(ErrorId::OutOfMemory, "out of memory for a prompt");
  }
  if (!status.isOk()) {
    TextStep failed;
    for (uint64_t i = 0; i < ask.count; ++i) {
      failed.events.push_back(TextFailed{ask.id + i, status});
    }
    send(encodeStep(failed));
  }
  return true;
}

Result<std::vector<int32_t>> Generation::tokensOf(const TextAsk &ask) {
  if (const std::vector<int32_t> *tokens = std::get_if<std::vector<int32_t>>(&ask.prompt)) {
    return *tokens;
  }
  if (const std::string *text = std::get_if<std::string>(&ask.prompt)) {
    return model->tokenizer().encode(*text);
  }
  generate::ChatOptions options;
  options.tools = usesTools(ask) ? ask.options.tools.list : std::string();
  bool showsCalls = false;
  std::vector<generate::Message> messages;
  for (const ChatMessage &message : std::get<std::vector<ChatMessage>>(ask.prompt)) {
    messages.push_back(messageOf(message));
    showsCalls = showsCalls || !message.calls.empty() || !message.callId.empty();
  }
  if (showsCalls || !options.tools.empty()) {
    TENON_ASSIGN(generate::ToolFormat format, toolFormat());
    options.givesArgumentsAsText = format.givesArgumentsAsText;
    if (showsCalls && !format.showsCalls) {
      return Status::error(ErrorId::ToolsUnsupported,
                           "the model's chat template shows no calls of tools",
                           "leave out messages with calls and their results");
    }
  }
  TENON_ASSIGN(
      generate::jinja::Text text,
      generate::renderChat(model->facts().chatTemplate, messages, model->tokenizer(), options));
  return generate::encodeChat(text, model->tokenizer());
}

Result<generate::ToolFormat> Generation::toolFormat() {
  if (!foundTools) {
    foundTools = generate::findToolFormat(model->facts().chatTemplate, model->tokenizer());
  }
  return *foundTools;
}

Result<std::shared_ptr<generate::grammar::Automaton>> Generation::formatOf(const TextAsk &ask) {
  if (usesTools(ask)) {
    return toolsFormatOf(ask);
  }
  switch (ask.options.format) {
  case TextFormat::Object:
    return formats.object();
  case TextFormat::Schema:
    return formats.schema(ask.options.schema);
  case TextFormat::Any:
    break;
  }
  return std::shared_ptr<generate::grammar::Automaton>();
}

Result<std::shared_ptr<generate::grammar::Automaton>>
Generation::toolsFormatOf(const TextAsk &ask) {
  const ToolOptions &tools = ask.options.tools;
  generate::ToolRules rules;
  rules.tools = parseJson(tools.list);
  rules.mustCall = tools.choice != ToolChoice::Auto;
  rules.name = tools.name;
  rules.isParallel = tools.isParallel;
  if (ask.options.format == TextFormat::Object) {
    rules.content = Json{{"type", "object"}};
  } else if (ask.options.format == TextFormat::Schema) {
    rules.content = parseJson(ask.options.schema);
  }
  if (!generate::needGrammar(rules)) {
    return std::shared_ptr<generate::grammar::Automaton>();
  }
  TENON_ASSIGN(generate::ToolFormat format, toolFormat());
  std::string name = strCat("tools ", static_cast<int>(tools.choice),
                            tools.isParallel ? " several " : " one ", tools.name, " ", tools.list,
                            " ", static_cast<int>(ask.options.format), ask.options.schema);
  return formats.named(name,
                       [&] { return generate::toolGrammar(rules, format, model->tokenizer()); });
}

Status Generation::prepare(const TextAsk &ask) {
  TENON_ASSIGN(std::vector<int32_t> prompt, tokensOf(ask));
  TENON_TRY(model->facts().checkRoom(prompt.size()));
  generate::GenerateOptions options = optionsOf(ask.options);
  TENON_ASSIGN(options.format, formatOf(ask));
  std::optional<generate::ToolFormat> tools;
  if (usesTools(ask)) {
    TENON_ASSIGN(tools, toolFormat());
    options.shown = tools->markers;
  }
  // The last token of an answer needs no position.
  int64_t room = model->facts().positions - static_cast<int64_t>(prompt.size()) + 1;
  options.maxTokens = ask.options.maxTokens == 0
                          ? room
                          : std::min(static_cast<int64_t>(ask.options.maxTokens), room);
  TextStep begun;
  begun.events.push_back(TextBegun{ask.id, prompt.size()});
  send(encodeStep(begun));
  std::lock_guard guard(lock);
  for (uint64_t i = 0; i < ask.count; ++i) {
    generate::TextRequest request;
    request.id = ask.id + i;
    request.prompt = prompt;
    request.options = options;
    request.options.sampling.seed += i;
    request.salt = ask.salt;
    std::unique_ptr<generate::ToolParser> parser;
    if (tools) {
      std::random_device device;
      parser = std::make_unique<generate::ToolParser>(*tools, toolNames(ask.options.tools),
                                                      ask.options.tools.isParallel,
                                                      (uint64_t(device()) << 32) | device());
    }
    pending.submissions.push_back({std::move(request), ask.options.givesTokens, std::move(parser)});
  }
  added.notify_one();
  return Status::ok();
}

void Generation::work() {
  for (;;) {
    Work work;
    {
      std::unique_lock guard(lock);
      added.wait(guard, [&] {
        return isEnding || !service->isIdle() || !pending.submissions.empty() ||
               !pending.cancelled.empty();
      });
      if (isEnding) {
        return;
      }
      work = std::exchange(pending, {});
    }
    TextStep out;
    take(std::move(work), out);
    if (!service->isIdle()) {
      step(out);
    }
    generate::ServiceStatistics counted = service->statistics();
    out.load = {.running = static_cast<uint64_t>(counted.running),
                .waiting = static_cast<uint64_t>(counted.waiting),
                .pages = static_cast<uint64_t>(counted.pages),
                .pagesUsed = static_cast<uint64_t>(counted.pagesUsed),
                .prefixTokens = counted.scheduler.reusedTokens,
                .preemptions = counted.scheduler.preemptions,
                .recomputedTokens = counted.scheduler.recomputedTokens};
    send(encodeStep(out));
  }
}

void Generation::take(Work work, TextStep &out) {
  for (Submission &submission : work.submissions) {
    uint64_t id = submission.request.id;
    Status status = service->submit(std::move(submission.request));
    if (status.isOk()) {
      open[id] = {submission.givesTokens, std::move(submission.parser)};
    } else {
      out.events.push_back(TextFailed{id, std::move(status)});
    }
  }
  // Behind the submissions: what is cancelled came before.
  for (uint64_t id : work.cancelled) {
    if (open.erase(id) > 0) {
      service->cancel(id);
    }
  }
}

void Generation::step(TextStep &out) {
  Status status = service->step([&](uint64_t id, Result<generate::Piece> piece) {
    std::unordered_map<uint64_t, Open>::iterator found = open.find(id);
    if (found == open.end()) {
      return; // the front does not wait for it any more
    }
    if (!piece.isOk()) {
      out.events.push_back(TextFailed{id, piece.takeStatus()});
      open.erase(found);
      return;
    }
    TextPiece described = describe(id, found->second, *piece);
    bool isLast = described.finish != TextFinish::None;
    out.events.push_back(std::move(described));
    if (isLast) {
      open.erase(found);
      service->cancel(id); // where a call of a tool is all that was asked for
    }
  });
  if (!status.isOk()) {
    endAll(status, out);
  }
}

void Generation::endAll(const Status &why, TextStep &out) {
  for (const auto &[id, answer] : open) {
    service->cancel(id);
    out.events.push_back(TextFailed{id, why});
  }
  open.clear();
}

TextToken Generation::describe(const generate::Draw &draw, bool givesTokens) const {
  return {draw.token, draw.logprob,
          givesTokens ? std::string(model->tokenizer().bytesOf(draw.token)) : std::string()};
}

TextPiece Generation::describe(uint64_t id, const Open &answer,
                               const generate::Piece &piece) const {
  TextPiece described;
  described.id = id;
  described.text = piece.text;
  described.token = describe(piece.draw, answer.givesTokens);
  for (const generate::Draw &draw : piece.top) {
    described.top.push_back(describe(draw, true));
  }
  described.finish = finishOf(piece.finish);
  described.cachedTokens = static_cast<uint64_t>(piece.reused);
  if (answer.parser) {
    generate::ToolText parsed = answer.parser->add(piece.text);
    if (piece.finish) {
      parsed.append(answer.parser->finish());
    } else if (answer.parser->isOver()) {
      described.finish = TextFinish::Stop;
    }
    described.text = std::move(parsed.content);
    for (generate::CallPart &part : parsed.parts) {
      described.calls.push_back(
          {part.index, std::move(part.id), std::move(part.name), std::move(part.arguments)});
    }
  }
  return described;
}

void Generation::send(const std::string &message) {
  std::lock_guard guard(sending);
  for (size_t sent = 0; sent < message.size();) {
    ssize_t bytes =
        ::send(socket.get(), message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes <= 0) {
      return; // the front has gone, or the model is unloaded: the reader ends it
    }
    sent += static_cast<size_t>(bytes);
  }
}

} // namespace tenon::server
