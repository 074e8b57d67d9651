// Two tables of fields, by endpoint: what reads each, or that it is inert. What stands in neither
// is refused, unless its value asks for nothing. One file: each field is a function, and what one
// says against another is seen beside them.

#include "server/protocol/OpenAiRequest.h"

#include "server/protocol/Json.h"
#include "server/protocol/OpenAiMessages.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon::server {
namespace {

constexpr uint64_t kMaxStops = 4, kMaxTop = 20, kMaxTokens = uint64_t(1) << 31;
constexpr double kMaxPriority = 1000, kMaxTimeout = 86400; // seconds
/// What OpenAI's completions have where nothing is said.
constexpr uint64_t kDefaultTokens = 16;

/// The fields of a body that have been read, besides the request.
struct Reading {
  OpenAiRequest request;
  TextOptions options;
  std::vector<decltype(TextAsk::prompt)> prompts;
  bool hasCompletionTokens = false, hasSeed = false;
  int64_t priority = 0;
  double timeout = 0;
};

Status wrong(std::string_view field, std::string_view what) { return wrongField(field, what); }
Status unsupported(std::string_view field) { return unsupportedField(field); }

Status readNumber(std::string_view field, const Json &value, double least, double most,
                  double &into) {
  bool isNumber = value.is_number();
  double number = isNumber ? value.get<double>() : 0;
  if (!isNumber || !(number >= least && number <= most)) {
    return wrong(field, fmt::format("must be a number from {} to {}", least, most));
  }
  into = number;
  return Status::ok();
}

Status readCount(std::string_view field, const Json &value, uint64_t least, uint64_t most,
                 uint64_t &into) {
  bool isCount = value.is_number_unsigned();
  uint64_t count = isCount ? value.get<uint64_t>() : 0;
  if (!isCount || count < least || count > most) {
    return wrong(field, fmt::format("must be an integer from {} to {}", least, most));
  }
  into = count;
  return Status::ok();
}

Status readFlag(std::string_view field, const Json &value, bool &into) {
  if (!value.is_boolean()) {
    return wrong(field, "must be true or false");
  }
  into = value.get<bool>();
  return Status::ok();
}

Status readText(std::string_view field, const Json &value, std::string &into) {
  if (!value.is_string()) {
    return wrong(field, "must be a string");
  }
  into = value.get<std::string>();
  return Status::ok();
}

// What reads a field.

Status readModel(Reading &to, const Json &value) {
  return readText("model", value, to.request.model);
}
Status readTemperature(Reading &to, const Json &value) {
  return readNumber("temperature", value, 0, 2, to.options.temperature);
}
Status readTopP(Reading &to, const Json &value) {
  return readNumber("top_p", value, 0, 1, to.options.topP);
}
Status readMinP(Reading &to, const Json &value) {
  return readNumber("min_p", value, 0, 1, to.options.minP);
}
Status readTopK(Reading &to, const Json &value) {
  return readCount("top_k", value, 0, kMaxTokens, to.options.topK);
}
Status readRepetition(Reading &to, const Json &value) {
  return readNumber("repetition_penalty", value, 0.01, 100, to.options.repetition);
}
Status readFrequency(Reading &to, const Json &value) {
  return readNumber("frequency_penalty", value, -2, 2, to.options.frequency);
}
Status readPresence(Reading &to, const Json &value) {
  return readNumber("presence_penalty", value, -2, 2, to.options.presence);
}
Status readAnswers(Reading &to, const Json &value) {
  return readCount("n", value, 1, kMaxChoices, to.request.answers);
}
Status readStream(Reading &to, const Json &value) {
  return readFlag("stream", value, to.request.streams);
}
Status readMaxTokens(Reading &to, const Json &value) {
  uint64_t count = 0;
  TENON_TRY(readCount("max_tokens", value, 1, kMaxTokens, count));
  if (!to.hasCompletionTokens) { // which is the newer name
    to.options.maxTokens = count;
  }
  return Status::ok();
}
Status readMaxCompletionTokens(Reading &to, const Json &value) {
  to.hasCompletionTokens = true;
  return readCount("max_completion_tokens", value, 1, kMaxTokens, to.options.maxTokens);
}

Status readSeed(Reading &to, const Json &value) {
  if (!value.is_number_integer()) {
    return wrong("seed", "must be an integer of 64 bits");
  }
  to.options.seed = value.is_number_unsigned() ? value.get<uint64_t>()
                                               : static_cast<uint64_t>(value.get<int64_t>());
  to.hasSeed = true;
  return Status::ok();
}

Status readPriority(Reading &to, const Json &value) {
  double number = 0;
  TENON_TRY(readNumber("priority", value, -kMaxPriority, kMaxPriority, number));
  if (!value.is_number_integer()) {
    return wrong("priority", "must be an integer");
  }
  to.priority = value.get<int64_t>();
  return Status::ok();
}
Status readTimeout(Reading &to, const Json &value) {
  return readNumber("timeout", value, 0.001, kMaxTimeout, to.timeout);
}

Status readStreamOptions(Reading &to, const Json &value) {
  if (!value.is_object()) {
    return wrong("stream_options", "must be an object");
  }
  for (const auto &[name, option] : value.items()) {
    if (name == "include_usage" && !option.is_null()) {
      TENON_TRY(readFlag("stream_options.include_usage", option, to.request.includesUsage));
    } else if (name != "include_usage" && name != "include_obfuscation") {
      return unsupported("stream_options." + name);
    }
  }
  return Status::ok();
}

Status readStops(Reading &to, const Json &value) {
  Json list = value.is_string() ? Json::array({value}) : value;
  if (!list.is_array() || list.size() > kMaxStops) {
    return wrong("stop", fmt::format("must be a string, or a list of at most {}", kMaxStops));
  }
  for (const Json &stop : list) {
    TENON_TRY(readText("stop", stop, to.options.stops.emplace_back()));
  }
  return Status::ok();
}

Status readBias(Reading &to, const Json &value) {
  if (!value.is_object()) {
    return wrong("logit_bias", "must be an object of tokens and their bias");
  }
  for (const auto &[name, number] : value.items()) {
    int32_t token = 0;
    std::from_chars_result read = std::from_chars(name.data(), name.data() + name.size(), token);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size()) {
      return wrong("logit_bias", "has a key that is not the number of a token");
    }
    double bias = 0;
    TENON_TRY(readNumber("logit_bias", number, -100, 100, bias));
    to.options.bias.emplace_back(token, bias);
  }
  return Status::ok();
}

