// Where models are put and what leaves for them, with GPUs that are only names and a worker that
// loads nothing: it tells the size of the file as the model's memory and the GPUs that it sees as
// the name of its output. Some tests have the real worker run engines, on the stand-in of NVIDIA's
// driver too, and with ranks of which one is lost. One file: all need this repository and worker.

#include "server/api/ModelServer.h"
#include "engine/Levels.h"
#include "server/api/Describe.h"
#include "server/worker/Worker.h"
#include "test/unit/engine/EngineFixture.h"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::server {
namespace {

constexpr const char *kWorkerFlag = "--as-worker";
constexpr const char *kRealWorkerFlag = "--as-real-worker";

/// The last byte of a model's file that is to be refused on a GPU, and of one of which half is not
/// for this device.
constexpr char kNoVariant = 'n', kHalf = 'h';

ControlMessage answerLoad(const ControlMessage &message) {
  struct stat info = {};
  char last = 0;
  fstat(message.descriptors[0].get(), &info);
  [[maybe_unused]] ssize_t bytes = pread(message.descriptors[0].get(), &last, 1, info.st_size - 1);
  if (message.kind == ControlMessage::Kind::LoadOnGpu && last == kNoVariant) {
    return {ControlMessage::Kind::LoadFailed,
            message.key,
            static_cast<uint64_t>(ErrorId::EngineNoVariant),
            encodeError("no variant", ""),
            {}};
  }
  ModelInfo answer;
  answer.ports.outputs = {
      {std::string("sees ") + std::getenv("CUDA_VISIBLE_DEVICES"), DType::F32, {1}, {1}, {}}};
  answer.sharedBytes = answer.bytes = static_cast<uint64_t>(info.st_size) / (last == kHalf ? 2 : 1);
  return {ControlMessage::Kind::Loaded, message.key, 0, encodeModelInfo(answer), {}};
}

int serveAsWorker() {
  for (;;) {
    ControlMessage message;
    bool isEnd = false, isNone = false;
    if (!receiveControl(kWorkerSocket, true, message, &isEnd, &isNone).isOk() || isEnd) {
      return 0;
    }
    bool isLoad = message.kind == ControlMessage::Kind::Load ||
                  message.kind == ControlMessage::Kind::LoadOnGpu;
    ControlMessage answer =
        isLoad ? answerLoad(message)
               : ControlMessage{ControlMessage::Kind::Unloaded, message.key, 0, "", {}};
    if (!sendControl(kWorkerSocket, answer).isOk()) {
      return 1;
    }
  }
}

/// An engine with a variant for GPUs alone: y = x + w over kSize floats.
constexpr int64_t kSize = 1024;

std::string writeOnGpu(const std::string &name, engine::Plan plan, std::vector<std::byte> code,
                       std::vector<test::WeightData> weights, std::vector<std::string> kernels) {
  for (engine::Buffer &buffer : plan.buffers) {
    buffer.device = engine::kGpu;
  }
  for (engine::Instruction &instruction : plan.instructions) {
    instruction.device = engine::kGpu;
  }
  test::TestEngine engine(engine::Plan(), std::move(weights));
  engine.code = std::move(code);
  engine.code.push_back(std::byte(0));
  engine.content.variants = {{{"sm_80", std::move(plan), std::move(kernels)}, engine.code}};
  return engine.writeTemporary(name);
}

std::string writeGpuEngine(const std::string &name) {
  test::PlanBuilder builder;
  engine::ExprId size = builder.size(kSize);
  uint32_t x = builder.input("x", DType::F32, {size}), y = builder.output("y", DType::F32, {size}),
           w = builder.weight(0, kSize * 4);
  builder.launch(test::Add, {x, w}, {y}, builder.size(kSize / 128), {size}).threads = 128;
  builder.finish();
  return writeOnGpu(
      name, std::move(builder.plan),
      test::readFile(std::string(TENON_SOURCE_DIR) + "/test/unit/runtime/kernels.ptx"),
      {test::floats("w", std::vector<float>(kSize, 3))}, {"test_scale", "test_add"});
}

class FixedRepository final : public ModelRepository {
public:
  Result<std::vector<FoundModel>> scan() const override { return models; }
  Result<FoundModel> find(const std::string &name) const override {
    for (const FoundModel &model : models) {
      if (model.name == name) {
        return model;
      }
    }
    return noModel(name);
  }

