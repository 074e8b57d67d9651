// JSON is appended as text: an event costs no tree.

#include "server/protocol/OpenAiReply.h"

#include "server/protocol/ErrorMap.h"
#include "server/protocol/JsonText.h"

#include <fmt/format.h>

#include <utility>

namespace tenon::server {
namespace {

std::string jsonText(std::string_view text) {
  std::string out;
  appendJsonString(out, text);
  return out;
}

void appendBytes(std::string &out, std::string_view bytes) {
  out += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",",
                   static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
  }
  out += ']';
}

/// A model's own probability of 0 has no logarithm that JSON could hold.
constexpr double kLeastLogprob = -9999;

std::string logprobText(double logprob) {
  return fmt::format("{}", logprob >= kLeastLogprob ? logprob : kLeastLogprob);
}

void appendToken(std::string &out, const TextToken &token) {
  fmt::format_to(std::back_inserter(out),
                 "\"token\":{},\"logprob\":{},\"bytes\":", jsonText(token.bytes),
                 logprobText(token.logprob));
  appendBytes(out, token.bytes);
}

/// A call, or with `isPart` what has come of one in a stream.
std::string callText(const ToolDelta &call, bool isPart) {
  std::string out = isPart ? fmt::format("{{\"index\":{},", call.index) : "{";
  if (!call.id.empty()) {
    out += fmt::format("\"id\":{},\"type\":\"function\",", jsonText(call.id));
  }
  out += "\"function\":{";
  out += call.name.empty() ? std::string() : fmt::format("\"name\":{},", jsonText(call.name));
  return out + fmt::format("\"arguments\":{}}}}}", jsonText(call.arguments));
}

uint64_t charactersOf(std::string_view text) {
  uint64_t count = 0;
  for (char c : text) {
    count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }
  return count;
}

std::string_view typeOf(unsigned http) {
  switch (http) {
  case 401:
    return "authentication_error";
  case 403:
    return "permission_error";
  case 404:
    return "not_found_error";
  case 429:
    return "rate_limit_error";
  default:
    return http < 500 ? "invalid_request_error" : "server_error";
  }
}

/// The codes that programs look for; otherwise the number.
std::string errorCode(ErrorId id) {
  switch (id) {
  case ErrorId::PromptTooLong:
    return "context_length_exceeded";
  case ErrorId::NoSuchModel:
    return "model_not_found";
  case ErrorId::NotAuthenticated:
    return "invalid_api_key";
  default:
    return tenon::nameOf(id);
  }
}

} // namespace

std::string openAiError(const Status &status, std::string_view field) {
  return fmt::format(
      "{{\"error\":{{\"message\":{},\"type\":\"{}\",\"param\":{},\"code\":\"{}\"}}}}",
      jsonText(status.toString()), typeOf(wireStatusOf(status.id()).http),
      field.empty() ? "null" : jsonText(field), errorCode(status.id()));
}

std::string openAiErrorEvent(const Status &status) {
  return fmt::format("data: {}\n\n", openAiError(status));
}

std::string openAiModel(const std::string &name, int64_t created) {
  return fmt::format("{{\"id\":{},\"object\":\"model\",\"created\":{},\"owned_by\":\"tenon\"}}",
                     jsonText(name), created);
}

std::string openAiModels(const std::vector<std::string> &names, int64_t created) {
  std::string list;
  for (const std::string &name : names) {
    list += (list.empty() ? "" : ",") + openAiModel(name, created);
  }
  return fmt::format("{{\"object\":\"list\",\"data\":[{}]}}", list);
}

OpenAiReply::OpenAiReply(const OpenAiRequest &request, std::string id, int64_t created)
    : isChat(request.isChat), streams(request.streams), includesUsage(request.includesUsage),
      givesLogprobs(request.givesLogprobs), model(request.model), id(std::move(id)),
      created(created), choices(request.asks.size() * request.answers) {}

std::string_view OpenAiReply::finishOf(const Choice &choice) const {
  return choice.finish == TextFinish::None     ? "null"
         : choice.finish == TextFinish::Length ? "\"length\""
         : choice.hasCalls                     ? "\"tool_calls\""
                                               : "\"stop\"";
}

void OpenAiReply::add(uint64_t index, const TextPiece &piece) {
  Choice &choice = choices[index];
  ++usage.answerTokens;
  usage.cachedTokens += piece.cachedTokens;
  choice.finish = piece.finish;
  if (streams && isChat && !std::exchange(choice.hasBegun, true)) {
    appendEvent(index, "{\"role\":\"assistant\",\"content\":\"\"}", false);
  }
  if (givesLogprobs && piece.finish != TextFinish::End) { // whose token is no part of the text
    choice.logprobs.push_back({piece.token, piece.top, choice.characters});
    choice.characters += charactersOf(piece.token.bytes);
  }
  choice.hasCalls = choice.hasCalls || !piece.calls.empty();
  if (!streams) {
    choice.text += piece.text;
    addCalls(index, piece.calls);
    return;
  }
  if (!piece.text.empty() || !choice.logprobs.empty()) {
    appendEvent(index,
                isChat ? fmt::format("{{\"content\":{}}}", jsonText(piece.text))
                       : jsonText(piece.text),
                false);
  }
  choice.logprobs.clear();
  addCalls(index, piece.calls);
  if (piece.finish != TextFinish::None) {
    appendEvent(index, isChat ? "{}" : "\"\"", true);
  }
}

