// Texts of language models by themselves: the messages between front and worker, requests of
// OpenAI's interface and their replies.

#include "server/ipc/TextMessages.h"
#include "server/protocol/OpenAiReply.h"
#include "server/protocol/OpenAiRequest.h"
#include "support/json/Json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>

namespace tenon::server {
namespace {

constexpr size_t kLengthBytes = 8;

TextAsk someAsk() {
  TextAsk ask;
  ask.id = 7;
  ask.count = 3;
  ask.prompt = std::vector<ChatMessage>{{"user", "hello"}, {"assistant", ""}};
  ask.options.temperature = 0.5;
  ask.options.bias = {{-1, 2.5}, {300, -7}};
  ask.options.stops = {"a", "bc"};
  ask.options.seed = UINT64_MAX;
  ask.options.givesTokens = true;
  ask.salt = "of a client";
  ask.priority = -3;
  ask.timeoutMicroseconds = 5'000'000;
  return ask;
}

TextStep someStep() {
  TextPiece piece;
  piece.id = 8;
  piece.text = "text";
  piece.token = {5, -0.5, "\xff"};
  piece.top = {{5, -0.5, "\xff"}, {6, -1.5, "b"}};
  piece.finish = TextFinish::Stop;
  piece.cachedTokens = 11;
  TextStep step;
  step.events = {TextBegun{7, 42}, piece,
                 TextFailed{9, Status::error(ErrorId::PromptTooLong, "what", "how")}};
  step.load.emplace().pagesUsed = 99;
  step.events.emplace_back(TextPreempted{3, 4, 96, 2});
  return step;
}

template <typename Decode> void refuseDamage(const std::string &message, const Decode &decode) {
  std::string text = message.substr(kLengthBytes);
  std::mt19937 random(7);
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(decode(std::string_view(text).substr(0, length)).isOk()) << length;
    std::string changed = text;
    changed[length] = static_cast<char>(random());
    (void)decode(changed).isOk();
  }
  EXPECT_FALSE(decode(text + "x").isOk());
}

TEST(TextMessages, ComeBackAndEveryTruncationIsRefused) {
  std::string message = encodeCommand(someAsk());
  Result<TextCommand> command = decodeCommand(std::string_view(message).substr(kLengthBytes));
  ASSERT_TRUE(command.isOk());
  const TextAsk &ask = std::get<TextAsk>(*command);
  EXPECT_EQ(ask.id, 7u);
  EXPECT_EQ(ask.count, 3u);
  EXPECT_EQ(std::get<std::vector<ChatMessage>>(ask.prompt)[0].content, "hello");
  EXPECT_EQ(ask.options.bias, someAsk().options.bias);
  EXPECT_EQ(ask.options.stops, someAsk().options.stops);
  EXPECT_EQ(ask.options.seed, UINT64_MAX);
  EXPECT_EQ(ask.options.temperature, 0.5);
  EXPECT_TRUE(ask.options.givesTokens);
  EXPECT_EQ(ask.salt, someAsk().salt);
  EXPECT_EQ(ask.priority, -3);
  EXPECT_EQ(ask.timeoutMicroseconds, 5'000'000u);
  refuseDamage(message, decodeCommand);

  message = encodeStep(someStep());
  Result<TextStep> step = decodeStep(std::string_view(message).substr(kLengthBytes));
  ASSERT_TRUE(step.isOk());
  EXPECT_EQ(std::get<TextBegun>(step->events[0]).promptTokens, 42u);
  const TextPiece &piece = std::get<TextPiece>(step->events[1]);
  EXPECT_EQ(piece.text, "text");
  EXPECT_EQ(piece.top[1].bytes, "b");
  EXPECT_EQ(piece.finish, TextFinish::Stop);
  EXPECT_EQ(piece.cachedTokens, 11u);
  EXPECT_EQ(std::get<TextFailed>(step->events[2]).why.hint(), "how");
  EXPECT_EQ(std::get<TextPreempted>(step->events[3]).tokensLost, 96u);
  EXPECT_EQ(step->load->pagesUsed, 99u);
  refuseDamage(message, decodeStep);
}

TEST(TextMessages, FramesAreCutHoweverTheyCome) {
  std::string all;
  for (uint64_t id = 0; id < 20; ++id) {
    all += encodeCommand(TextCancel{id});
  }
  for (size_t step : {1, 3, 7, 24, 1000}) {
    TextFrames frames(1 << 10);
    uint64_t expected = 0;
    for (size_t at = 0; at < all.size(); at += step) {
      frames.append(std::string_view(all).substr(at, step));
      for (;;) {
        Result<std::optional<std::string_view>> next = frames.next();
        ASSERT_TRUE(next.isOk());
        if (!next->has_value()) {
          break;
        }
        Result<TextCommand> command = decodeCommand(**next);
        ASSERT_TRUE(command.isOk());
        EXPECT_EQ(std::get<TextCancel>(*command).id, expected++);
      }
    }
    EXPECT_EQ(expected, 20u);
  }
  TextFrames few(10);
  few.append(all);
  EXPECT_FALSE(few.next().isOk());
}

OpenAiRequest parsed(bool isChat, std::string_view body) {
  std::string field;
  Result<OpenAiRequest> request = parseOpenAi(isChat, body, {77, true}, field);
  EXPECT_TRUE(request.isOk()) << request.status().toString();
  return request.isOk() ? std::move(*request) : OpenAiRequest();
}

TEST(OpenAi, ReadsPromptsOfEachForm) {
  OpenAiRequest request =
      parsed(false, R"({"model":"m","prompt":["a",[1,2]],"n":2,"logprobs":0,"max_tokens":null})");
  ASSERT_EQ(request.asks.size(), 2u);
  EXPECT_EQ(std::get<std::string>(request.asks[0].prompt), "a");
  EXPECT_EQ(std::get<std::vector<int32_t>>(request.asks[1].prompt), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(request.asks[1].options.maxTokens, 16u);
  EXPECT_EQ(request.asks[1].options.seed, 77u);
  EXPECT_TRUE(request.givesLogprobs);
  request = parsed(true, R"({"model":"m","max_completion_tokens":5,"max_tokens":9,"seed":-1,)"
                         R"("messages":[{"role":"developer","content":[{"type":"text","text":"a"},)"
                         R"({"type":"text","text":"b"}]}]})");
  const std::vector<ChatMessage> &messages =
      std::get<std::vector<ChatMessage>>(request.asks[0].prompt);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "ab");
  EXPECT_EQ(request.asks[0].options.maxTokens, 5u);
  EXPECT_EQ(request.asks[0].options.seed, UINT64_MAX);
}

TEST(OpenAi, NamesTheFieldThatIsWrong) {
  constexpr std::pair<std::string_view, std::string_view> kWrong[] = {
      {R"({"model":"m","messages":[{"role":"tool","content":"x"}]})", "messages"},
      {R"({"model":"m","messages":[{"role":"user","content":"x","name":"n"}]})", "messages"},
      {R"({"messages":[{"role":"user","content":"x"}]})", "model"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"top_p":0})", "top_p"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"logit_bias":{"a":1}})",
       "logit_bias"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"zzz":1})", "zzz"},
      {R"({"model":"m","messages":[{"role":"user","content":"x"}],"priority":-1})", "priority"},
  };
  for (const auto &[body, expected] : kWrong) {
    std::string field;
    Result<OpenAiRequest> request = parseOpenAi(true, body, {}, field);
    EXPECT_EQ(request.status().id(), ErrorId::BadRequest) << body;
    EXPECT_EQ(field, expected) << body;
  }
}

