// libtriton_tenon.so as Triton drives it: configurations, answers alone and batched, what is
// refused, and instances at once.

#include "support/json/Json.h"
#include "test/unit/engine/EngineFixture.h"
#include "test/unit/triton/FakeTriton.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <thread>

namespace tenon::test {
namespace {

const char *const kPlain = R"({"name": "m", "max_batch_size": 0, "input": [], "output": []})";
const char *const kBatched = R"({"name": "m", "max_batch_size": "64"})";

/// A model of the repository with version 1, from a plan of `productPlan`'s kind.
std::string makeModel(const std::string &name, engine::Plan plan) {
  std::string folder = temporaryPath(name);
  std::filesystem::create_directories(folder + "/1");
  std::filesystem::rename(
      TestEngine(std::move(plan), productWeights()).writeTemporary(name + ".tenon"),
      folder + "/1/model.tenon");
  return folder;
}

std::vector<float> numbers(int64_t rows, float start) {
  std::vector<float> values(static_cast<size_t>(rows) * 8);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = start + static_cast<float>(i % 13);
  }
  return values;
}

/// The tensor in `pieces`, each behind `skipped` other bytes.
TRITONBACKEND_Request requestFor(const std::vector<float> &values, size_t pieces = 1,
                                 size_t skipped = 0) {
  TRITONBACKEND_Input input;
  input.name = "x";
  input.dims = {static_cast<int64_t>(values.size() / 8), 8};
  input.skipped = skipped;
  size_t bytes = values.size() * sizeof(float), at = 0;
  for (size_t i = 0; i < pieces; ++i) {
    size_t size = i + 1 < pieces ? bytes / pieces + 1 : bytes - at;
    std::vector<std::byte> piece(skipped + size);
    std::memcpy(piece.data() + skipped, reinterpret_cast<const std::byte *>(values.data()) + at,
                size);
    input.pieces.push_back(std::move(piece));
    at += size;
  }
  TRITONBACKEND_Request request;
  request.inputs.push_back(std::move(input));
  request.wanted = {"y"};
  return request;
}

void expectAnswer(const TRITONBACKEND_Request &request, const std::vector<float> &values) {
  ASSERT_EQ("", request.error);
  ASSERT_EQ(1u, request.outputs.size());
  const TRITONBACKEND_Output &output = request.outputs.front();
  EXPECT_EQ("y", output.name);
  EXPECT_EQ(TRITONSERVER_TYPE_FP32, output.type);
  EXPECT_EQ((std::vector<int64_t>{static_cast<int64_t>(values.size() / 8), 3}), output.dims);
  std::vector<float> answer(output.data.size() / sizeof(float));
  std::memcpy(answer.data(), output.data.data(), output.data.size());
  EXPECT_EQ(expectedProduct(values), answer);
}

void expectRefused(const TRITONBACKEND_Request &request, const std::string &start) {
  EXPECT_EQ(0u, request.error.find(start)) << request.error;
}

class TritonBackend : public testing::Test {
protected:
  void SetUp() override { folder = makeModel("product", dynamicPlan()); }
  void TearDown() override {
    EXPECT_EQ(0, liveObjects);
    std::filesystem::remove_all(folder);
  }

  /// Why a model with this configuration does not load.
  std::string problemOf(const std::string &config,
                        TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU) {
    return HostedModel(folder, config, 1, kind).problem;
  }

  std::string folder;
};

TEST_F(TritonBackend, CompletesConfigurations) {
  HostedModel plain(folder, kPlain), batched(folder, kBatched);
  ASSERT_EQ("", plain.problem + batched.problem);
  Json config = parseJson(plain.model.config);
  EXPECT_EQ(parseJson(R"([{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 8]}])"),
            config["input"]);
  EXPECT_EQ(parseJson(R"([{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, 3]}])"),
            config["output"]);
  config = parseJson(batched.model.config);
  EXPECT_EQ(Json({8}), config["input"][0]["dims"]);
  EXPECT_EQ(Json({3}), config["output"][0]["dims"]);

  // What stands there stays, and what Triton does not want completed too.
  std::string given =
      R"({"max_batch_size": 4, "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["8"]}], "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [3]}]})";
  HostedModel same(folder, given);
  EXPECT_EQ("", same.problem);
  EXPECT_EQ(given, same.model.config);
  HostedModel strict(folder, kPlain, 1, TRITONSERVER_INSTANCEGROUPKIND_CPU, false);
  EXPECT_NE(std::string::npos,
            strict.problem.find("TN0805: the engine's input 'x' is not in the configuration"))
      << strict.problem;
}

