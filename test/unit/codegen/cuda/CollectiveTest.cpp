// All-reduces of several emulated GPUs at the same time: sums in the order of the ranks, equal bits
// of both ways, many runs one behind the other, and a rank that does not come.
#include "compiler/codegen/cuda/collective/Collective.h"

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/codegen/cuda/LowerRegion.h"
#include "compiler/reference/Compare.h"
#include "compiler/reference/Interpreter.h"
#include "compiler/reference/Tensor.h"
#include "engine/CollectiveAbi.h"
#include "test/unit/codegen/emulator/GpuEmulator.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <numeric>

namespace tenon::codegen::cuda {
namespace {

using engine::kCollectiveVector;
using Floats = std::vector<float>;

constexpr int64_t kPolls = 100000;
constexpr int64_t kLongest = 64 << 10;

reference::Tensor tensorOf(const Floats &values, DType type) {
  reference::Tensor wide = *reference::Tensor::create(DType::F32, {int64_t(values.size())});
  memcpy(wide.mutableBytes(), values.data(), wide.byteCount());
  return *reference::convert(wide, type);
}

Floats floatsOf(const void *bytes, int64_t count, DType type) {
  reference::Tensor narrow = *reference::Tensor::create(type, {count});
  memcpy(narrow.mutableBytes(), bytes, narrow.byteCount());
  reference::Tensor wide = *reference::convert(narrow, DType::F32);
  const float *values = wide.as<float>();
  return Floats(values, values + count);
}

/// Of very different sizes, so that another order of sums has other bits.
Floats seeded(int64_t count, uint64_t seed) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float uniform = float(seed >> 40) / float(1 << 23) - 1;
    values.push_back(uniform * (seed & 1 ? 1.0f : 300.0f));
  }
  return values;
}

/// The GPUs of a group: what they share, and a kernel on all of them.
class Group {
public:
  Group(DType type, int64_t ranks) : type(type), ranks(ranks) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      shared.emplace_back(size_t(engine::collectiveSharedBytes(kLongest, ranks)));
      statuses.emplace_back(4);
      lastSize = engine::collectivePartBytes(kLongest, ranks);
      order.push_back(rank);
    }
  }

  template <typename Kernel>
  std::string load(const Kernel &kernel, void (*emit)(RegionBuilder &, const Kernel &)) {
    TestRegion tested = emptyRegion(nameOf(kernel));
    emit(*tested.region, kernel);
    if (mlir::failed(lowerKernels(*tested.region))) {
      return "does not lower";
    }
    llvm::Expected<std::unique_ptr<GpuEmulator>> made = GpuEmulator::create(tested.kernels());
    if (!made) {
      return llvm::toString(made.takeError());
    }
    emulators[nameOf(kernel)] = std::move(*made);
    return "";
  }

  /// `runs` times, each rank's arguments in front of what the group adds.
  template <typename Kernel>
  std::string run(const Kernel &kernel, const std::vector<std::vector<std::vector<void *>>> &runs,
                  int64_t count, int64_t blocks, int64_t threads) {
    std::vector<std::vector<GpuEmulator::RankLaunch>> launches;
    for (const std::vector<std::vector<void *>> &arguments : runs) {
      std::vector<GpuEmulator::RankLaunch> &launch = launches.emplace_back();
      for (int64_t rank = 0; rank < int64_t(arguments.size()); ++rank) {
        std::vector<void *> buffers = arguments[rank];
        for (int64_t other = 0; other < ranks; ++other) {
          // The group's numbering, which a test may plant another of.
          buffers.push_back(
              shared[std::find(order.begin(), order.end(), other) - order.begin()].data());
        }
        buffers.push_back(statuses[rank].data());
        launch.push_back({buffers, {count, order[rank], polls, lastSize}});
      }
    }
    return llvm::toString(emulators[nameOf(kernel)]->launchTogether(
        nameOf(kernel), launches, blocks, uint32_t(threads), reversed, lag));
  }

  /// A kernel that exchanges nothing.
  template <typename Kernel>
  std::string runAlone(const Kernel &kernel, const std::vector<void *> &buffers, int64_t blocks,
                       int64_t threads) {
    return llvm::toString(emulators[nameOf(kernel)]->launchTogether(
        nameOf(kernel), {{{buffers, {}}}}, blocks, uint32_t(threads), reversed, lag));
  }

  int32_t status(int64_t rank) const { return *static_cast<int32_t *>(statuses[rank].data()); }

  DType type;
  int64_t ranks, polls = kPolls, lastSize = 0;
  bool reversed = false;
  uint32_t lag = 1;
  std::vector<int64_t> order;