TEST(OpenAi, WhoMayBeUrgentGoesFirst) {
  constexpr std::string_view kUrgent = R"({"model":"m","prompt":"a","priority":-3})",
                             kPatient = R"({"model":"m","prompt":"a","priority":3})";
  std::string field;
  EXPECT_EQ(parsed(false, kUrgent).asks[0].priority, -3);
  Result<OpenAiRequest> request = parseOpenAi(false, kPatient, {}, field);
  ASSERT_TRUE(request.isOk());
  EXPECT_EQ(request->asks[0].priority, 3);
}

TEST(OpenAi, BytesThatAreNoTextStayBytes) {
  OpenAiRequest request = parsed(
      true,
      R"({"model":"m","messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":1})");
  OpenAiReply reply(request, "chatcmpl-1", 5);
  reply.begin(3);
  TextPiece piece;
  piece.text = "";
  piece.token = {200, -1, "\xc3"};
  piece.top = {{200, -1, "\xc3"}};
  reply.add(0, piece);
  piece.text = "\xc3\xa9";
  piece.token = {201, -std::numeric_limits<double>::infinity(), "\xa9"};
  piece.finish = TextFinish::Length;
  reply.add(0, piece);
  Json whole = parseJson(reply.whole());
  ASSERT_FALSE(whole.is_discarded());
  const Json &choice = whole["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "\u00e9");
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json &content = choice["logprobs"]["content"];
  EXPECT_EQ(content[0]["bytes"], Json::array({0xc3}));
  EXPECT_EQ(content[0]["token"], "\ufffd");
  EXPECT_EQ(content[1]["logprob"], -9999);
  EXPECT_EQ(whole["usage"]["total_tokens"], 5);
}

} // namespace
} // namespace tenon::server
