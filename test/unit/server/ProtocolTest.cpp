// Requests, replies, paths, encodings and the table of errors, by themselves.

#include "server/protocol/Compression.h"
#include "server/protocol/ErrorMap.h"
#include "server/protocol/InferRequest.h"
#include "server/protocol/JsonText.h"
#include "server/protocol/Routes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <ctime>
#include <random>

namespace tenon::server {
namespace {

constexpr std::string_view kRequest =
    R"({"id":"1","parameters":{"binary_data_output":true,"priority":1,"timeout":5},"inputs":[{"name":"a","datatype":"INT8","shape":[2,2],"data":[[1,-128],[127,0]]},)"
    R"({"name":"b","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}],"outputs":[{"name":"y","parameters":{"binary_data":false}}]})";

TEST(InferRequest, Reads) {
  std::string body = std::string(kRequest) + "12345678";
  Result<InferRequest> request = parseInferRequest(body, kRequest.size());
  ASSERT_TRUE(request.isOk()) << request.status().toString();
  EXPECT_EQ(request->timeoutMicroseconds, 5u);
  EXPECT_EQ(request->inputs[1].binary.size(), 8u);
  EXPECT_FALSE(request->outputs[0].isBinary);
  int8_t values[4];
  ASSERT_TRUE(storeNumbers(request->lists[*request->inputs[0].list], DType::I8,
                           std::as_writable_bytes(std::span(values)), "a")
                  .isOk());
  EXPECT_EQ(values[1], -128);
  EXPECT_EQ(values[2], 127);
  EXPECT_FALSE(storeNumbers(request->lists[*request->inputs[0].list], DType::U8,
                            std::as_writable_bytes(std::span(values)), "a")
                   .isOk());
}

TEST(InferRequest, NoTruncationAndNoByteEndsTheParser) {
  std::string body = std::string(kRequest) + "12345678";
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (size_t length = 0; length < body.size(); ++length) {
    EXPECT_FALSE(
        parseInferRequest(std::string_view(body).substr(0, length), kRequest.size()).isOk())
        << length;
    std::string changed = body;
    changed[length] = static_cast<char>(random());
    (void)parseInferRequest(changed, kRequest.size()).isOk();
    (void)parseInferRequest(changed, length).isOk();
  }
}

TEST(InferRequest, ManyNamesTakeNoLongerThanTheyAreLong) {
  std::string body = R"({"inputs":[)", prefix(1000, 'n');
  constexpr int kInputs = 19'500;
  for (int i = 0; i < kInputs; ++i) {
    body += fmt::format("{}{{\"name\":\"{}{}\",\"datatype\":\"FP32\",\"shape\":[0],\"data\":[]}}",
                        i ? "," : "", prefix, i);
  }
  body += "]}";
  std::clock_t start = std::clock();
  Result<InferRequest> request = parseInferRequest(body, std::nullopt);
  ASSERT_TRUE(request.isOk()) << request.status().toString();
  EXPECT_EQ(request->inputs.size(), static_cast<size_t>(kInputs));
  EXPECT_LT(
      std::clock() - start,
      2 * CLOCKS_PER_SEC); // seconds of the processor, so that others on the machine do not count
}

TEST(InferReply, BoundsNumbersAsText) {
  std::vector<std::byte> bytes(40);
  std::vector<ReplyOutput> outputs = {{"y", DType::F32, {10}, bytes, false},
                                      {"z", DType::F32, {10}, bytes, false}};
  EXPECT_TRUE(writeInferReply("m", "1", "", outputs, 20).isOk());
  EXPECT_EQ(writeInferReply("m", "1", "", outputs, 19).status().id(), ErrorId::RequestTooLarge);
  outputs[1].isBinary = true;
  EXPECT_TRUE(writeInferReply("m", "1", "", outputs, 10).isOk());
}