private:
  std::vector<GuardedBytes> shared, statuses;
  std::map<std::string, std::unique_ptr<GpuEmulator>> emulators;
};

/// Summands and results of several runs of an all-reduce.
struct Messages {
  Messages(const Group &group, int64_t vectors, int64_t runs, bool isInPlace = false) {
    count = vectors * kCollectiveVector * 8 / bitWidth(group.type);
    for (int64_t run = 0; run < runs; ++run) {
      Floats sums(count);
      std::vector<std::vector<void *>> &arguments = places.emplace_back();
      for (int64_t rank = 0; rank < group.ranks; ++rank) {
        reference::Tensor own = tensorOf(seeded(count, uint64_t(run * 100 + rank + 1)), group.type);
        Floats exact = floatsOf(own.bytes(), count, group.type);
        for (int64_t i = 0; i < count; ++i) {
          sums[i] = rank == 0 ? exact[i] : sums[i] + exact[i];
        }
        memory.emplace_back(own.byteCount());
        memcpy(memory.back().data(), own.bytes(), own.byteCount());
        void *from = memory.back().data();
        if (!isInPlace) {
          memory.emplace_back(own.byteCount());
          memset(memory.back().data(), 0xff, own.byteCount());
        }
        arguments.push_back({from, memory.back().data()});
      }
      expected.push_back(tensorOf(sums, group.type));
    }
  }

  /// How many results of all runs and ranks have other bits than they should.
  int64_t wrong() const {
    int64_t different = 0;
    for (size_t run = 0; run < places.size(); ++run) {
      for (const std::vector<void *> &arguments : places[run]) {
        different += memcmp(arguments[1], expected[run].bytes(), expected[run].byteCount()) != 0;
      }
    }
    return different;
  }

  int64_t count = 0;
  std::vector<std::vector<std::vector<void *>>> places;
  std::vector<reference::Tensor> expected;
  std::vector<GuardedBytes> memory;
};

struct Case {
  DType type;
  int64_t ranks, vectors, blocks;
};

/// What is wrong with both ways for a case; they share the group's memory and numbers.
std::string faultOf(const Case &c, bool reversed, uint32_t lag) {
  Group group(c.type, c.ranks);
  group.reversed = reversed;
  group.lag = lag;
  for (bool isTwoShot : {false, true}) {
    AllReduceKernel kernel{c.type, c.ranks, 32, isTwoShot};
    if (std::string fault = group.load(kernel, emitAllReduce); !fault.empty()) {
      return fault;
    }
  }
  for (bool isInPlace : {false, true}) {
    for (bool isTwoShot : {false, true, true, false}) {
      AllReduceKernel kernel{c.type, c.ranks, 32, isTwoShot};
      Messages messages(group, c.vectors, 5, isInPlace);
      std::string fault = group.run(kernel, messages.places, c.vectors, c.blocks, 32);
      if (!fault.empty()) {
        return fault;
      }
      if (messages.wrong() != 0) {
        return nameOf(kernel) + ": " + std::to_string(messages.wrong()) + " are wrong";
      }
    }
  }
  for (int64_t rank = 0; rank < c.ranks; ++rank) {
    if (group.status(rank) != 0) {
      return "status " + std::to_string(group.status(rank));
    }
  }
  return "";
}

TEST(CollectiveTest, SumsInTheOrderOfRanks) {
  for (bool reversed : {false, true}) {
    for (const Case &c :
         {Case{DType::BF16, 2, 64, 2}, Case{DType::BF16, 2, 1, 1}, Case{DType::F32, 3, 131, 2},
          Case{DType::F16, 4, 77, 3}, Case{DType::F32, 8, 37, 1}, Case{DType::BF16, 2, 700, 2}}) {
      EXPECT_EQ(faultOf(c, reversed, reversed ? 7 : 1), "") << nameOf(c.type) << " of " << c.ranks;
    }
  }
}

TEST(CollectiveTest, AnotherOrderIsFound) {
  for (bool isTwoShot : {false, true}) {
    Group group(DType::F32, 3);
    group.order = {2, 0, 1};
    AllReduceKernel kernel{DType::F32, 3, 32, isTwoShot};
    ASSERT_EQ(group.load(kernel, emitAllReduce), "");
    Messages messages(group, 64, 1);
    ASSERT_EQ(group.run(kernel, messages.places, 64, 1, 32), "");
    EXPECT_EQ(messages.wrong(), 3);
  }
}