void OpenAiReply::addCalls(uint64_t index, const std::vector<ToolDelta> &calls) {
  std::vector<ToolDelta> &known = choices[index].calls;
  for (const ToolDelta &call : calls) {
    if (streams) {
      appendEvent(index, fmt::format("{{\"tool_calls\":[{}]}}", callText(call, true)), false);
    } else if (call.index < known.size()) {
      known[call.index].arguments += call.arguments;
    } else {
      known.push_back(call);
    }
  }
}

std::string OpenAiReply::messageOf(const Choice &choice) const {
  std::string calls;
  for (const ToolDelta &call : choice.calls) {
    calls += (calls.empty() ? "" : ",") + callText(call, false);
  }
  bool hasText = !choice.text.empty() || calls.empty();
  return fmt::format("{{\"role\":\"assistant\",\"content\":{},\"refusal\":null{}}}",
                     hasText ? jsonText(choice.text) : "null",
                     calls.empty() ? "" : fmt::format(",\"tool_calls\":[{}]", calls));
}

void OpenAiReply::appendHead(std::string &out, std::string_view object) const {
  fmt::format_to(std::back_inserter(out),
                 "\"id\":\"{}\",\"object\":\"{}\",\"created\":{},\"model\":{}", id, object, created,
                 jsonText(model));
}

void OpenAiReply::appendLogprobs(std::string &out, const Choice &choice) const {
  if (!givesLogprobs || (streams && choice.logprobs.empty())) {
    out += "null";
    return;
  }
  const std::vector<Logprob> &list = choice.logprobs;
  auto each = [&](const auto &append) {
    for (size_t i = 0; i < list.size(); ++i) {
      out += i == 0 ? "" : ",";
      append(list[i]);
    }
  };
  if (isChat) {
    out += "{\"content\":[";
    each([&](const Logprob &logprob) {
      out += '{';
      appendToken(out, logprob.token);
      out += ",\"top_logprobs\":[";
      for (size_t i = 0; i < logprob.top.size(); ++i) {
        out += i == 0 ? "{" : ",{";
        appendToken(out, logprob.top[i]);
        out += '}';
      }
      out += "]}";
    });
    out += "],\"refusal\":null}";
    return;
  }
  out += "{\"tokens\":[";
  each([&](const Logprob &logprob) { appendJsonString(out, logprob.token.bytes); });
  out += "],\"token_logprobs\":[";
  each([&](const Logprob &logprob) { out += logprobText(logprob.token.logprob); });
  out += "],\"top_logprobs\":[";
  each([&](const Logprob &logprob) {
    out += '{';
    for (size_t i = 0; i < logprob.top.size(); ++i) {
      out += fmt::format("{}{}:{}", i == 0 ? "" : ",", jsonText(logprob.top[i].bytes),
                         logprobText(logprob.top[i].logprob));
    }
    out += '}';
  });
  out += "],\"text_offset\":[";
  each([&](const Logprob &logprob) { out += std::to_string(logprob.offset); });
  out += "]}";
}

void OpenAiReply::appendUsage(std::string &out) const {
  fmt::format_to(std::back_inserter(out),
                 "{{\"prompt_tokens\":{},\"completion_tokens\":{},\"total_tokens\":{},"
                 "\"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
                 usage.promptTokens, usage.answerTokens, usage.promptTokens + usage.answerTokens,
                 usage.cachedTokens);
}

void OpenAiReply::appendEvent(uint64_t index, std::string_view delta, bool isLast) {
  events += "data: {";
  appendHead(events, isChat ? "chat.completion.chunk" : "text_completion");
  fmt::format_to(std::back_inserter(events),
                 ",\"choices\":[{{\"index\":{},\"{}\":{},\"logprobs\":", index,
                 isChat ? "delta" : "text", delta);
  appendLogprobs(events, choices[index]);
  fmt::format_to(std::back_inserter(events), ",\"finish_reason\":{}}}]{}}}\n\n",
                 isLast ? finishOf(choices[index]) : "null",
                 includesUsage ? ",\"usage\":null" : "");
}

void OpenAiReply::finish() {
  if (streams && includesUsage) {
    events += "data: {";
    appendHead(events, isChat ? "chat.completion.chunk" : "text_completion");
    events += ",\"choices\":[],\"usage\":";
    appendUsage(events);
    events += "}\n\n";
  }
  events += streams ? "data: [DONE]\n\n" : "";
}

std::string OpenAiReply::whole() const {
  std::string out = "{";
  appendHead(out, isChat ? "chat.completion" : "text_completion");
  out += ",\"choices\":[";
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice &choice = choices[i];
    fmt::format_to(std::back_inserter(out), "{}{{\"index\":{},", i == 0 ? "" : ",", i);
    out += isChat ? fmt::format("\"message\":{}", messageOf(choice))
                  : fmt::format("\"text\":{}", jsonText(choice.text));
    out += ",\"logprobs\":";
    appendLogprobs(out, choice);
    fmt::format_to(std::back_inserter(out), ",\"finish_reason\":{}}}", finishOf(choice));
  }
  out += "],\"usage\":";
  appendUsage(out);
  return out + "}";
}

} // namespace tenon::server
