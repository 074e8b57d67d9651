// The table of targets: what of it decides code that is measured, limits of each architecture,
// names, and the page that shows it.

#include "compiler/target/Target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace tenon::target {
namespace {

TEST(Targets, OfTheH200AreWhatWasMeasured) {
  for (const Target &gpu : {targetOf("sm_90"), targetOf("sm_90a"), *findPart("cuda", "h200")}) {
    EXPECT_EQ(gpu.cores, 132);
    EXPECT_EQ(gpu.memoryBandwidth, 4.3e12);
    EXPECT_EQ(gpu.cacheBandwidth, 5.5e12);
    EXPECT_EQ(gpu.cacheBytes, (60 << 20) / 132);
    EXPECT_EQ(gpu.peak, 60e12);
    EXPECT_EQ(gpu.halfPeak, 700e12);
    EXPECT_EQ(gpu.generatedPeak, 5e12);
    EXPECT_EQ(gpu.generatedHalfPeak, 110e12);
    EXPECT_EQ(gpu.productBandwidth, 1.6e12);
    EXPECT_EQ(gpu.generatedBandwidth, 1.2e12);
    EXPECT_EQ(gpu.launchSeconds, 1e-6);
    EXPECT_EQ(gpu.bytesOnTheWay, 20 << 10);
    EXPECT_EQ(gpu.coreBandwidth, 64e9);
  }
}

struct Limits {
  std::string_view arch;
  int64_t threads, blocks, sharedOfBlock, cores, clusterBlocks, ptx;
};

TEST(Targets, EachArchitectureHasItsOwnLimits) {
  for (const Limits &row :
       {Limits{"sm_80", 2048, 32, 166912, 108, 1, 80}, Limits{"sm_86", 1536, 16, 101376, 84, 1, 80},
        Limits{"sm_89", 1536, 24, 101376, 142, 1, 81},
        Limits{"sm_90", 2048, 32, 232448, 132, 8, 81},
        Limits{"sm_90a", 2048, 32, 232448, 132, 16, 81},
        Limits{"sm_100", 2048, 32, 232448, 148, 8, 86},
        Limits{"sm_100a", 2048, 32, 232448, 148, 16, 86},
        Limits{"sm_120", 1536, 24, 101376, 170, 8, 87}}) {
    const Target &target = targetOf(row.arch);
    EXPECT_EQ(target.variant(), row.arch);
    EXPECT_EQ(target.threads, row.threads) << row.arch;
    EXPECT_EQ(target.blocks, row.blocks) << row.arch;
    EXPECT_EQ(target.sharedBytes, row.sharedOfBlock) << row.arch;
    EXPECT_EQ(target.cores, row.cores) << row.arch;
    EXPECT_EQ(target.clusterBlocks, row.clusterBlocks) << row.arch;
    EXPECT_EQ(target.ptxVersion, row.ptx) << row.arch;
    EXPECT_EQ(target.has(Feature::DependentLaunch), target.hasClusters()) << row.arch;
    EXPECT_EQ(target.has(Feature::Tma), target.hasClusters()) << row.arch;
    EXPECT_EQ(target.has(Feature::WarpgroupMma), row.arch == "sm_90a") << row.arch;
    EXPECT_EQ(target.sharedOfBlock(1), target.sharedBytes) << row.arch;
    EXPECT_EQ(target.sharedOfBlock(2), target.sharedOfProcessor / 2 - 1024) << row.arch;
    EXPECT_GE(target.cacheBandwidth, target.memoryBandwidth) << row.arch;
  }
}

TEST(Targets, EveryNumberIsSet) {
  auto check = [](const Target &target) {
    for (const Field &field : fields()) {
      double value = field.rate ? target.*field.rate : static_cast<double>(target.*field.size);
      bool isSet = value > 0 && std::isfinite(value);
      EXPECT_TRUE(isSet || (field.isOfGpu && !target.isGpu())) << target.name << ' ' << field.key;
    }
  };
  std::ranges::for_each(parts(), check);
  for (const engine::CudaArch &arch : engine::kCudaArchs) {
    check(targetOf(arch));
  }
  check(cpuTarget());
}

TEST(Targets, AreFoundByTheNamesThatDriversGive) {
  auto part = [](std::string_view name) {
    const Target *found = partOfGpu(name);
    return found ? found->part : "";
  };
  EXPECT_EQ(part("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(part("NVIDIA H200"), "h200");
  EXPECT_EQ(part("NVIDIA A100-SXM4-80GB"), "a100");
  EXPECT_EQ(part("NVIDIA L40S"), "l40s");
  EXPECT_EQ(part("NVIDIA L40"), "");
  EXPECT_EQ(part("NVIDIA A400"), "");
  EXPECT_EQ(part("NVIDIA B200"), "b200");
  EXPECT_EQ(targetOfCapability(75), nullptr);
  EXPECT_EQ(targetOfCapability(87)->variant(), "sm_86");
  EXPECT_EQ(targetOfCapability(90)->variant(), "sm_90a");
  EXPECT_EQ(targetOfCapability(103)->variant(), "sm_100");
  EXPECT_EQ(targetOfCapability(121)->variant(), "sm_120");
  EXPECT_EQ(findPart("cuda", "h100")->variant(), "sm_90a");
  EXPECT_EQ(findPart("cpu", "h100"), nullptr);
  EXPECT_EQ(findPart("cpu", "zen4")->variant(), "avx512-vnni-bf16");
}

TEST(Targets, DescribeEveryField) {
  const Target &gpu = targetOf("sm_90");
  for (const Field &field : fields()) {
    Target other = gpu;
    if (field.rate) {
      other.*field.rate *= 2;
    } else {
      other.*field.size += 1;
    }
    EXPECT_NE(describe(gpu), describe(other)) << field.key;
  }
  EXPECT_NE(describe(gpu), describe(targetOf("sm_90a")));
}

double tenths(double value) { return std::round(value * 10) / 10; }

/// The rows of docs/reference/targets.md.
std::string tableOf(bool ofGpus) {
  std::ostringstream text;
  auto row = [&](std::string_view target, const Target &t) {
    text << "| `" << target << "` | " << t.name << " | " << t.variant() << " | " << t.cores << " | "
         << std::llround(t.memoryBandwidth / 1e9) << " | " << std::llround(t.cacheBandwidth / 1e9)
         << " | " << t.cacheBytes / 1024 << " | " << tenths(t.peak / 1e12) << " | "
         << tenths(t.halfPeak / 1e12);
    if (ofGpus) {
      text << " | " << t.threads << " | " << t.blocks << " | " << t.sharedBytes / 1024 << " | "
           << t.clusterBlocks;
    }
    text << " |\n";
  };
  if (!ofGpus) {
    row("cpu", cpuTarget());
  }
  for (const Target &part : parts()) {
    if (part.isGpu() == ofGpus) {
      row(std::string(part.device()) + ":" + part.part, part);
    }
  }
  for (const engine::CudaArch &arch : engine::kCudaArchs) {
    if (ofGpus) {
      row("cuda:" + std::string(arch.name), targetOf(arch));
    }
  }
  return text.str();
}

TEST(Targets, ArePrintedOnTheirPage) {
  std::ifstream file(TENON_SOURCE_DIR "/docs/reference/targets.md");
  std::string page{std::istreambuf_iterator<char>(file), {}};
  for (bool ofGpus : {false, true}) {
    EXPECT_NE(page.find(tableOf(ofGpus)), std::string::npos)
        << "docs/reference/targets.md is to have\n"
        << tableOf(ofGpus);
  }
  for (const Field &field : fields()) {
    EXPECT_NE(page.find("| `" + std::string(field.key) + "` | " + std::string(field.what)),
              std::string::npos)
        << field.key << ": " << field.what;
  }
}

} // namespace
} // namespace tenon::target