TEST(CollectiveTest, WhoDoesNotWaitIsWrong) {
  for (bool isTwoShot : {false, true}) {
    Group group(DType::F32, 2);
    group.polls = 0;
    group.lag = 50;
    AllReduceKernel kernel{DType::F32, 2, 32, isTwoShot};
    ASSERT_EQ(group.load(kernel, emitAllReduce), "");
    Messages messages(group, 64, 1);
    ASSERT_EQ(group.run(kernel, messages.places, 64, 1, 32), "");
    EXPECT_GT(messages.wrong(), 0);
    EXPECT_EQ(group.status(0), 2);
  }
}

TEST(CollectiveTest, ARankThatDoesNotCome) {
  for (bool isTwoShot : {false, true}) {
    Group group(DType::F32, 3);
    group.polls = 1000;
    AllReduceKernel kernel{DType::F32, 3, 32, isTwoShot};
    ASSERT_EQ(group.load(kernel, emitAllReduce), "");
    Messages messages(group, 64, 2);
    for (std::vector<std::vector<void *>> &arguments : messages.places) {
      arguments.pop_back();
    }
    ASSERT_EQ(group.run(kernel, messages.places, 64, 1, 32), "");
    EXPECT_EQ(group.status(0), 3);
    EXPECT_EQ(group.status(1), 3);
    EXPECT_EQ(group.status(2), 0);
  }
}

/// Where an all-reduce and the kernel of rows behind it give other bits than the fused kernel gave.
std::string apartFault(Group &group, const AllReduceNormKernel &fused, const Messages &messages,
                       int64_t rows) {
  AllReduceNormKernel behind = fused;
  behind.ranks = 1;
  AllReduceKernel sum{fused.type, fused.ranks, 32, false};
  int64_t vectors = rows * fused.width * bitWidth(fused.type) / 8 / kCollectiveVector;
  size_t bytes = size_t(vectors) * kCollectiveVector;
  std::string fault = group.load(sum, emitAllReduce);
  fault = fault.empty() ? group.load(behind, emitAllReduceNorm) : fault;
  for (const std::vector<std::vector<void *>> &arguments : messages.places) {
    std::vector<GuardedBytes> memory;
    std::vector<std::vector<void *>> sums, rest;
    for (const std::vector<void *> &own : arguments) {
      memory.emplace_back(bytes);
      memory.emplace_back(bytes);
      void *hidden = memory[memory.size() - 2].data(), *norm = memory.back().data();
      sums.push_back({own[0], norm});
      rest.push_back({own[1], own[2], hidden, norm});
    }
    fault = fault.empty() ? group.run(sum, {sums}, vectors, 2, 32) : fault;
    for (size_t rank = 0; rank < rest.size() && fault.empty(); ++rank) {
      fault = group.runAlone(behind, rest[rank], rows, threadsOf(behind));
      bool isSame = memcmp(arguments[rank][3], rest[rank][2], bytes) == 0 &&
                    memcmp(arguments[rank][4], rest[rank][3], bytes) == 0;
      fault = isSame || !fault.empty() ? fault : "other bits on rank " + std::to_string(rank);
    }
  }
  return fault;
}

TEST(CollectiveTest, ResidualAndNormBehindTheSum) {
  constexpr int64_t rows = 3;
  for (auto [type, width] :
       {std::pair(DType::BF16, int64_t(264)), std::pair(DType::F32, int64_t(132)),
        std::pair(DType::BF16, int64_t(8448))}) {
    Group group(type, 2);
    AllReduceNormKernel kernel{type, 2, width, 1e-5f};
    ASSERT_EQ(group.load(kernel, emitAllReduceNorm), "");
    int64_t vectors = width * bitWidth(type) / 8 / kCollectiveVector;
    Messages messages(group, rows * vectors, 2);
    reference::Tensor residual = tensorOf(seeded(rows * width, 77), type);
    reference::Tensor weight = tensorOf(seeded(width, 78), type);
    std::vector<GuardedBytes> hidden;
    for (std::vector<std::vector<void *>> &arguments : messages.places) {
      for (std::vector<void *> &own : arguments) {
        hidden.emplace_back(residual.byteCount());
        own = {own[0], const_cast<char *>(residual.bytes()), const_cast<char *>(weight.bytes()),
               hidden.back().data(), own[1]};
      }
    }
    int64_t blocks = rows * blocksOfRow(kernel);
    ASSERT_EQ(
        group.run(kernel, messages.places, blocks, blocks > 2 * rows ? 9 : 2, threadsOf(kernel)),
        "");
    EXPECT_EQ(group.status(0), 0);
    EXPECT_EQ(apartFault(group, kernel, messages, rows), "");
    Floats scale = floatsOf(weight.bytes(), width, type);
    Floats before = floatsOf(residual.bytes(), rows * width, type);
    for (size_t run = 0; run < messages.places.size(); ++run) {
      Floats sums = floatsOf(messages.expected[run].bytes(), rows * width, type);
      for (int64_t i = 0; i < rows * width; ++i) {
        sums[i] += before[i];
      }
      reference::Tensor added = tensorOf(sums, type);
      sums = floatsOf(added.bytes(), rows * width, type);
      Floats normal(rows * width);
      for (int64_t row = 0; row < rows; ++row) {
        double squares = 0;
        for (int64_t i = 0; i < width; ++i) {
          squares += double(sums[row * width + i]) * sums[row * width + i];
        }
        double factor = 1 / std::sqrt(squares / double(width) + 1e-5);
        for (int64_t i = 0; i < width; ++i) {
          normal[row * width + i] = float(sums[row * width + i] * factor * scale[i]);
        }
      }
      for (const std::vector<void *> &own : messages.places[run]) {
        EXPECT_EQ(memcmp(own[3], added.bytes(), added.byteCount()), 0);
        reference::Tensor actual = *reference::Tensor::create(type, {rows * width});
        memcpy(actual.mutableBytes(), own[4], actual.byteCount());
        reference::Comparison comparison =
            reference::compareTensors(tensorOf(normal, type), actual);
        EXPECT_TRUE(comparison.equal()) << comparison.text(actual.dims());
      }
    }
  }
}

