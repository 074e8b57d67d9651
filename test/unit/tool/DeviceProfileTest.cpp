// Profiles over the table of targets, and files that are none.

#include "tools/tenon/target/DeviceProfile.h"

#include <gtest/gtest.h>

#include <fstream>

namespace tenon::tool {
namespace {

Status apply(const std::string &text, Targets &targets) {
  std::string path = testing::TempDir() + "profile.json";
  std::ofstream(path) << text;
  return applyProfile(path, targets);
}

TEST(DeviceProfile, SetsWhatItNames) {
  Targets targets = *parseTargets({"cpu:avx2,cuda:sm_90,a100"});
  ASSERT_TRUE(apply(R"({"schema": "tenon.device-profile/1",
      "cpu": {"name": "mine", "cores": 8, "memory_bytes_per_s": 1e11},
      "cuda": {"part": "a100", "cores": 98, "threads": 1024, "launch_s": 2e-6}})",
                    targets)
                  .isOk());
  EXPECT_EQ(targets.cpu.name, "mine");
  EXPECT_EQ(targets.cpu.cores, 8);
  EXPECT_EQ(targets.cpu.memoryBandwidth, 1e11);
  EXPECT_EQ(targets.cpu.peak, target::cpuTarget().peak) << "what it does not name is the table's";
  EXPECT_EQ(targets.gpus[0].cores, 98);
  EXPECT_EQ(targets.gpus[0].threads, 1024);
  EXPECT_EQ(targets.gpus[0].launchSeconds, 2e-6);
  EXPECT_EQ(target::describe(targets.gpus[1]), target::describe(target::targetOf("sm_90")))
      << "an object is for the architecture of its part";
}

TEST(DeviceProfile, WithoutArchitectureIsForEveryGpu) {
  Targets targets = *parseTargets({"cuda:sm_80,sm_90a"});
  ASSERT_TRUE(apply(R"({"cuda": {"cores": 7}})", targets).isOk());
  EXPECT_EQ(targets.gpus[0].cores, 7);
  EXPECT_EQ(targets.gpus[1].cores, 7);
}

TEST(DeviceProfile, RefusesWhatIsNone) {
  std::string deep(60000, '['), large(100000, ' ');
  for (const std::string &text :
       {std::string(),
        std::string("x"),
        std::string("[]"),
        std::string("null"),
        std::string("{"),
        deep,
        large + "{}",
        std::string("{\"cpu\": {\"name\": \"\xff\"}}"),
        std::string(R"({"cpu": []})"),
        std::string(R"({"gpu": {}})"),
        std::string(R"({"schema": "tenon.device-profile/9", "cpu": {}})"),
        std::string(R"({"schema": 1, "cpu": {}})"),
        std::string(R"({"cpu": {"core": 4}})"),
        std::string(R"({"cpu": {"threads": 4}})"),
        std::string(R"({"cpu": {"cores": "4"}})"),
        std::string(R"({"cpu": {"cores": 0}})"),
        std::string(R"({"cpu": {"cores": -1}})"),
        std::string(R"({"cpu": {"cores": 1.5}})"),
        std::string(R"({"cpu": {"cores": 1e300}})"),
        std::string(R"({"cpu": {"cores": 18446744073709551615}})"),
        std::string(R"({"cpu": {"fp32_flops": 0}})"),
        std::string(R"({"cpu": {"fp32_flops": -1}})"),
        std::string(R"({"cpu": {"fp32_flops": 1e19}})"),
        std::string(R"({"cpu": {"fp32_flops": 1e999}})"),
        std::string(R"({"cpu": {"fp32_flops": null}})"),
        std::string(R"({"cpu": {"name": 1}})"),
        std::string(R"({"cpu": {"part": "h200"}})"),
        std::string(R"({"cpu": {"architecture": "sm_90"}})"),
        std::string(R"({"cuda": {"part": "h300"}})"),
        std::string(R"({"cuda": {"architecture": "sm_70"}})"),
        std::string(R"({"cuda": {"part": "h200", "architecture": "sm_80"}})"),
        std::string(R"({"cuda": {"threads": 2049}})"),
        std::string(R"({"cuda": {"threads": 1023}})"),
        std::string(R"({"cuda": {"shared_bytes_per_block": 300000}})"),
        std::string(R"({"cuda": {"architecture": "sm_80"}})"),
        std::string("{}")}) {
    Targets targets = *parseTargets({"cpu,cuda:sm_90"});
    Status status = apply(text, targets);
    EXPECT_FALSE(status.isOk()) << text.substr(0, 80);
    EXPECT_EQ(status.id(), ErrorId::BadArgument) << text.substr(0, 80);
  }
  Targets targets = *parseTargets({"cuda:sm_90"});
  EXPECT_FALSE(apply(R"({"cpu": {"cores": 4}})", targets).isOk()) << "it is for no target";
  EXPECT_EQ(applyProfile("/nonexistent", targets).id(), ErrorId::FileNotFound);
}

} // namespace
} // namespace tenon::tool