Status readChatLogprobs(Reading &to, const Json &value) {
  return readFlag("logprobs", value, to.request.givesLogprobs);
}
Status readTopLogprobs(Reading &to, const Json &value) {
  return readCount("top_logprobs", value, 0, kMaxTop, to.request.topLogprobs);
}
/// Of completions: how many tokens are listed.
Status readLogprobs(Reading &to, const Json &value) {
  to.request.givesLogprobs = true;
  return readCount("logprobs", value, 0, kMaxTop, to.request.topLogprobs);
}

Status readMessages(Reading &to, const Json &value) {
  if (!value.is_array() || value.empty()) {
    return wrong("messages", "must be a list of at least one message");
  }
  std::vector<ChatMessage> messages(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    TENON_TRY(readChatMessage(fmt::format("messages[{}]", i), value[i], messages[i]));
  }
  to.prompts.emplace_back(std::move(messages));
  return Status::ok();
}

Status readPromptTokens(Reading &to, const Json &value) {
  std::vector<int32_t> tokens;
  for (const Json &token : value) {
    uint64_t number = 0;
    TENON_TRY(readCount("prompt", token, 0, INT32_MAX, number));
    tokens.push_back(static_cast<int32_t>(number));
  }
  to.prompts.emplace_back(std::move(tokens));
  return Status::ok();
}

Status readPrompt(Reading &to, const Json &value) {
  if (value.is_string()) {
    to.prompts.emplace_back(value.get<std::string>());
    return Status::ok();
  }
  if (!value.is_array() || value.empty()) {
    return wrong("prompt", "must be a string, tokens, or a list of either");
  }
  if (value[0].is_number()) {
    return readPromptTokens(to, value);
  }
  for (const Json &prompt : value) {
    if (prompt.is_array() && !prompt.empty()) {
      TENON_TRY(readPromptTokens(to, prompt));
    } else if (prompt.is_string()) {
      to.prompts.emplace_back(prompt.get<std::string>());
    } else {
      return wrong("prompt", "must be a string, tokens, or a list of either");
    }
  }
  return Status::ok();
}

Status readFormat(Reading &to, const Json &value) { return readResponseFormat(value, to.options); }
Status readToolList(Reading &to, const Json &value) { return readTools(value, to.options.tools); }
Status readChoice(Reading &to, const Json &value) {
  return readToolChoice(value, to.options.tools);
}
Status readParallel(Reading &to, const Json &value) {
  return readFlag("parallel_tool_calls", value, to.options.tools.isParallel);
}

struct Field {
  std::string_view name;
  Status (*read)(Reading &, const Json &); ///< null: it changes no answer
};

