// collective_check PTX [--folder DIR]: on a machine with two NVIDIA GPUs, all-reduces of bf16 of
// many sizes by the kernels of collective_ptx and by NCCL: bits against the host, then times in
// CUDA graphs. Prints a line a size; exits with 1 if a result is wrong.

#include "runtime/device/cuda/CudaGroup.h"
#include "runtime/device/cuda/CudaStream.h"
#include "support/text/Text.h"

#include <algorithm>
#include <barrier>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

namespace tenon::gpu {
namespace {

using namespace runtime::cuda;

constexpr size_t kRanks = 2;
constexpr int64_t kLongest = int64_t(1) << 30;
constexpr int64_t kLongestChecked = int64_t(64) << 20;
constexpr unsigned kLaunches = 7;

[[noreturn]] void stop(const Status &status) {
  std::printf("%s\n", status.toString().c_str());
  std::fflush(stdout);
  std::_Exit(4);
}
void need(const Status &status) {
  if (!status.isOk()) {
    stop(status);
  }
}
template <typename T> T got(Result<T> result) {
  if (!result.isOk()) {
    stop(result.status());
  }
  return std::move(*result);
}

uint16_t narrow(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float wide(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

using Halves = std::vector<uint16_t>;

Halves seeded(int64_t count, uint64_t seed) {
  Halves values(static_cast<size_t>(count));
  for (uint16_t &value : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    value = narrow(static_cast<float>(seed >> 40) / static_cast<float>(1 << 23) - 1);
  }
  return values;
}

/// One GPU with its kernels and memory.
struct Rank {
  explicit Rank(int ordinal)
      : device(got(CudaDevice::open(kDriverLibrary, ordinal))), stream(device), start(device),
        end(device), from(device, MemoryKind::Device), to(device, MemoryKind::Device),
        residual(device, MemoryKind::Device), weight(device, MemoryKind::Device),
        hidden(device, MemoryKind::Device) {
    ContextScope scope(*device);
    need(stream.open());
    need(start.open(kEventWithTiming));
    need(end.open(kEventWithTiming));
    for (CudaBuffer *buffer : {&from, &to}) {
      need(buffer->reserve(kLongest, "messages"));
    }
    for (CudaBuffer *buffer : {&residual, &weight, &hidden}) {
      need(buffer->reserve(kLongestChecked, "a norm"));
    }
  }
  void load(const std::string &ptx) {
    ContextScope scope(*device);
    need(device->driver().check(
        device->driver().moduleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr),
        "compiling the PTX"));
  }
  FunctionHandle kernel(const std::string &name) {
    FunctionHandle &function = kernels[name];
    if (!function) {
      need(device->driver().check(
          device->driver().moduleGetFunction(&function, module, name.c_str()), name));
    }
    return function;
  }
  void upload(const CudaBuffer &buffer, const Halves &values) {
    const CudaDriver &driver = device->driver();
    need(driver.check(
        driver.memcpyHtoDAsync(buffer.pointer(), values.data(), values.size() * 2, stream.handle()),
        "upload"));
    need(stream.wait("upload"));
  }
  Halves download(const CudaBuffer &buffer, size_t count) {
    const CudaDriver &driver = device->driver();
    Halves values(count);
    need(driver.check(
        driver.memcpyDtoHAsync(values.data(), buffer.pointer(), count * 2, stream.handle()),
        "download"));
    need(stream.wait("download"));
    return values;
  }

  std::shared_ptr<const CudaDevice> device;
  CudaStream stream;
  CudaEvent start, end;
  CudaBuffer from, to, residual, weight, hidden;
  ModuleHandle module = nullptr;
  std::map<std::string, FunctionHandle> kernels;
};

/// Puts one collective on a rank's stream.
using Work = std::function<Status(size_t rank)>;

class Pair {
public:
  explicit Pair(const std::string &ptx) {
    std::vector<std::shared_ptr<const CudaDevice>> devices;
    for (size_t i = 0; i < kRanks; ++i) {
      ranks.push_back(std::make_unique<Rank>(int(i)));
      ranks.back()->load(ptx);
      devices.push_back(ranks.back()->device);
    }
    group = got(CudaGroup::open(devices));
  }

  void forEach(const std::function<void(size_t)> &work) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kRanks; ++i) {
      threads.emplace_back([&, i] {
        ContextScope scope(*ranks[i]->device);
        work(i);
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
  }

  void run(const Work &work) {
    forEach([&](size_t i) {
      need(work(i));
      need(ranks[i]->stream.wait("a collective"));
    });
    for (size_t i = 0; i < kRanks; ++i) {
      need(group->takeFailure(i));
    }
  }

  /// Seconds of one of `rounds` in a graph: the median of some launches, of the slower rank.
  double seconds(unsigned rounds, const Work &work) {
    run(work);
    std::barrier<> meeting(kRanks);
    double medians[kRanks] = {};
    forEach([&](size_t i) {
      Rank &rank = *ranks[i];
      const CudaDriver &driver = rank.device->driver();
      StreamHandle stream = rank.stream.handle();
      need(driver.check(driver.streamBeginCapture(stream, kCaptureThreadLocal), "capture"));
      for (unsigned round = 0; round < rounds; ++round) {
        need(work(i));
      }
      GraphHandle graph = nullptr;
      need(driver.check(driver.streamEndCapture(stream, &graph), "capture"));
      GraphExecHandle exec = nullptr;
      need(driver.check(driver.graphInstantiate(&exec, graph, 0), "graph"));
      std::vector<double> times;
      for (unsigned launch = 0; launch <= kLaunches; ++launch) {
        meeting.arrive_and_wait();
        // The first one ends when both have come.
        need(work(i));
        need(rank.start.record(stream, "time"));
        need(driver.check(driver.graphLaunch(exec, stream), "launch"));
        need(rank.end.record(stream, "time"));
        need(rank.stream.wait("time"));
        times.push_back(got(CudaEvent::secondsBetween(rank.start, rank.end)) / rounds);
      }
      times.erase(times.begin());
      std::ranges::sort(times);
      medians[i] = times[kLaunches / 2];
      driver.graphExecDestroy(exec);
      driver.graphDestroy(graph);
    });
    for (size_t i = 0; i < kRanks; ++i) {
      need(group->takeFailure(i));
    }
    return *std::ranges::max_element(medians);
  }

  std::vector<std::unique_ptr<Rank>> ranks;
  std::shared_ptr<CudaGroup> group;
};

CollectiveCall callOf(Rank &rank, int64_t bytes) {
  return {.type = DType::BF16, .from = rank.from.data(), .to = rank.to.data(), .count = bytes / 2};
}

Work allReduce(Pair &pair, CollectiveWay way, int64_t bytes, bool mayStartEarly = true) {
  return [&pair, way, bytes, mayStartEarly](size_t i) {
    Rank &rank = *pair.ranks[i];
    CollectiveCall call = callOf(rank, bytes);
    std::string name = kernelFor(way, call.kind, call.type, kRanks);
    return pair.group->start(i, way, name.empty() ? nullptr : rank.kernel(name), call,
                             rank.stream.handle(), mayStartEarly);
  };
}

Work fused(Pair &pair, int64_t bytes, int64_t width) {
  return [&pair, bytes, width](size_t i) {
    Rank &rank = *pair.ranks[i];
    int64_t rows = bytes / 2 / width;
    void *buffers[] = {rank.from.data(), rank.residual.data(), rank.weight.data(),
                       rank.hidden.data(), rank.to.data()};
    int64_t threads = std::min<int64_t>(width / 8, 256); // as codegen's threadsOf
    int64_t blocks = rows * (width / 8 / threads);       // and its blocksOfRow
    return pair.group->startKernel(i, rank.kernel(strCat("tenon_all_reduce_norm_bf16_2_", width)),
                                   buffers, blocks, unsigned(std::min<int64_t>(blocks, 128)),
                                   unsigned(threads), rank.stream.handle(), true);
  };
}

struct Checker {
  Pair &pair;
  int64_t bytes;
  Halves sums;
  std::vector<Halves> summands;

  Checker(Pair &both, int64_t size) : pair(both), bytes(size), sums(size_t(size) / 2) {
    for (size_t i = 0; i < kRanks; ++i) {
      summands.push_back(seeded(size / 2, uint64_t(size) + i));
      pair.ranks[i]->upload(pair.ranks[i]->from, summands[i]);
    }
    for (size_t k = 0; k < sums.size(); ++k) {
      sums[k] = narrow(wide(summands[0][k]) + wide(summands[1][k]));
    }
  }
  void poison() {
    for (size_t i = 0; i < kRanks; ++i) {
      Rank &rank = *pair.ranks[i];
      const CudaDriver &driver = rank.device->driver();
      need(driver.check(
          driver.memsetD8Async(rank.to.pointer(), 0xff, size_t(bytes), rank.stream.handle()),
          "poison"));
      need(rank.stream.wait("poison"));
    }
  }
  /// Elements with other bits than the host's.
  size_t wrong(const Work &work) {
    poison();
    pair.run(work);
    size_t different = 0;
    for (size_t i = 0; i < kRanks; ++i) {
      Halves result = pair.ranks[i]->download(pair.ranks[i]->to, sums.size());
      for (size_t k = 0; k < sums.size(); ++k) {
        different += result[k] != sums[k];
      }
    }
    return different;
  }
  /// Largest error of the norm, which is to be below 2^-7 of values near 1; infinite where residual
  /// and sum have other bits.
  double normError(int64_t width) {
    size_t columns = static_cast<size_t>(width);
    Halves residual = seeded(bytes / 2, 7), weight = seeded(width, 8);
    for (size_t i = 0; i < kRanks; ++i) {
      pair.ranks[i]->upload(pair.ranks[i]->residual, residual);
      pair.ranks[i]->upload(pair.ranks[i]->weight, weight);
    }
    poison();
    pair.run(fused(pair, bytes, width));
    double error = 0;
    for (size_t i = 0; i < kRanks; ++i) {
      Halves hidden = pair.ranks[i]->download(pair.ranks[i]->hidden, sums.size());
      Halves norm = pair.ranks[i]->download(pair.ranks[i]->to, sums.size());
      for (size_t row = 0; row < sums.size() / columns; ++row) {
        double squares = 0;
        for (size_t k = 0; k < columns; ++k) {
          float x = wide(narrow(wide(residual[row * columns + k]) + wide(sums[row * columns + k])));
          error = wide(hidden[row * columns + k]) == x ? error : INFINITY;
          squares += double(x) * x;
        }
        double scale = 1 / std::sqrt(squares / double(width) + 1e-5);
        for (size_t k = 0; k < columns; ++k) {
          double x = wide(hidden[row * columns + k]) * scale * wide(weight[k]);
          double difference = std::abs(wide(norm[row * columns + k]) - x);
          error = difference <= error ? error : std::isnan(difference) ? INFINITY : difference;
        }
      }
    }
    return error;
  }
};

int64_t widthFor(int64_t bytes) {
  return bytes >= 16384 ? 8192 : bytes >= 8192 ? 4096 : bytes >= 4096 ? 2048 : 512;
}

int64_t check(Pair &pair) {
  int64_t faults = 0;
  std::vector<int64_t> sizes = {16, 1008, 12304, 262144 + 16, (5 << 20) + 48, (37 << 20) + 16};
  for (int64_t bytes = 1024; bytes <= kLongestChecked; bytes *= 4) {
    sizes.push_back(bytes);
  }
  for (int64_t bytes : sizes) {
    Checker checker(pair, bytes);
    for (int again = 0; again < 3; ++again) {
      size_t one = bytes <= engine::kOneShotBytes
                       ? checker.wrong(allReduce(pair, CollectiveWay::OneShot, bytes))
                       : 0;
      size_t two = checker.wrong(allReduce(pair, CollectiveWay::TwoShot, bytes));
      size_t nccl = checker.wrong(allReduce(pair, CollectiveWay::Library, bytes));
      faults += int64_t(one + two + nccl);
      if (one + two + nccl != 0 || again == 0) {
        std::printf("bits %lld bytes: wrong one-shot %zu, two-shot %zu, NCCL %zu\n",
                    static_cast<long long>(bytes), one, two, nccl);
      }
    }
    int64_t width = widthFor(bytes);
    if (bytes % (2 * width) == 0 && bytes <= engine::kOneShotBytes) {
      double error = checker.normError(width);
      faults += error > 0x1p-7;
      std::printf("norm %lld bytes, rows of %lld: error %g\n", static_cast<long long>(bytes),
                  static_cast<long long>(width), error);
    }
  }
  return faults;
}

void time(Pair &pair) {
  std::printf("us: bytes one-shot one-shot-late two-shot fused(width) NCCL\n");
  for (int64_t bytes = 1024; bytes <= kLongest; bytes *= bytes < (1 << 20) ? 2 : 4) {
    unsigned rounds = bytes <= (1 << 20) ? 200 : bytes <= (16 << 20) ? 40 : 5;
    std::printf("%lld", static_cast<long long>(bytes));
    auto print = [&](bool is, const Work &work) {
      if (is) {
        std::printf(" %.2f", pair.seconds(rounds, work) * 1e6);
      } else {
        std::printf(" -");
      }
    };
    bool isShort = bytes <= engine::kOneShotBytes;
    print(isShort, allReduce(pair, CollectiveWay::OneShot, bytes));
    print(isShort, allReduce(pair, CollectiveWay::OneShot, bytes, false));
    print(true, allReduce(pair, CollectiveWay::TwoShot, bytes));
    print(isShort, fused(pair, bytes, widthFor(bytes)));
    std::printf("(%lld)", static_cast<long long>(widthFor(bytes)));
    print(true, allReduce(pair, CollectiveWay::Library, bytes));
    std::printf("\n");
    std::fflush(stdout);
  }
}

/// The first rank alone: how long until it gives up, and what it says. Last, as the group is of no
/// use behind it.
int64_t waitInVain(Pair &pair) {
  Rank &rank = *pair.ranks[0];
  ContextScope scope(*rank.device);
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  for (CollectiveWay way :
       {CollectiveWay::OneShot, CollectiveWay::TwoShot, CollectiveWay::OneShot}) {
    need(allReduce(pair, way, 16384)(0));
  }
  need(rank.stream.wait("a collective"));
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  Status status = pair.group->takeFailure(0);
  std::printf("alone: %.2f s, %s\n", seconds.count(), status.toString().c_str());
  return status.isOk() || seconds.count() > 10;
}

int run(int count, char **arguments) {
  std::string folder;
  if (count == 4 && std::strcmp(arguments[2], "--folder") == 0) {
    folder = arguments[3];
  } else if (count != 2) {
    std::fprintf(stderr, "usage: collective_check PTX [--folder DIR]\n");
    return 2;
  }
  std::ifstream file(arguments[1], std::ios::binary);
  std::string ptx((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Pair pair(ptx);
  std::printf("%s\n", pair.ranks[0]->device->info().name.c_str());
  need(pair.group->peerProblem());
  need(pair.group->openLibrary(folder));
  int64_t faults = check(pair);
  std::fflush(stdout);
  time(pair);
  faults += waitInVain(pair);
  std::printf("%lld faults\n", static_cast<long long>(faults));
  return faults != 0;
}

} // namespace
} // namespace tenon::gpu

int main(int count, char **arguments) { return tenon::gpu::run(count, arguments); }