TEST(CollectiveTest, GathersInTheOrderOfRanks) {
  constexpr int64_t ranks = 3, vectors = 131;
  Group group(DType::F32, ranks);
  group.lag = 5;
  group.lastSize = vectors;
  AllGatherKernel kernel{ranks, 32};
  ASSERT_EQ(group.load(kernel, emitAllGather), "");
  Messages messages(group, vectors, 3);
  size_t bytes = vectors * kCollectiveVector;
  std::vector<GuardedBytes> results;
  for (std::vector<std::vector<void *>> &arguments : messages.places) {
    for (std::vector<void *> &own : arguments) {
      results.emplace_back(ranks * bytes);
      own[1] = results.back().data();
    }
  }
  ASSERT_EQ(group.run(kernel, messages.places, vectors, 2, 32), "");
  for (const std::vector<std::vector<void *>> &arguments : messages.places) {
    for (const std::vector<void *> &own : arguments) {
      for (int64_t from = 0; from < ranks; ++from) {
        EXPECT_EQ(memcmp(static_cast<char *>(own[1]) + from * bytes, arguments[from][0], bytes), 0);
      }
    }
  }
}

TEST(CollectiveTest, KernelsByName) {
  const target::Target &gpu = target::targetOf("sm_90");
  for (auto [kind, type, count] :
       {std::tuple(engine::CollectiveKind::AllReduce, DType::BF16, size_t(2)),
        std::tuple(engine::CollectiveKind::AllReduce, DType::F64, size_t(0)),
        std::tuple(engine::CollectiveKind::AllGather, DType::I64, size_t(1))}) {
    std::vector<std::string> names = collectiveKernels(kind, type, 4);
    EXPECT_EQ(names.size(), count);
    for (const std::string &name : names) {
      llvm::Expected<std::string> ptx = collectivePtx(name, gpu);
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      EXPECT_NE(ptx->find(".entry " + name + "("), std::string::npos);
    }
  }
  EXPECT_TRUE(collectiveKernels(engine::CollectiveKind::AllReduce, DType::F32, 9).empty());
  EXPECT_EQ(llvm::toString(collectivePtx("another", gpu).takeError()),
            "another is not a collective");
}

TEST(CollectiveTest, Assembles) {
  for (const char *part : {"sm_80", "sm_90"}) {
    const target::Target &gpu = target::targetOf(part);
    for (DType type : {DType::F32, DType::F16, DType::BF16}) {
      for (int64_t ranks : {2, 8}) {
        for (bool isTwoShot : {false, true}) {
          int64_t threads = isTwoShot ? engine::kTwoShotThreads : engine::kOneShotThreads;
          llvm::Expected<std::string> ptx =
              collectivePtx(AllReduceKernel{type, ranks, threads, isTwoShot}, gpu);
          ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
          EXPECT_EQ(ptx->find("multimem"), std::string::npos);
          EXPECT_TRUE(assembles(*ptx, gpu));
        }
      }
      llvm::Expected<std::string> ptx =
          collectivePtx(AllReduceNormKernel{type, 2, 8192, 1e-5f}, gpu);
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      EXPECT_TRUE(assembles(*ptx, gpu));
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