constexpr Field kShared[] = {
    {"model", readModel},
    {"temperature", readTemperature},
    {"top_p", readTopP},
    {"top_k", readTopK},
    {"min_p", readMinP},
    {"repetition_penalty", readRepetition},
    {"frequency_penalty", readFrequency},
    {"presence_penalty", readPresence},
    {"n", readAnswers},
    {"max_tokens", readMaxTokens},
    {"seed", readSeed},
    {"stop", readStops},
    {"stream", readStream},
    {"stream_options", readStreamOptions},
    {"logit_bias", readBias},
    {"response_format", readFormat},
    {"priority", readPriority},
    {"timeout", readTimeout},
    {"user", nullptr},
};
constexpr Field kChat[] = {
    {"messages", readMessages},
    {"max_completion_tokens", readMaxCompletionTokens},
    {"logprobs", readChatLogprobs},
    {"top_logprobs", readTopLogprobs},
    {"metadata", nullptr},
    {"tools", readToolList},
    {"tool_choice", readChoice},
    {"parallel_tool_calls", readParallel},
    {"prediction", nullptr}, // a hint
    {"prompt_cache_key", nullptr},
    {"prompt_cache_retention", nullptr},
    {"safety_identifier", nullptr},
    {"service_tier", nullptr},
    {"store", nullptr},
};
constexpr Field kCompletion[] = {
    {"prompt", readPrompt},
    {"logprobs", readLogprobs},
};

/// Whether the value of a field asks for what is done without it.
bool asksForNothing(std::string_view name, const Json &value) {
  if (value.is_null() || value == false || (value.is_structured() && value.empty())) {
    return true;
  }
  return (name == "best_of" && value == 1) ||
         (name == "modalities" && value == Json::array({"text"})) ||
         (name == "suffix" && value == "");
}

const Field *find(std::span<const Field> fields, std::string_view name) {
  auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

Status readFields(bool isChat, const Json &body, Reading &to, std::string &field) {
  for (const auto &[name, value] : body.items()) {
    const Field *known = find(kShared, name);
    known = known ? known : find(isChat ? std::span<const Field>(kChat) : kCompletion, name);
    field = name.substr(0, 64);
    if (!known && !asksForNothing(name, value)) {
      return unsupported(name);
    }
    if (known && known->read && !value.is_null()) {
      TENON_TRY(known->read(to, value));
    }
  }
  return Status::ok();
}

/// What one field says against another.
Status checkFields(const Reading &reading, std::string &field) {
  const OpenAiRequest &request = reading.request;
  field = "model";
  if (request.model.empty()) {
    return wrong(field, "is missing");
  }
  field = request.isChat ? "messages" : "prompt";
  if (reading.prompts.empty()) {
    return wrong(field, "is missing");
  }
  TENON_TRY(checkTools(reading.options.tools, field));
  field = "top_p";
  if (reading.options.topP <= 0) {
    return wrong(field, "must be larger than 0");
  }
  field = "top_logprobs";
  if (request.topLogprobs > 0 && !request.givesLogprobs) {
    return wrong(field, "needs 'logprobs' to be true");
  }
  field = "n";
  if (reading.prompts.size() * request.answers > kMaxChoices) {
    return wrong(field, fmt::format("times the number of prompts is {}, more than {}",
                                    reading.prompts.size() * request.answers, kMaxChoices));
  }
  field = "stream_options";
  if (request.includesUsage && !request.streams) {
    return wrong(field, "needs 'stream' to be true");
  }
  field.clear();
  return Status::ok();
}

} // namespace

Result<OpenAiRequest> parseOpenAi(bool isChat, std::string_view body, const OpenAiRights &rights,
                                  std::string &field) {
  Json json;
  TENON_TRY(parseRequestJson(body, json));
  if (!json.is_object()) {
    return Status::error(ErrorId::BadRequest, "the JSON of the request is not an object");
  }
  Reading reading;
  reading.request.isChat = isChat;
  reading.options.maxTokens = isChat ? 0 : kDefaultTokens;
  TENON_TRY(readFields(isChat, json, reading, field));
  TENON_TRY(checkFields(reading, field));
  if (reading.priority < 0 && !rights.mayBeUrgent) {
    field = "priority";
    return wrong(field, "below 0 goes before other requests, which this one may not: the server's "
                        "--urgent says who may");
  }
  OpenAiRequest &request = reading.request;
  reading.options.seed = reading.hasSeed ? reading.options.seed : rights.chance;
  reading.options.givesTokens = request.givesLogprobs;
  reading.options.topTokens = request.topLogprobs;
  for (auto &prompt : reading.prompts) {
    request.asks.push_back({0,
                            request.answers,
                            std::move(prompt),
                            reading.options,
                            {},
                            reading.priority,
                            static_cast<uint64_t>(reading.timeout * 1e6)});
  }
  return std::move(request);
}

} // namespace tenon::server