  std::vector<FoundModel> models;
};

class ModelServerTest : public testing::Test {
protected:
  /// A model with a file of `bytes`.
  ModelConfig &add(const std::string &name, uint64_t bytes, Placement placement = {},
                   char last = ' ') {
    std::string path = test::temporaryPath(name);
    std::ofstream(path) << std::string(bytes - 1, ' ') << last;
    return addFile(name, path, placement);
  }

  ModelConfig &addFile(const std::string &name, const std::string &path, Placement placement = {}) {
    FoundModel &model = repository->models.emplace_back();
    model.name = name;
    model.config.placement = placement;
    model.versions = {{"1", path}};
    return model.config;
  }

  void start(uint64_t budget, const char *workerFlag = kWorkerFlag) {
    ModelServerOptions options;
    options.workerCommand = {"/proc/self/exe", workerFlag};
    options.memoryBudget = options.gpuMemoryBudget = budget;
    options.gpus = {"7", "GPU-9"};
    models = std::make_unique<ModelServer>(context.get_executor(), std::move(repository), options);
    ASSERT_TRUE(models->catalog.start().isOk());
    await([&] {
      return std::all_of(
          models->catalog.all().begin(), models->catalog.all().end(),
          [&](const auto &each) { return version(each.first).state() != VersionState::Loading; });
    });
  }