TEST_F(TritonBackend, AnswersAlone) {
  HostedModel host(folder, kPlain);
  ASSERT_EQ("", host.problem);
  // As one piece; not aligned; in pieces that split elements.
  for (auto [pieces, skipped] :
       {std::pair(1, 0), std::pair(1, 3), std::pair(3, 0), std::pair(4, 1)}) {
    std::vector<float> values = numbers(5, 1);
    std::vector<TRITONBACKEND_Request> requests;
    requests.push_back(
        requestFor(values, static_cast<size_t>(pieces), static_cast<size_t>(skipped)));
    requests.push_back(requestFor(numbers(2, 3)));
    host.execute(requests);
    expectAnswer(requests[0], values);
    expectAnswer(requests[1], numbers(2, 3));
  }
  const std::vector<Report> &runs = host.instances[0]->executions;
  ASSERT_EQ(8u, runs.size()); // without max_batch_size nothing is batched
  for (const Report &run : runs) {
    EXPECT_EQ(1u, run.rows);
    EXPECT_TRUE(run.start <= run.computeStart && run.computeStart <= run.computeEnd &&
                run.computeEnd <= run.end);
  }
  std::vector<TRITONBACKEND_Request> unwanted;
  unwanted.push_back(requestFor(numbers(1, 0)));
  unwanted[0].wanted.clear();
  host.execute(unwanted);
  EXPECT_EQ("", unwanted[0].error);
  EXPECT_TRUE(unwanted[0].outputs.empty());
}

TEST_F(TritonBackend, BatchesRequests) {
  HostedModel host(folder, kBatched);
  ASSERT_EQ("", host.problem);
  std::vector<TRITONBACKEND_Request> requests;
  for (int64_t rows : {1, 3, 2, 7}) {
    requests.push_back(requestFor(numbers(rows, static_cast<float>(rows)), 1, rows == 3 ? 2 : 0));
  }
  requests.push_back(requestFor(numbers(1, 0)));
  requests.back().inputs[0].dims = {1, 9};
  host.execute(requests);
  for (size_t i = 0; i < 4; ++i) {
    int64_t rows = requests[i].inputs[0].dims[0];
    expectAnswer(requests[i], numbers(rows, static_cast<float>(rows)));
  }
  expectRefused(requests[4], "TN0807: input 'x' has 32 bytes, but its dims need 36");
  ASSERT_EQ(1u, host.instances[0]->executions.size());
  EXPECT_EQ(13u, host.instances[0]->executions[0].rows);
  ASSERT_EQ(5u, host.instances[0]->requests.size());
  EXPECT_FALSE(host.instances[0]->requests[0].isSuccess); // what is refused is answered first
}

TEST_F(TritonBackend, RunsAloneWhatDoesNotRunAsABatch) {
  HostedModel host(folder, kBatched);
  ASSERT_EQ("", host.problem);
  std::vector<TRITONBACKEND_Request> requests;
  for (int64_t rows : {40, 65, 41}) { // the engine takes 64
    requests.push_back(requestFor(numbers(rows, 2)));
  }
  host.execute(requests);
  expectAnswer(requests[0], numbers(40, 2));
  expectRefused(requests[1], "TN0603: ");
  expectAnswer(requests[2], numbers(41, 2));
  EXPECT_EQ(2u, host.instances[0]->executions.size());
}

TEST_F(TritonBackend, RefusesRequests) {
  HostedModel host(folder, kPlain);
  ASSERT_EQ("", host.problem);
  std::vector<TRITONBACKEND_Request> requests;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(requestFor(numbers(2, 1)));
  }
  requests[0].inputs[0].type = TRITONSERVER_TYPE_INT32;
  requests[1].inputs[0].dims = {16};
  requests[2].inputs[0].dims = {int64_t(1) << 40, int64_t(1) << 40};
  requests[3].inputs[0].dims = {-2, -8};
  requests[4].inputs[0].name = "other";
  requests[5].inputs[0].memory = TRITONSERVER_MEMORY_GPU;
  requests[6].inputs[0].pieces.clear();
  host.execute(requests);
  expectRefused(requests[0], "TN0807: input 'x' has another type than the engine's");
  expectRefused(requests[1], "TN0602: ");
  expectRefused(requests[2], "TN0807: input 'x' has impossible dims");
  expectRefused(requests[3], "TN0807: input 'x' has impossible dims");
  expectRefused(requests[4], "TN0807: input 'x' is missing");
  expectRefused(requests[5], "TN0818: input 'x' is in GPU memory");
  expectRefused(requests[6], "TN0807: input 'x' has 0 bytes, but its dims need 64");
  expectAnswer(requests[7], numbers(2, 1));

  gpuOutputs = true;
  std::vector<TRITONBACKEND_Request> onGpu;
  onGpu.push_back(requestFor(numbers(1, 0)));
  host.execute(onGpu);
  gpuOutputs = false;
  expectRefused(onGpu[0], "TN0818: output 'y' is in GPU memory");
}