TEST(JsonText, WritesWhatReadsBack) {
  std::string text;
  appendJsonString(text, "a\"\\\n\x01\xc3\xa9\xff\xed\xa0\x80");
  EXPECT_EQ(parseJson(text).get<std::string>(),
            "a\"\\\n\x01\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  float floats[] = {0.1f, -1e-40f, 3.4e38f, 16777217.f};
  text.clear();
  ASSERT_TRUE(appendJsonElements(text, DType::F32, std::as_bytes(std::span(floats)), "y").isOk());
  EXPECT_EQ(parseJson(text).get<std::vector<float>>(),
            std::vector<float>(std::begin(floats), std::end(floats)));
  float odd[] = {NAN, INFINITY, -INFINITY, -0.f, 0.f};
  text.clear();
  ASSERT_TRUE(appendJsonElements(text, DType::F32, std::as_bytes(std::span(odd)), "y").isOk());
  EXPECT_EQ(text, "[NaN,Infinity,-Infinity,-0.0,0]");
}

TEST(Compression, BothWaysAndBounded) {
  std::string data(1 << 20, 'x');
  for (Encoding encoding : {Encoding::Gzip, Encoding::Deflate}) {
    Compressor compressor(encoding);
    std::string packed;
    compressor.append(std::string_view(data).substr(0, 1000), false, packed);
    compressor.append(std::string_view(data).substr(1000), true, packed);
    EXPECT_EQ(decompress(encoding, packed, data.size())->text, data);
    EXPECT_EQ(decompress(encoding, packed, data.size() - 1).status().id(),
              ErrorId::RequestTooLarge);
    EXPECT_EQ(decompress(encoding, packed + "x", data.size()).status().id(), ErrorId::BadRequest);
    // Members of gzip follow one another.
    Result<ChargedString> twice = decompress(encoding, packed + packed, 2 * data.size());
    EXPECT_EQ(twice.isOk() ? twice->text : "", encoding == Encoding::Gzip ? data + data : "");
    for (size_t length = 0; length < packed.size(); length += 7) {
      EXPECT_EQ(decompress(encoding, packed.substr(0, length), data.size()).status().id(),
                ErrorId::BadRequest)
          << length;
    }
  }
  EXPECT_EQ(chooseEncoding("br, gzip;q=0, deflate"), Encoding::Deflate);
  EXPECT_EQ(chooseEncoding("gzip;q=0.0"), Encoding::Identity);
}

TEST(Routes, EachMatchesItselfAlone) {
  for (const Route &route : allRoutes()) {
    std::string target = "/" + std::string(route.path);
    for (std::string_view place : {"{model}", "{version}", "{region}"}) {
      if (size_t at = target.find(place); at != std::string::npos) {
        target.replace(at, place.size(), "m%2e1");
      }
    }
    if (route.transport == Transport::Grpc) {
      EXPECT_EQ(matchGrpcRoute(target)->route, &route);
      EXPECT_EQ(matchRoute("POST", target).status().id(), ErrorId::NoSuchRoute);
      continue;
    }
    EXPECT_EQ(matchGrpcRoute(target).status().id(), ErrorId::NoSuchRoute);
    Result<RouteMatch> match = matchRoute(nameOf(route.method), target + "?query=1");
    ASSERT_TRUE(match.isOk()) << target;
    EXPECT_EQ(match->route, &route) << target;
    EXPECT_EQ(match->model, route.path.find("{model}") == std::string::npos ? "" : "m.1");
    if (route.method == Method::Get) {
      EXPECT_EQ(matchRoute("HEAD", target)->route, &route) << target;
    }
    EXPECT_EQ(matchRoute("PUT", target).status().id(), ErrorId::NoSuchRoute);
  }
  for (std::string_view bad :
       {"", "v2", "/v2/models/..", "/v2/models/%2E%2e/ready", "/v2/models/a%2F..%2Fb",
        "/v2/models/a/../b", "/v2/models/%", "/v2/models/%4", "/v2/models/%00"}) {
    EXPECT_EQ(matchRoute("GET", bad).status().id(), ErrorId::BadRequest) << bad;
  }
}

TEST(Routes, NamesInNamespaces) {
  struct {
    std::string_view method, target;
    Operation operation;
    std::string_view model, version;
  } cases[] = {
      {"GET", "/v2/models/team/cnn", Operation::ModelMetadata, "team/cnn", ""},
      {"GET", "/v2/models/team%2Fcnn/ready", Operation::ModelReady, "team/cnn", ""},
      {"POST", "/v2/models/team/a/b/infer", Operation::ModelInfer, "team/a/b", ""},
      {"POST", "/v2/models/team/cnn/versions/2/infer", Operation::ModelInfer, "team/cnn", "2"},
      {"GET", "/v2/models/team/stats", Operation::ModelStatistics, "team", ""},
      {"GET", "/v2/models/team%2Fstats", Operation::ModelMetadata, "team/stats", ""},
      {"POST", "/v2/repository/models/team/cnn/unload", Operation::RepositoryUnload, "team/cnn",
       ""},
      {"POST", "/v2/tenon/models/team%2fcnn/promote", Operation::RegistryPromote, "team/cnn", ""},
  };
  for (const auto &each : cases) {
    Result<RouteMatch> match = matchRoute(each.method, each.target);
    ASSERT_TRUE(match.isOk()) << each.target;
    EXPECT_EQ(match->operation, each.operation) << each.target;
    EXPECT_EQ(match->model, each.model);
    EXPECT_EQ(match->version, each.version);
  }
  EXPECT_EQ(matchRoute("GET", "/v2/models/team/infer").status().id(), ErrorId::NoSuchRoute);
}

TEST(ErrorMap, EveryErrorHasAStatus) {
#define TENON_ERROR(number, name, code, title)                                                     \
  EXPECT_GE(wireStatusOf(ErrorId::name).http, 400u) << #name;                                      \
  EXPECT_FALSE(reasonOf(wireStatusOf(ErrorId::name).http).empty()) << #name;                       \
  EXPECT_NE(wireStatusOf(ErrorId::name).grpc, 0u) << #name;
#include "support/Errors.def"
#undef TENON_ERROR
  EXPECT_EQ(wireStatusOf(ErrorId::QueueFull).http, 429u);
  EXPECT_EQ(wireStatusOf(ErrorId::QueueFull).grpc, 8u);
}

} // namespace
} // namespace tenon::server
