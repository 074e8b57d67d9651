// gRPC's framing and messages: what comes in any pieces is one message, numbers become the elements
// of their type, damage is refused.

#include "server/grpc/Framing.h"
#include "server/grpc/Infer.h"
#include "server/grpc/Messages.h"

#include <gtest/gtest.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <cstring>

namespace tenon::server {
namespace {

using protozero::pbf_writer;

TEST(MessageReader, AnySplitGivesTheSameMessages) {
  std::string sent =
      messagePrefix(5) + "first" + messagePrefix(0) + messagePrefix(300) + std::string(300, 'x');
  sent[sent.size() - 305] = 1; // the last is compressed
  for (size_t first = 0; first <= sent.size(); ++first) {
    MessageReader reader(300);
    std::vector<std::pair<std::string, bool>> messages;
    auto onMessage = [&](ChargedString message, bool isCompressed) {
      messages.emplace_back(std::move(message.text), isCompressed);
      return Status::ok();
    };
    ASSERT_TRUE(reader.feed(std::string_view(sent).substr(0, first), onMessage).isOk());
    EXPECT_EQ(reader.end().isOk(), first == 0 || first == 10 || first == 15 || first == sent.size())
        << first;
    ASSERT_TRUE(reader.feed(std::string_view(sent).substr(first), onMessage).isOk());
    ASSERT_TRUE(reader.end().isOk());
    ASSERT_EQ(messages.size(), 3u);
    EXPECT_EQ(messages[0].first, "first");
    EXPECT_EQ(messages[1].first, "");
    EXPECT_EQ(messages[2].first, std::string(300, 'x'));
    EXPECT_TRUE(messages[2].second && !messages[1].second);
  }
}

TEST(MessageReader, RefusesByThePrefixAlone) {
  auto nothing = [](ChargedString, bool) { return Status::ok(); };
  EXPECT_EQ(MessageReader(300).feed(messagePrefix(301), nothing).id(), ErrorId::RequestTooLarge);
  EXPECT_EQ(MessageReader(300).feed(std::string("\2\0\0\0\0", 5), nothing).id(),
            ErrorId::BadGrpcMessage);
  // What is announced takes no memory of its own.
  MessageReader reader(uint64_t(1) << 32);
  ASSERT_TRUE(reader.feed(messagePrefix(0xffffffff), nothing).isOk());
  EXPECT_EQ(reader.heldBytes(), 0u);
}

TEST(MessageReader, ChargesAMessageUntilItsReceiverLetsGo) {
  MemoryBudget budget(100'000);
  std::optional<ChargedString> held;
  auto keep = [&](ChargedString message, bool) {
    held = std::move(message);
    return Status::ok();
  };
  MessageReader reader(1 << 20, &budget);
  std::string sent = messagePrefix(60'000) + std::string(60'000, 'x');
  ASSERT_TRUE(reader.feed(sent.substr(0, 40'000), keep).isOk());
  EXPECT_GT(budget.held(), 30'000u);
  ASSERT_TRUE(reader.feed(sent.substr(40'000), keep).isOk());
  ASSERT_TRUE(held);
  EXPECT_EQ(reader.feed(sent, keep).id(), ErrorId::QueueFull);
  held.reset();
  MessageReader next(1 << 20, &budget);
  reader = std::move(next);
  EXPECT_EQ(budget.held(), 0u);
  EXPECT_TRUE(reader.feed(sent, keep).isOk());
}

TEST(Framing, Timeouts) {
  EXPECT_EQ(parseTimeout("100m")->count(), 100'000'000);
  EXPECT_EQ(parseTimeout("99999999n")->count(), 99'999'999);
  EXPECT_EQ(parseTimeout("2H")->count(), int64_t(7200) * 1'000'000'000);
  EXPECT_EQ(parseTimeout("99999999H")->count(),
            parseTimeout("99999998H")->count()); // a year, not less than nothing
  for (std::string_view bad : {"", "m", "100", "100x", "-1S", "1.5S", "123456789S", " 1S", "1S "}) {
    EXPECT_EQ(parseTimeout(bad).status().id(), ErrorId::BadGrpcMessage) << bad;
  }
}

TEST(Framing, TextOfErrorsIsPlainAscii) {
  HeaderFields fields = statusFields(Status::error(ErrorId::QueueFull, "100 % of \xc3\xa9\n"));
  EXPECT_EQ(fields[0].second, "8");
  EXPECT_EQ(fields[1].second, "TN0812: 100 %25 of %C3%A9\\u000A");
  EXPECT_EQ(statusFields(Status::ok()).size(), 1u);
}

/// A request with one input of which `contents` has the field `number`.
std::string requestOf(std::string_view datatype, int64_t elements, uint32_t number,
                      const std::vector<int64_t> &values) {
  std::string message;
  pbf_writer request(message);
  pbf_writer input(request, 5);
  input.add_string(1, "x");
  input.add_string(2, datatype.data(), datatype.size());
  input.add_packed_int64(3, &elements, &elements + 1);
  pbf_writer(input, 5).add_packed_int64(number, values.begin(), values.end());
  return message;
}

TEST(GrpcInfer, NumbersBecomeElements) {
  struct Case {
    std::string_view datatype;
    uint32_t field;
    std::vector<int64_t> values;
    bool fits;
  };
  const Case cases[] = {{"INT8", 2, {-128, 127}, true},
                        {"INT8", 2, {-129}, false},
                        {"INT8", 2, {128}, false},
                        {"UINT8", 4, {0, 255}, true},
                        {"UINT8", 4, {256}, false},
                        {"UINT8", 4, {-1}, false},
                        {"INT16", 2, {-32768, 1}, true},
                        {"UINT16", 4, {65536}, false},
                        {"INT32", 2, {INT32_MIN, INT32_MAX}, true},
                        {"INT32", 2, {int64_t(1) << 31}, false},
                        {"UINT32", 4, {UINT32_MAX}, true},
                        {"INT64", 3, {INT64_MIN, -1}, true},
                        {"UINT64", 5, {-1}, true},
                        {"BOOL", 1, {0, 1}, true},
                        {"INT32", 3, {1}, false},
                        {"FP16", 6, {1}, false}};
  for (const Case &each : cases) {
    std::string message =
        requestOf(each.datatype, static_cast<int64_t>(each.values.size()), each.field, each.values);
    Result<GrpcInferRequest> parsed = parseGrpcInfer(message);
    ASSERT_EQ(parsed.isOk(), each.fits) << each.datatype << " " << each.values[0];
    if (!each.fits) {
      EXPECT_EQ(parsed.status().id(), ErrorId::BadRequestTensor);
      continue;
    }
    Bytes bytes = parsed->request.inputs[0].binary;
    size_t width = bytes.size() / each.values.size();
    for (size_t i = 0; i < each.values.size(); ++i) {
      EXPECT_EQ(std::memcmp(bytes.data() + i * width, &each.values[i], width), 0) << each.datatype;
    }
  }
  // Bounded before they are read.
  MemoryBudget budget(1'000'000);
  std::string large = requestOf("INT64", 200'000, 3, std::vector<int64_t>(200'000));
  EXPECT_EQ(parseGrpcInfer(large, &budget).status().id(), ErrorId::RequestTooLarge);
  EXPECT_EQ(budget.held(), 0u);
}

TEST(GrpcInfer, RawTensorsAreViewsOfTheMessage) {
  std::string message = requestOf("FP32", 2, 6, {});
  pbf_writer(message).add_string(7, "12345678");
  Result<GrpcInferRequest> parsed = parseGrpcInfer(message);
  ASSERT_TRUE(parsed.isOk()) << parsed.status().toString();
  const char *at = reinterpret_cast<const char *>(parsed->request.inputs[0].binary.data());
  EXPECT_TRUE(at > message.data() && at + 8 <= message.data() + message.size());
  for (size_t i = 0; i < message.size(); ++i) {
    static_cast<void>(
        parseGrpcInfer(std::string_view(message).substr(0, i)).isOk()); // the sanitizers look
  }
}

TEST(GrpcInfer, RepliesAreWholeMessages) {
  std::vector<std::byte> large(70'000, std::byte(7)), none;
  for (bool isStream : {false, true}) {
    std::string whole;
    for (const Piece &piece : writeGrpcInfer(
             "m", "1", "id", {{"a", "FP32", {100, 175}, large}, {"b", "INT8", {0}, none}}, isStream,
             nullptr)) {
      whole += piece.text;
      whole.append(reinterpret_cast<const char *>(piece.bytes.data()), piece.bytes.size());
    }
    ASSERT_EQ(whole.substr(0, 5), messagePrefix(whole.size() - 5));
    protozero::pbf_reader response(whole.data() + 5, whole.size() - 5);
    if (isStream) {
      ASSERT_TRUE(response.next(2));
      response = response.get_message();
    }
    std::vector<size_t> outputs, raw;
    while (response.next()) {
      if (response.tag() == 5 || response.tag() == 6) {
        (response.tag() == 5 ? outputs : raw).push_back(response.get_view().size());
      } else {
        response.skip();
      }
    }
    EXPECT_EQ(outputs.size(), 2u);
    EXPECT_EQ(raw, (std::vector<size_t>{70'000, 0}));
  }
}

TEST(GrpcMessages, WhatRequestsSay) {
  struct Case {
    std::string_view path, message, model, version;
    bool hasSettings = false, onlyReady = false;
  };
  using namespace std::string_view_literals;
  for (const Case &each :
       {Case{"ModelMetadata",
             "\x0a\x01m\x12\x01"
             "2",
             "m", "2"},
        Case{"RepositoryModelLoad", "\x0a\x01r\x12\x01m", "m", ""},
        Case{"RepositoryModelLoad", "\x12\x01m\x1a\x00"sv, "m", "", true},
        Case{"RepositoryIndex", "\x10\x01", "", "", false, true},
        Case{"RepositoryIndex", "\x10\x00"sv, "", ""}, Case{"ServerLive", "\x0a\x01m", "", ""},
        Case{"ModelStatistics", "\x08\x01", "", ""}}) {
    Result<RouteMatch> match =
        matchGrpcRoute("/inference.GRPCInferenceService/" + std::string(each.path));
    ASSERT_TRUE(match.isOk());
    ASSERT_TRUE(readGrpcRequest(each.message, *match).isOk()) << each.path;
    EXPECT_EQ(match->model, each.model);
    EXPECT_EQ(match->version, each.version);
    EXPECT_EQ(match->hasSettings, each.hasSettings);
    EXPECT_EQ(match->onlyReady, each.onlyReady);
  }
}

TEST(GrpcMessages, AnswersAreWrittenByTheTablesOfTheirFields) {
  using namespace std::string_view_literals;
  Answer config = [](AnswerWriter &out) {
    int64_t dims[] = {3, -1};
    out.begin();
    out.text("name", "m");
    out.beginList("input");
    out.begin();
    out.text("data_type", "TYPE_FP32");
    out.numbers("dims", dims);
    out.end();
    out.end();
    out.begin("dynamic_batching");
    out.begin("priority_queue_policy");
    out.begin("7");
    out.text("timeout_action", "DELAY");
    out.flag("allow_timeout_override", true);
    out.end();
    out.end();
    out.end();
    out.begin("parameters");
    out.begin("k");
    out.text("string_value", "v");
    out.end();
    out.end();
    out.end();
  };
  // A ModelConfigResponse: name 1, input 5 {data_type 2, dims 4}, dynamic_batching 11
  // {priority_queue_policy 7 {key, value {1, 3}}}, parameters 14 {key, value {1}}.
  EXPECT_EQ(writeGrpcAnswer(Operation::ModelConfig, config),
            "\x0a\x2a"
            "\x0a\x01m"
            "\x2a\x0f\x10\x0b\x22\x0b\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
            "\x5a\x0a\x3a\x08\x08\x07\x12\x04\x08\x01\x18\x01"
            "\x72\x08\x0a\x01k\x12\x03\x0a\x01v"sv);
  EXPECT_EQ(textOf(config),
            R"({"name":"m","input":[{"data_type":"TYPE_FP32","dims":[3,-1]}],)"
            R"("dynamic_batching":{"priority_queue_policy":{"7":{"timeout_action":"DELAY",)"
            R"("allow_timeout_override":true}}},"parameters":{"k":{"string_value":"v"}}})");
  Answer log = [](AnswerWriter &out) {
    out.begin();
    out.flag("on", true);
    out.number("level", 2);
    out.end();
  };
  // Settings are a map (1) whose values have a field for each type.
  EXPECT_EQ(writeGrpcAnswer(Operation::Logging, log), "\x0a\x08\x0a\x02on\x12\x02\x08\x01"
                                                      "\x0a\x0b\x0a\x05level\x12\x02\x10\x02"sv);
  EXPECT_EQ(writeGrpcAnswer(Operation::ServerLive, flagAnswer("live", true)), "\x08\x01"sv);
  EXPECT_EQ(writeGrpcAnswer(Operation::RepositoryLoad, "{}"), ""sv);
}

} // namespace
} // namespace tenon::server