TEST_F(TritonBackend, SaysWhyAModelDoesNotLoad) {
  auto expect = [&](const std::string &start, const std::string &problem) {
    EXPECT_EQ(0u, problem.find(start)) << problem;
  };
  auto withInput = [](const std::string &input) {
    return R"({"max_batch_size": 0, "input": [)" + input + "]}";
  };
  expect("TN0805: input 'z' is not in the engine, which has x",
         problemOf(withInput(R"({"name": "z", "data_type": "TYPE_FP32", "dims": [1]})")));
  expect("TN0805: input 'x' is TYPE_INT8, but the engine has TYPE_FP32",
         problemOf(withInput(R"({"name": "x", "data_type": "TYPE_INT8", "dims": [-1, 8]})")));
  expect("TN0805: input 'x' has dims [-1,9], but the engine has from [1,8] to [64,8]",
         problemOf(withInput(R"({"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 9]})")));
  expect("TN0805: max_batch_size is 65, but dim 0 of 'x'", problemOf(R"({"max_batch_size": 65})"));
  expect(
      "TN0805: the parameter 'threads'",
      problemOf(R"({"max_batch_size": 0, "parameters": {"threads": {"string_value": "many"}}})"));
  expect("TN0805: default_model_filename",
         problemOf(R"({"max_batch_size": 0, "default_model_filename": "../1/model.tenon"})"));
  expect("TN0101: ",
         problemOf(R"({"max_batch_size": 0, "default_model_filename": "other.tenon"})"));
  expect("TN0902: ", problemOf("{"));
  expect("TN0517: the instance is on GPU 0", problemOf(kPlain, TRITONSERVER_INSTANCEGROUPKIND_GPU));
  hostMajor = 2;
  expect("TN0818: Triton's interface for backends is 2.19", problemOf(kPlain));
  hostMajor = 1;

  std::string path = folder + "/1/model.tenon";
  std::vector<std::byte> image = readFile(path);
  image[image.size() / 2] ^= std::byte(1);
  writeFile(path, image);
  EXPECT_EQ(0u, problemOf(kPlain).find("TN05")) << problemOf(kPlain);
  writeFile(path, std::span(image).first(100));
  EXPECT_EQ(0u, problemOf(kPlain).find("TN05")) << problemOf(kPlain);
}

TEST_F(TritonBackend, FixedBatch) {
  std::string fixed = makeModel("fixed", staticPlan());
  HostedModel host(fixed, kPlain);
  ASSERT_EQ("", host.problem);
  EXPECT_EQ(Json({4, 8}), parseJson(host.model.config)["input"][0]["dims"]);
  EXPECT_EQ(0u,
            HostedModel(fixed, R"({"max_batch_size": 4})")
                .problem.find("TN0805: max_batch_size is 4, but dim 0 of 'x' cannot be a batch"));
  std::filesystem::remove_all(fixed);
}

/// Instances run at once, each on a thread of Triton's, while other models come and go.
TEST_F(TritonBackend, ManyThreads) {
  constexpr size_t kInstances = 4;
  constexpr int kRounds = 50;
  HostedModel host(folder,
                   R"({"max_batch_size": 64, "parameters": {"threads": {"string_value": "2"}}})",
                   kInstances);
  ASSERT_EQ("", host.problem);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kInstances; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        std::vector<TRITONBACKEND_Request> requests;
        for (int64_t rows = 1; rows <= 4; ++rows) {
          requests.push_back(
              requestFor(numbers(rows, static_cast<float>(i) + static_cast<float>(round))));
        }
        host.execute(requests, i);
        for (int64_t rows = 1; rows <= 4; ++rows) {
          expectAnswer(requests[static_cast<size_t>(rows) - 1],
                       numbers(rows, static_cast<float>(i) + static_cast<float>(round)));
        }
      }
    });
  }
  threads.emplace_back([&] {
    for (int round = 0; round < 10; ++round) {
      HostedModel other(folder, kPlain, 2);
      EXPECT_EQ("", other.problem);
    }
  });
  for (std::thread &thread : threads) {
    thread.join();
  }
}

} // namespace
} // namespace tenon::test
