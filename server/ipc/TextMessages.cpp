// Texts of MessageText.h behind a length of 64 bits.

#include "server/ipc/TextMessages.h"

#include "server/ipc/Control.h"
#include "server/ipc/MessageText.h"

#include <cstring>
#include <tuple>

namespace tenon::server {
namespace {

Status damagedText() {
  return Status::error(ErrorId::InternalError, "a message about texts is damaged");
}

/// Numbers of TextOptions and TextLoad, in the order of their messages.
template <typename Options> auto realsOf(Options &options) {
  return std::tie(options.temperature, options.topP, options.minP, options.repetition,
                  options.frequency, options.presence);
}
template <typename Options> auto countsOf(Options &options) {
  return std::tie(options.topK, options.seed, options.maxTokens, options.topTokens);
}
template <typename Load> auto numbersOf(Load &load) {
  return std::tie(load.running, load.waiting, load.pages, load.pagesUsed, load.prefixTokens,
                  load.preemptions, load.recomputedTokens, load.draftTokens, load.acceptedTokens);
}

uint64_t bitsOf(int32_t token) { return static_cast<uint32_t>(token); }

void takeToken(TextReader &in, int32_t &token) {
  uint64_t bits = 0;
  in.number(bits);
  if (bits > UINT32_MAX) {
    in.fail();
  }
  token = static_cast<int32_t>(static_cast<uint32_t>(bits));
}

void takeFlag(TextReader &in, bool &flag) {
  uint64_t value = 0;
  in.number(value);
  if (value > 1) {
    in.fail();
  }
  flag = value == 1;
}

void putOptions(TextWriter &out, const TextOptions &options) {
  std::apply([&](auto... values) { (out.real(values), ...); }, realsOf(options));
  std::apply([&](auto... values) { (out.number(values), ...); }, countsOf(options));
  out.number(options.givesTokens).number(options.bias.size());
  for (const auto &[token, bias] : options.bias) {
    out.number(bitsOf(token)).real(bias);
  }
  out.number(options.stops.size());
  for (const std::string &stop : options.stops) {
    out.string(stop);
  }
  const ToolOptions &tools = options.tools;
  out.number(static_cast<uint64_t>(options.format)).string(options.schema).string(tools.list);
  out.number(static_cast<uint64_t>(tools.choice)).string(tools.name).number(tools.isParallel);
}

void takeOptions(TextReader &in, TextOptions &options) {
  std::apply([&](auto &...values) { (in.real(values), ...); }, realsOf(options));
  std::apply([&](auto &...values) { (in.number(values), ...); }, countsOf(options));
  takeFlag(in, options.givesTokens);
  uint64_t biases = in.count();
  for (uint64_t i = 0; i < biases && in.isGood(); ++i) {
    auto &[token, bias] = options.bias.emplace_back();
    takeToken(in, token);
    in.real(bias);
  }
  uint64_t stops = in.count();
  for (uint64_t i = 0; i < stops && in.isGood(); ++i) {
    in.string(options.stops.emplace_back());
  }
  uint64_t format = 0, choice = 0;
  in.number(format).string(options.schema).string(options.tools.list);
  in.number(choice).string(options.tools.name);
  takeFlag(in, options.tools.isParallel);
  if (format > static_cast<uint64_t>(TextFormat::Schema) ||
      choice > static_cast<uint64_t>(ToolChoice::Named)) {
    in.fail();
  }
  options.format = static_cast<TextFormat>(format);
  options.tools.choice = static_cast<ToolChoice>(choice);
}

void putPrompt(TextWriter &out, const std::vector<ChatMessage> &messages) {
  out.number(messages.size());
  for (const ChatMessage &message : messages) {
    out.string(message.role).string(message.content);
    out.string(message.calls).string(message.callId);
  }
}
void putPrompt(TextWriter &out, const std::string &text) { out.string(text); }
void putPrompt(TextWriter &out, const std::vector<int32_t> &tokens) {
  out.number(tokens.size());
  for (int32_t token : tokens) {
    out.number(bitsOf(token));
  }
}

void takePrompt(TextReader &in, TextAsk &ask) {
  uint64_t kind = 0;
  in.number(kind);
  if (kind == 0) {
    std::vector<ChatMessage> messages;
    uint64_t count = in.count();
    for (uint64_t i = 0; i < count && in.isGood(); ++i) {
      ChatMessage &message = messages.emplace_back();
      in.string(message.role).string(message.content);
      in.string(message.calls).string(message.callId);
    }
    ask.prompt = std::move(messages);
  } else if (kind == 1) {
    in.string(ask.prompt.emplace<std::string>());
  } else if (kind == 2) {
    std::vector<int32_t> &tokens = ask.prompt.emplace<std::vector<int32_t>>();
    uint64_t count = in.count();
    tokens.resize(in.isGood() ? count : 0);
    for (int32_t &token : tokens) {
      takeToken(in, token);
    }
  } else {
    in.fail();
  }
}

void putToken(TextWriter &out, const TextToken &token) {
  out.number(bitsOf(token.token)).real(token.logprob).string(token.bytes);
}

void takeToken(TextReader &in, TextToken &token) {
  takeToken(in, token.token);
  in.real(token.logprob).string(token.bytes);
}

void putEvent(TextWriter &out, const TextBegun &begun) {
  out.number(begun.id).number(begun.promptTokens);
}
void putEvent(TextWriter &out, const TextPiece &piece) {
  out.number(piece.id).string(piece.text).number(static_cast<uint64_t>(piece.finish));
  out.number(piece.cachedTokens).number(piece.waited);
  putToken(out, piece.token);
  out.number(piece.calls.size());
  for (const ToolDelta &call : piece.calls) {
    out.number(call.index).string(call.id).string(call.name).string(call.arguments);
  }
  out.number(piece.top.size());
  for (const TextToken &token : piece.top) {
    putToken(out, token);
  }
}
void putEvent(TextWriter &out, const TextFailed &failed) {
  out.number(failed.id).number(static_cast<uint64_t>(failed.why.id()));
  out.string(encodeError(failed.why.message(), failed.why.hint()));
}
void putEvent(TextWriter &out, const TextPreempted &preempted) {
  out.number(preempted.id).number(preempted.winner);
  out.number(preempted.tokensLost).number(preempted.pagesShort);
}

void takePiece(TextReader &in, TextPiece &piece) {
  uint64_t finish = 0;
  in.number(piece.id).string(piece.text).number(finish).number(piece.cachedTokens);
  in.number(piece.waited);
  if (finish > static_cast<uint64_t>(TextFinish::Length)) {
    in.fail();
  }
  piece.finish = static_cast<TextFinish>(finish);
  takeToken(in, piece.token);
  uint64_t calls = in.count();
  for (uint64_t i = 0; i < calls && in.isGood(); ++i) {
    ToolDelta &call = piece.calls.emplace_back();
    in.number(call.index).string(call.id).string(call.name).string(call.arguments);
  }
  uint64_t count = in.count();
  for (uint64_t i = 0; i < count && in.isGood(); ++i) {
    takeToken(in, piece.top.emplace_back());
  }
}

void takeEvent(TextReader &in, TextEvent &event) {
  uint64_t kind = 0;
  in.number(kind);
  if (kind == 0) {
    TextBegun &begun = event.emplace<TextBegun>();
    in.number(begun.id).number(begun.promptTokens);
  } else if (kind == 1) {
    takePiece(in, event.emplace<TextPiece>());
  } else if (kind == 2) {
    TextFailed &failed = event.emplace<TextFailed>();
    uint64_t number = 0;
    std::string text;
    in.number(failed.id).number(number).string(text);
    failed.why = decodeError(number, text);
    if (failed.why.isOk()) {
      in.fail();
    }
  } else if (kind == 3) {
    TextPreempted &preempted = event.emplace<TextPreempted>();
    in.number(preempted.id).number(preempted.winner);
    in.number(preempted.tokensLost).number(preempted.pagesShort);
  } else {
    in.fail();
  }
}

/// Calls `write`, and puts the length of what it appends in front.
template <typename Write> std::string framed(const Write &write) {
  std::string text(sizeof(uint64_t), '\0');
  TextWriter out(text);
  write(out);
  uint64_t bytes = text.size() - sizeof(bytes);
  std::memcpy(text.data(), &bytes, sizeof(bytes));
  return text;
}

} // namespace

std::string encodeCommand(const TextCommand &command) {
  return framed([&](TextWriter &out) {
    out.number(command.index());
    if (const TextCancel *cancel = std::get_if<TextCancel>(&command)) {
      out.number(cancel->id);
      return;
    }
    const TextAsk &ask = std::get<TextAsk>(command);
    out.number(ask.id).number(ask.count).number(ask.prompt.index());
    std::visit([&](const auto &prompt) { putPrompt(out, prompt); }, ask.prompt);
    putOptions(out, ask.options);
    out.string(ask.salt).number(static_cast<uint64_t>(ask.priority));
    out.number(ask.timeoutMicroseconds);
  });
}

Result<TextCommand> decodeCommand(std::string_view text) {
  TextReader in(text);
  uint64_t kind = 0;
  in.number(kind);
  TextCommand command;
  if (kind == 1) {
    in.number(command.emplace<TextCancel>().id);
  } else {
    TextAsk &ask = command.emplace<TextAsk>();
    in.number(ask.id).number(ask.count);
    takePrompt(in, ask);
    takeOptions(in, ask.options);
    uint64_t priority = 0;
    in.string(ask.salt).number(priority).number(ask.timeoutMicroseconds);
    ask.priority = static_cast<int64_t>(priority);
  }
  return kind <= 1 && in.isWhole() ? Result<TextCommand>(std::move(command))
                                   : Result<TextCommand>(damagedText());
}

std::string encodeStep(const TextStep &step) {
  return framed([&](TextWriter &out) {
    out.number(step.load.has_value());
    if (step.load) {
      std::apply([&](auto... values) { (out.number(values), ...); }, numbersOf(*step.load));
    }
    out.number(step.events.size());
    for (const TextEvent &event : step.events) {
      out.number(event.index());
      std::visit([&](const auto &each) { putEvent(out, each); }, event);
    }
  });
}

Result<TextStep> decodeStep(std::string_view text) {
  TextReader in(text);
  TextStep step;
  bool hasLoad = false;
  takeFlag(in, hasLoad);
  if (hasLoad) {
    std::apply([&](auto &...values) { (in.number(values), ...); }, numbersOf(step.load.emplace()));
  }
  uint64_t count = in.count();
  for (uint64_t i = 0; i < count && in.isGood(); ++i) {
    takeEvent(in, step.events.emplace_back());
  }
  return in.isWhole() ? Result<TextStep>(std::move(step)) : Result<TextStep>(damagedText());
}

Result<std::optional<std::string_view>> TextFrames::next() {
  uint64_t bytes = 0;
  std::string_view rest = std::string_view(received).substr(taken);
  bool hasLength = rest.size() >= sizeof(bytes);
  if (hasLength) {
    std::memcpy(&bytes, rest.data(), sizeof(bytes));
    rest.remove_prefix(sizeof(bytes));
  }
  if (bytes > maxBytes) {
    return damagedText();
  }
  if (!hasLength || rest.size() < bytes) {
    received.erase(0, std::exchange(taken, 0));
    return std::optional<std::string_view>();
  }
  taken += sizeof(bytes) + bytes;
  return std::optional<std::string_view>(rest.substr(0, bytes));
}

} // namespace tenon::server