  template <typename Condition> void await(const Condition &condition) {
    Clock::time_point end = Clock::now() + std::chrono::seconds(20);
    while (!condition() && Clock::now() < end) {
      context.restart();
      context.run_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(condition());
  }

  Version &version(const std::string &name) {
    return *models->catalog.all().at(name).versions.at(1);
  }
  bool isLoaded(const std::string &name) { return version(name).state() == VersionState::Ready; }
  std::string deviceOf(const std::string &name) { return version(name).device()->name(); }
  /// Has a model loaded, again where it was.
  Status load(const std::string &name) {
    std::optional<Status> ended;
    models->catalog.load(name, [&](Status status) { ended = std::move(status); });
    await([&] { return ended.has_value(); });
    return *ended;
  }
  std::vector<std::string> workers() {
    std::vector<std::string> names;
    for (const std::unique_ptr<WorkerSlot> &slot : models->catalog.residency.workers().all()) {
      names.push_back(slot->name);
    }
    return names;
  }

  /// What became of a request for one number.
  using Answer = std::shared_ptr<std::optional<Status>>;
  Answer ask(const std::string &name, float x) {
    InferRequest request;
    RequestInput &input = request.inputs.emplace_back();
    input.name = "x";
    input.dims = {1, 1};
    auto value = std::make_shared<float>(x);
    input.binary = std::as_bytes(std::span(value.get(), 1));
    input.bytes = input.binary.size();
    Answer answer = std::make_shared<std::optional<Status>>();
    Result<std::shared_ptr<Request>> submitted =
        models->submit(name, "", std::move(request), [answer, value](Result<InferResult> result) {
          *answer = result.isOk() ? Status::ok() : result.takeStatus();
        });
    EXPECT_TRUE(submitted.isOk()) << submitted.status().toString();
    return answer;
  }

  static Placement on(std::vector<uint64_t> gpus) { return {Placement::Kind::Gpu, gpus}; }

  boost::asio::io_context context;
  std::unique_ptr<FixedRepository> repository = std::make_unique<FixedRepository>();
  std::unique_ptr<ModelServer> models;
};

TEST_F(ModelServerTest, EachDeviceHasItsBudget) {
  add("a", 60, on({0}));
  add("b", 60, on({0}));
  add("c", 60, on({1}));
  add("d", 60);
  add("e", 30);
  start(100);
  EXPECT_EQ(workers(), (std::vector<std::string>{"cpu", "gpu0", "gpu1"}));
  EXPECT_TRUE(isLoaded("a") && isLoaded("c") && isLoaded("d") && isLoaded("e"));
  EXPECT_EQ(version("b").state(), VersionState::Cold);
  EXPECT_EQ(version("a").ports.outputs[0].name, "sees 7");
  EXPECT_EQ(version("c").ports.outputs[0].name, "sees GPU-9");
  EXPECT_EQ(version("d").ports.outputs[0].name, "sees ");
  EXPECT_TRUE(load("b").isOk());
  EXPECT_EQ(version("a").state(), VersionState::Cold);
  EXPECT_TRUE(isLoaded("c") && isLoaded("d") && isLoaded("e"));
  EXPECT_EQ(models->catalog.residency.evictions(Device{{0}}), 1u);
  EXPECT_EQ(models->catalog.residency.evictions(Device{{1}}) +
                models->catalog.residency.evictions(Device()),
            0u);
  std::string metrics = describeMetrics(*models);
  EXPECT_NE(
      metrics.find(
          "tenon_model_bytes{model=\"b\",version=\"1\",device=\"gpu0\",worker=\"gpu0\"} 60\n"),
      std::string::npos)
      << metrics;
  EXPECT_NE(metrics.find("tenon_evictions_total{device=\"gpu0\"} 1\n"), std::string::npos);
}

TEST_F(ModelServerTest, OnAGpuAFileIsNoBound) {
  add("fits", 150, on({0}), kHalf).isPinned = true;
  add("large", 250, on({1}), kHalf).isPinned = true;
  add("cpu", 150, {}, kHalf).isPinned = true;
  start(100);
  EXPECT_TRUE(isLoaded("fits"));
  EXPECT_EQ(version("fits").bytes(), 75u);
  EXPECT_EQ(version("large").problem().id(), ErrorId::MemoryBudgetExceeded);
  EXPECT_NE(version("large").problem().message().find("needs 125 bytes"), std::string::npos)
      << version("large").problem().toString();
  EXPECT_EQ(version("cpu").problem().id(),
            ErrorId::MemoryBudgetExceeded); // there the whole file is read
}

TEST_F(ModelServerTest, AGpuThatNobodyNamesIsTheEmptiest) {
  add("a", 60, on({}));
  add("b", 20, on({}));
  add("c", 20, on({}));
  add("d", 10, on({}));
  add("far", 10, on({2}));
  start(0);
  EXPECT_EQ(deviceOf("a"), "gpu0");
  EXPECT_EQ(deviceOf("b"), "gpu1");
  EXPECT_EQ(deviceOf("c"), "gpu1");
  EXPECT_EQ(deviceOf("d"), "gpu1");
  EXPECT_EQ(version("far").problem().id(), ErrorId::DeviceNotFound)
      << version("far").problem().toString();
}

TEST_F(ModelServerTest, AWorkerOfAGpuGoesWithItsLastModel) {
  add("a", 60, on({1}));
  add("b", 60);
  start(0);
  EXPECT_EQ(workers(), (std::vector<std::string>{"cpu", "gpu1"}));
  bool isDone = false;
  models->catalog.unload("a", [&](Status status) { isDone = status.isOk(); });
  await([&] { return isDone && models->catalog.residency.workers().all().size() == 1; });
  EXPECT_TRUE(load("a").isOk());
  EXPECT_EQ(workers(), (std::vector<std::string>{"cpu", "gpu1"}));
}

TEST_F(ModelServerTest, AWorkerOfItsOwnGivesItsMemoryBackAsAWhole) {
  add("a", 60).hasOwnWorker = true;
  add("b", 60).hasOwnWorker = true;
  add("c", 30).isPinned = true;
  start(100);
  EXPECT_EQ(workers(), (std::vector<std::string>{"cpu", "cpu/a/1"}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(load("b").isOk());
    EXPECT_FALSE(isLoaded("a"));
    EXPECT_TRUE(load("a").isOk());
    EXPECT_FALSE(isLoaded("b"));
  }
  EXPECT_TRUE(isLoaded("c"));
  EXPECT_EQ(models->catalog.residency.evictions(Device()), 6u);
  await([&] { return models->catalog.residency.workers().all().size() == 2; });
}

TEST_F(ModelServerTest, AnEngineWithAVariantForAGpuGoesThereUnlessItIsRefused) {
  test::TestEngine engine(test::dynamicPlan(), test::productWeights());
  addFile("cpu", engine.writeTemporary("cpu.tenon"));
  std::string gpu = writeGpuEngine("gpu.tenon");
  addFile("gpu", gpu);
  addFile("forced", gpu, {Placement::Kind::Cpu, {}});
  std::string refused = test::temporaryPath("refused");
  std::filesystem::copy_file(gpu, refused);
  // The manifest is read alone, and so the last byte, by which the worker refuses, changes nothing
  // for it.
  std::fstream(refused, std::ios::in | std::ios::out | std::ios::ate)
      .seekp(-1, std::ios::end)
      .put(kNoVariant);
  addFile("refused", refused);
  addFile("must", refused, on({0}));
  start(0);
  EXPECT_EQ(deviceOf("cpu"), "cpu");
  EXPECT_EQ(deviceOf("gpu"), "gpu0");
  EXPECT_EQ(deviceOf("forced"), "cpu");
  EXPECT_EQ(deviceOf("refused"), "cpu");
  EXPECT_TRUE(isLoaded("refused"));
  EXPECT_EQ(version("must").problem().id(), ErrorId::EngineNoVariant);
}

TEST_F(ModelServerTest, AWorkerOfAGpuRunsEnginesThereAndTellsTheirBytes) {
  std::filesystem::path libraries = test::temporaryPath("lib");
  std::filesystem::create_directory(libraries);
  std::filesystem::create_symlink(TENON_FAKE_CUDA, libraries / "libcuda.so.1");
  setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
  addFile("sum", writeGpuEngine("sum.tenon"), on({1}));
  test::TestEngine cpu(test::dynamicPlan(), test::productWeights());
  addFile("cpu", cpu.writeTemporary("product.tenon"), on({0}));
  start(0, kRealWorkerFlag);
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(version("cpu").problem().id(), ErrorId::EngineNoVariant)
      << version("cpu").problem().toString();
  ASSERT_TRUE(isLoaded("sum")) << version("sum").problem().toString();
  EXPECT_EQ(version("sum").sharedBytes(), uint64_t(kSize) * 4);
  std::vector<float> values(kSize, 0.5f);
  InferRequest request;
  RequestInput &input = request.inputs.emplace_back();
  input.name = "x";
  input.dims = {kSize};
  input.binary = std::as_bytes(std::span(values));
  input.bytes = input.binary.size();
  float first = 0;
  Status failure;
  Result<std::shared_ptr<Request>> submitted =
      models->submit("sum", "", std::move(request), [&](Result<InferResult> result) {
        if (result.isOk()) {
          std::memcpy(&first, result->buffer->memory->data() + result->outputs[0].offset,
                      sizeof(first));
        } else {
          failure = result.takeStatus();
        }
      });
  ASSERT_TRUE(submitted.isOk()) << submitted.status().toString();
  await([&] { return first != 0 || !failure.isOk(); });
  EXPECT_EQ(first, 3.5f) << failure.toString();
  // Weights, and x and y on the device.
  EXPECT_GE(version("sum").bytes(), uint64_t(kSize) * 4 * 3);
  EXPECT_LT(version("sum").bytes(), uint64_t(1) << 20);
}

/// y = sum over two ranks of x times a number of each rank; what a rank has of it is also what its
/// kernel 'test_fail' does.
std::string writeRanks(const std::string &name, float second) {
  test::PlanBuilder builder;
  builder.plan.ranks = 2;
  engine::ExprId one = builder.size(1), bytes = builder.size(4);
  uint32_t x = builder.input("x", DType::F32, {one, one});
  uint32_t y = builder.output("y", DType::F32, {one, one});
  uint32_t own = builder.weight(0, 4), part = builder.arena(bytes, 0, 2);
  builder.launch(test::Product, {x, own}, {part}, one, {one, one});
  builder.launch(test::Fail, {part}, {}, one);
  builder.collective(engine::CollectiveKind::AllReduce, part, y, one);
  builder.finish();
  return test::TestEngine(builder.plan, {test::floats("own", {0, second}, 2)}).writeTemporary(name);
}

TEST_F(ModelServerTest, ARankThatFailsIsNamedAndItsGroupServesOn) {
  addFile("fails", writeRanks("fails.tenon", 1));
  start(0, kRealWorkerFlag);
  ASSERT_TRUE(isLoaded("fails")) << version("fails").problem().toString();
  for (int round = 0; round < 2; ++round) {
    Answer failed = ask("fails", 1), good = ask("fails", 0);
    await([&] { return failed->has_value() && good->has_value(); });
    EXPECT_EQ((*failed)->id(), ErrorId::RunIndexOutOfRange) << (*failed)->toString();
    EXPECT_TRUE((*failed)->message().starts_with("rank 1: ")) << (*failed)->toString();
    EXPECT_TRUE((*good)->isOk()) << (*good)->toString();
  }
  EXPECT_EQ(version("fails").worker()->losses(), 0u);
}

TEST_F(ModelServerTest, ARankThatIsLostEndsItsGroupWhichIsStartedAgain) {
#ifndef __x86_64__
  GTEST_SKIP() << "test_fail knows the calls of x86-64 alone";
#endif
  for (auto [name, number] : {std::pair("hangs", 34), std::pair("ends", 60)}) {
    addFile(name, writeRanks(std::string(name) + ".tenon", static_cast<float>(number)))
        .hasOwnWorker = true;
  }
  addFile("beside", writeRanks("beside.tenon", 1));
  start(0, kRealWorkerFlag);
  std::vector<std::string> lost = {"hangs", "ends"};
  std::vector<Answer> failed, waiting;
  Clock::time_point begin = Clock::now();
  for (const std::string &name : lost) {
    ASSERT_TRUE(isLoaded(name)) << version(name).problem().toString();
    failed.push_back(ask(name, 1));
    waiting.push_back(ask(name, 0));
    waiting.push_back(ask("beside", 0));
  }
  await([&] { return failed[0]->has_value() && failed[1]->has_value(); });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  await([&] {
    return std::ranges::all_of(waiting, [](const Answer &each) { return each->has_value(); });
  });
  for (const Answer &each : waiting) {
    EXPECT_TRUE((*each)->isOk()) << (*each)->toString();
  }
  for (size_t i = 0; i < lost.size(); ++i) {
    EXPECT_EQ((*failed[i])->id(), ErrorId::WorkerLost);
    EXPECT_EQ((*failed[i])->message(),
              "the worker process ended for model '" + lost[i] +
                  "' version 1: rank 1 of 2 did not come to where the other ranks have waited for "
                  "4 s");
    EXPECT_EQ(version(lost[i]).worker()->losses(), 1u);
  }
  EXPECT_EQ(version("beside").worker()->losses(), 0u);
}

/// y = sum over two GPUs of x + w, w another one on each.
std::string writeGpuRanks(const std::string &name) {
  test::PlanBuilder builder;
  builder.plan.ranks = 2;
  engine::ExprId size = builder.size(kSize);
  uint32_t x = builder.input("x", DType::F32, {size}), y = builder.output("y", DType::F32, {size}),
           w = builder.weight(0, kSize * 4), part = builder.arena(builder.size(kSize * 4), 0, 1);
  builder.launch(test::Add, {x, w}, {part}, builder.size(kSize / 128), {size}).threads = 128;
  builder.collective(engine::CollectiveKind::AllReduce, part, y, size);
  builder.finish();
  constexpr const char *kKernel = "tenon_all_reduce_one_f32_2";
  std::vector<std::byte> code =
      test::readFile(std::string(TENON_SOURCE_DIR) + "/test/unit/runtime/kernels.ptx");
  std::string entry =
      std::string(".visible .entry ") + kKernel + "(\n.param .u64 x\n)\n{\n  ret;\n}\n";
  std::ranges::transform(entry, std::back_inserter(code), [](char c) { return std::byte(c); });
  return writeOnGpu(name, std::move(builder.plan), std::move(code),
                    {test::floats("w", std::vector<float>(2 * kSize, 3), 2)},
                    {"test_scale", "test_add", kKernel});
}

TEST_F(ModelServerTest, AnEngineWithRanksHasAGroupOfGpus) {
  std::filesystem::path libraries = test::temporaryPath("group-lib");
  std::filesystem::create_directory(libraries);
  std::filesystem::create_symlink(TENON_FAKE_CUDA, libraries / "libcuda.so.1");
  setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
  std::string path = writeGpuRanks("group.tenon");
  addFile("group", path);
  addFile("one", path, on({1}));
  addFile("single", writeGpuEngine("single.tenon"), on({1}));
  start(uint64_t(1) << 30, kRealWorkerFlag);
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(version("one").problem().message(),
            "model 'one' version 1: the engine has 2 ranks, each for a GPU of its own, but "
            "instance_group names 1");
  ASSERT_TRUE(isLoaded("group")) << version("group").problem().toString();
  ASSERT_TRUE(isLoaded("single")) << version("single").problem().toString();
  EXPECT_EQ(deviceOf("group"), "gpu0+gpu1");
  EXPECT_EQ(workers(), (std::vector<std::string>{"cpu", "gpu0+gpu1", "gpu1"}));
  // Of each GPU: its own array of the weight.
  EXPECT_EQ(version("group").sharedBytes(), uint64_t(kSize) * 4);
}

TEST(Devices, OfAMachine) {
  std::filesystem::path folder = test::temporaryPath("dev");
  std::filesystem::create_directory(folder);
  for (const char *name : {"nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "nvidia", "null"}) {
    std::ofstream(folder / name) << "";
  }
  EXPECT_EQ(findGpus(nullptr, folder), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(findGpus("3,GPU-1", folder), (std::vector<std::string>{"3", "GPU-1"}));
  EXPECT_EQ(findGpus("0,-1,2", folder), (std::vector<std::string>{"0"}));
  EXPECT_TRUE(findGpus("", folder).empty());
  EXPECT_TRUE(findGpus(nullptr, folder / "none").empty());
}

TEST(Devices, AreChosen) {
  Placement automatic;
  EngineNeeds cpu, gpu = {true, true, 1};
  EXPECT_TRUE(chooseDevice(automatic, gpu, {})->isCpu());
  EXPECT_TRUE(chooseDevice(automatic, cpu, {0})->isCpu());
  EXPECT_EQ(chooseDevice(automatic, gpu, {5, 3, 3})->name(), "gpu1");
  automatic.gpus = {0};
  EXPECT_EQ(chooseDevice(automatic, gpu, {5, 3})->name(), "gpu0");
  automatic.gpus = {2};
  EXPECT_TRUE(chooseDevice(automatic, gpu, {5, 3})->isCpu());
  EXPECT_EQ(chooseDevice({Placement::Kind::Gpu, {}}, cpu, {}).status().id(),
            ErrorId::DeviceNotFound);
  EXPECT_TRUE(chooseDevice({Placement::Kind::Cpu, {}}, gpu, {0})->isCpu());
}

TEST(Devices, AGroupHasAGpuForEachRank) {
  EngineNeeds pair = {false, true, 2};
  Placement automatic, forced = {Placement::Kind::Gpu, {}};
  EXPECT_EQ(chooseDevice(automatic, pair, {5, 3, 4})->name(), "gpu1+gpu2");
  forced.gpus = {2, 0};
  EXPECT_EQ(chooseDevice(forced, pair, {5, 3, 4})->name(), "gpu2+gpu0");
  forced.gpus = {1};
  EXPECT_EQ(chooseDevice(forced, pair, {0, 0}).status().message(),
            "the engine has 2 ranks, each for a GPU of its own, but instance_group names 1");
  forced.gpus = {0, 3};
  EXPECT_EQ(chooseDevice(forced, pair, {0, 0}).status().message(),
            "the model needs GPU 3, but the server sees 2");
  for (Placement::Kind kind : {Placement::Kind::Auto, Placement::Kind::Gpu}) {
    EXPECT_EQ(chooseDevice({kind, {}}, pair, {0}).status().message(),
              "the engine is for 2 GPUs together, but the server sees 1");
  }
  EngineNeeds either = {true, true, 2};
  EXPECT_TRUE(chooseDevice(automatic, either, {0})->isCpu());
  EXPECT_EQ(chooseDevice({Placement::Kind::Gpu, {}}, {true, false, 2}, {0, 0})->name(), "gpu0");
}

TEST(Levels, AreReadFromTheManifestAlone) {
  test::TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::string path = engine.writeTemporary("levels.tenon");
  auto read = [&] {
    Descriptor file(open(path.c_str(), O_RDONLY));
    return engine::readTargets(file.get());
  };
  EXPECT_EQ(read()->architectures, std::vector{engine::Architecture::X86_64});
  EXPECT_EQ(read()->ranks, 1u);
  for (uint64_t bytes : {100u, 63u, 0u}) {
    std::filesystem::resize_file(path, bytes);
    EXPECT_FALSE(read().isOk());
  }
}

} // namespace
} // namespace tenon::server

int main(int argc, char **argv) {
  if (argc > 1 && std::strcmp(argv[1], tenon::server::kWorkerFlag) == 0) {
    return tenon::server::serveAsWorker();
  }
  if (argc > 1 && std::strcmp(argv[1], tenon::server::kRealWorkerFlag) == 0) {
    return tenon::server::runWorker();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
