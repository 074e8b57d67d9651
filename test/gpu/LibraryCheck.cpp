// library_check: on a machine with an NVIDIA GPU, runs library calls of many shapes and types
// against the host, then times those of known models with cold weights. Prints one line a case and
// exits with 1 if a result is wrong. Arguments: [--folder DIR] [--no-times].

#include "GraphTimer.h"
#include "HostCall.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tenon::gpu {
namespace {

using engine::LibraryActivation;
using library::HostBuffer;
using library::Plan;

/// Largest difference allowed, relative to the largest element of the result.
double toleranceOf(DType type, bool allowTf32) {
  switch (type) {
  case DType::F64:
    return 1e-13;
  case DType::F16:
    return 2e-3;
  case DType::BF16:
    return 1.6e-2;
  default:
    return allowTf32 ? 2e-3 : 4e-6;
  }
}

/// Cold enough: more than twice the second-level cache of the largest part.
constexpr size_t kColdBytes = 160 << 20;
constexpr unsigned kMostRounds = 64;

class Checker {
public:
  Checker(GraphTimer &timer, const library::Options &options)
      : timer(timer), options(options), handles(library::makeHandles(options)),
        later(library::makeHandles(options)) {}

  template <typename Call>
  void check(const char *name, const Call &call, const std::vector<int64_t> &sizes) {
    report(name, nameOf(call.type), compare(call, sizes));
    timer.release();
  }

  template <typename Call>
  void time(const char *name, const Call &call, const std::vector<int64_t> &sizes, double work) {
    Status status = measure(name, call, sizes, work);
    if (!status) {
      report(name, nameOf(call.type), status);
    }
    timer.release();
  }

  int failures() const { return failed; }

private:
  void report(const char *name, std::string_view type, Status status) {
    if (status) {
      return;
    }
    ++failed;
    std::printf("FAIL %-28s %-4.*s %s\n", name, static_cast<int>(type.size()), type.data(),
                status.toString().c_str());
  }

  template <typename Call> Status compare(const Call &call, const std::vector<int64_t> &sizes);
  template <typename Call>
  Status compareOnce(const Call &call, Plan &plan, std::span<void *const> pointers,
                     const HostBuffer &wanted);
  template <typename Call>
  Status measure(const char *name, const Call &call, const std::vector<int64_t> &sizes,
                 double work);
  template <typename Call>
  Result<double> secondsOf(const Call &call, const std::vector<int64_t> &sizes,
                           library::Handles &with, std::string &choice);

  GraphTimer &timer;
  library::Options options;
  std::unique_ptr<library::Handles> handles;
  std::unique_ptr<library::Handles> later; ///< finds what `handles` kept
  int failed = 0;
};

template <typename Call>
Status Checker::compare(const Call &call, const std::vector<int64_t> &sizes) {
  std::vector<HostBuffer> buffers;
  std::vector<void *> pointers;
  uint64_t seed = 7;
  for (size_t elements : library::bufferElements(call, sizes)) {
    HostBuffer values(elements);
    for (double &value : values) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<double>(seed >> 40) / (1 << 23) - 1;
    }
    std::vector<std::byte> bytes = library::encode(call.type, values);
    TENON_ASSIGN(void *memory, timer.allocate(bytes.size()));
    TENON_TRY(timer.upload(memory, bytes));
    pointers.push_back(memory);
    buffers.push_back(library::decode(call.type, bytes));
  }
  library::runOnHost(call, sizes, buffers);
  for (library::Handles *with : {handles.get(), later.get()}) {
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    TENON_ASSIGN(std::unique_ptr<Plan> plan, with->prepare(library::bytesOf(call), sizes));
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("  prepared in %7.2f ms", seconds.count() * 1e3);
    TENON_TRY(compareOnce(call, *plan, pointers, buffers.back()));
  }
  return Status::ok();
}

template <typename Call>
Status Checker::compareOnce(const Call &call, Plan &plan, std::span<void *const> pointers,
                            const HostBuffer &wanted) {
  TENON_ASSIGN(void *workspace, timer.allocate(plan.workspaceBytes()));
  TENON_TRY(plan.run(pointers, workspace, timer.stream()));
  std::vector<std::byte> bytes(wanted.size() * bitWidth(call.type) / 8);
  TENON_TRY(timer.download(bytes, pointers.back()));
  HostBuffer got = library::decode(call.type, bytes);
  double largest = 0;
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(wanted[i]));
    double difference = std::fabs(got[i] - wanted[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  error /= std::max(largest, 1e-30);
  std::printf("  error %.2e  workspace %8zu  %s\n", error, plan.workspaceBytes(),
              plan.describe().c_str());
  if (!(error <= toleranceOf(call.type, call.allowTf32))) {
    return Status::error(ErrorId::VerifyFailed, "the result is wrong");
  }
  return Status::ok();
}

template <typename Call>
Result<double> Checker::secondsOf(const Call &call, const std::vector<int64_t> &sizes,
                                  library::Handles &with, std::string &choice) {
  TENON_ASSIGN(std::unique_ptr<Plan> plan, with.prepare(library::bytesOf(call), sizes));
  choice = plan->describe();
  std::vector<size_t> elements = library::bufferElements(call, sizes);
  size_t width = bitWidth(call.type) / 8;
  size_t weightBytes = (elements[1] * width + 255) / 256 * 256;
  unsigned rounds =
      static_cast<unsigned>(std::min<size_t>(kColdBytes / weightBytes + 1, kMostRounds));
  TENON_ASSIGN(void *weights, timer.allocate(weightBytes * rounds));
  TENON_ASSIGN(void *workspace, timer.allocate(plan->workspaceBytes()));
  std::vector<void *> pointers;
  for (size_t count : elements) {
    TENON_ASSIGN(void *memory, timer.allocate(count * width));
    pointers.push_back(memory);
  }
  return timer.seconds(rounds, [&](void *stream, unsigned round) {
    pointers[1] = static_cast<char *>(weights) + round * weightBytes;
    return plan->run(pointers, workspace, stream);
  });
}

template <typename Call>
Status Checker::measure(const char *name, const Call &call, const std::vector<int64_t> &sizes,
                        double work) {
  std::string first;
  TENON_ASSIGN(double seconds, secondsOf(call, sizes, *handles, first));
  timer.release();
  library::Options measured = options;
  measured.meter = &timer;
  std::unique_ptr<library::Handles> measuring = library::makeHandles(measured);
  std::string best;
  TENON_ASSIGN(double bestSeconds, secondsOf(call, sizes, *measuring, best));
  std::printf("%-34s %-4.*s %9.2f us %7.1f TF/s, measured %9.2f us\n    %s\n    %s\n", name,
              static_cast<int>(nameOf(call.type).size()), nameOf(call.type).data(), seconds * 1e6,
              work / seconds / 1e12, bestSeconds * 1e6, first.c_str(), best.c_str());
  return Status::ok();
}

std::vector<int64_t> matmulSizes(const engine::MatmulCall &call, int64_t m, int64_t n, int64_t k,
                                 int64_t batch = 1) {
  return {m, n, k, batch, call.transposeA ? m : k, call.transposeB ? k : n, n, m * k, k * n, m * n};
}

std::vector<int64_t> convSizes(const engine::ConvCall &call, std::vector<int64_t> sizes) {
  for (int i = 0; i < 2; ++i) {
    int64_t covered = call.dilations[i] * (sizes[5 + i] - 1) + 1;
    sizes.push_back((sizes[1 + i] + 2 * call.padBefore[i] - covered) / call.strides[i] + 1);
  }
  return sizes;
}

engine::ConvCall convOf(DType type, int32_t pad, int32_t stride, bool hasResidual) {
  engine::ConvCall call;
  call.type = type;
  call.hasBias = true;
  call.hasResidual = hasResidual;
  call.activation = LibraryActivation::Relu;
  for (int i = 0; i < 2; ++i) {
    call.padBefore[i] = call.padAfter[i] = pad;
    call.strides[i] = stride;
  }
  return call;
}

void checkMatmuls(Checker &checker) {
  for (DType type : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    for (int layout = 0; layout < 4; ++layout) {
      engine::MatmulCall call{
          .type = type, .transposeA = layout % 2 == 1, .transposeB = layout > 1};
      std::printf("matmul %.*s layout %d\n", static_cast<int>(nameOf(type).size()),
                  nameOf(type).data(), layout);
      checker.check("128x96x256", call, matmulSizes(call, 128, 96, 256));
      checker.check("odd 37x51x29, batch 3", call, matmulSizes(call, 37, 51, 29, 3));
      call.hasResidual = true;
      checker.check("residual", call, matmulSizes(call, 64, 72, 200));
    }
    std::printf("broadcast B, one row\n");
    engine::MatmulCall call{.type = type, .transposeB = true};
    std::vector<int64_t> sizes = matmulSizes(call, 16, 24, 40, 5);
    sizes[8] = 0;
    checker.check("batch stride 0", call, sizes);
    checker.check("one row", call, matmulSizes(call, 1, 1000, 512));
  }
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    for (LibraryActivation activation :
         {LibraryActivation::None, LibraryActivation::Relu, LibraryActivation::GeluTanh}) {
      for (int operands = 0; operands < 4; ++operands) {
        std::printf("epilogue %d of %.*s, operands %d\n", static_cast<int>(activation),
                    static_cast<int>(nameOf(type).size()), nameOf(type).data(), operands);
        engine::MatmulCall call{.type = type,
                                .hasBias = operands % 2 == 1,
                                .hasResidual = operands > 1,
                                .activation = activation};
        checker.check("epilogue", call, matmulSizes(call, 128, 768, 192));
        checker.check("epilogue, batch", call, matmulSizes(call, 33, 40, 24, 4));
      }
    }
  }
}

void checkConvs(Checker &checker) {
  struct Shape {
    const char *name;
    std::vector<int64_t> sizes;
    int32_t pad, stride, groups;
  };
  const Shape shapes[] = {{"3x3", {2, 14, 14, 64, 64, 3, 3}, 1, 1, 1},
                          {"1x1", {2, 14, 14, 64, 128, 1, 1}, 0, 1, 1},
                          {"1x1 stride 2", {1, 15, 13, 64, 32, 1, 1}, 0, 2, 1},
                          {"stem 7x7", {1, 56, 56, 3, 64, 7, 7}, 3, 2, 1},
                          {"patches 16x16", {1, 64, 64, 3, 96, 16, 16}, 0, 16, 1},
                          {"two groups", {1, 14, 14, 64, 64, 3, 3}, 1, 1, 2},
                          {"odd channels", {1, 9, 11, 5, 7, 3, 3}, 1, 1, 1}};
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    for (const Shape &shape : shapes) {
      for (bool hasResidual : {false, true}) {
        std::printf("conv %s %.*s%s\n", shape.name, static_cast<int>(nameOf(type).size()),
                    nameOf(type).data(), hasResidual ? " with residual" : "");
        engine::ConvCall call = convOf(type, shape.pad, shape.stride, hasResidual);
        call.groups = shape.groups;
        checker.check(shape.name, call, convSizes(call, shape.sizes));
      }
      engine::ConvCall call = convOf(type, shape.pad, shape.stride, false);
      call.groups = shape.groups;
      call.hasBias = false;
      call.activation = LibraryActivation::None;
      std::printf("conv %s %.*s alone\n", shape.name, static_cast<int>(nameOf(type).size()),
                  nameOf(type).data());
      checker.check(shape.name, call, convSizes(call, shape.sizes));
    }
  }
}

void timeMatmuls(Checker &checker) {
  struct Shape {
    const char *name;
    int64_t n, k;
    bool hasResidual;
    LibraryActivation activation;
  };
  const Shape shapes[] = {{"QKV + bias", 2304, 768, false, LibraryActivation::None},
                          {"output + bias + residual", 768, 768, true, LibraryActivation::None},
                          {"FFN1 + bias + gelu", 3072, 768, false, LibraryActivation::GeluTanh},
                          {"FFN1 + bias", 3072, 768, false, LibraryActivation::None},
                          {"FFN2 + bias + residual", 768, 3072, true, LibraryActivation::None}};
  for (int64_t m : {128, 4096}) {
    for (const Shape &shape : shapes) {
      engine::MatmulCall call{.type = DType::F16,
                              .hasBias = true,
                              .hasResidual = shape.hasResidual,
                              .activation = shape.activation};
      char name[64];
      std::snprintf(name, sizeof(name), "M=%d %s", static_cast<int>(m), shape.name);
      checker.time(name, call, matmulSizes(call, m, shape.n, shape.k),
                   2.0 * static_cast<double>(m * shape.n * shape.k));
    }
  }
  engine::MatmulCall gemv{.type = DType::BF16, .transposeB = true};
  checker.time("M=1 2048 -> 8192", gemv, matmulSizes(gemv, 1, 8192, 2048), 2.0 * 8192 * 2048);
  engine::MatmulCall square{.type = DType::BF16};
  checker.time("8192 cubed", square, matmulSizes(square, 8192, 8192, 8192),
               2.0 * 8192 * 8192 * 8192);
}

void timeConvs(Checker &checker) {
  struct Shape {
    const char *name;
    int64_t side, in, out, window;
    int32_t pad, stride;
  };
  const Shape shapes[] = {
      {"stem 7x7/2", 224, 3, 64, 7, 3, 2},         {"stem 7x7/2, 4 channels", 224, 4, 64, 7, 3, 2},
      {"56 3x3 64", 56, 64, 64, 3, 1, 1},          {"56 1x1 64-256", 56, 64, 256, 1, 0, 1},
      {"28 3x3 128", 28, 128, 128, 3, 1, 1},       {"14 3x3 256", 14, 256, 256, 3, 1, 1},
      {"14 1x1 1024-256", 14, 1024, 256, 1, 0, 1}, {"7 3x3 512", 7, 512, 512, 3, 1, 1},
      {"7 1x1 512-2048", 7, 512, 2048, 1, 0, 1}};
  for (int64_t batch : {1, 64}) {
    for (const Shape &shape : shapes) {
      engine::ConvCall call = convOf(DType::F16, shape.pad, shape.stride, shape.out > shape.in * 2);
      std::vector<int64_t> sizes = convSizes(
          call, {batch, shape.side, shape.side, shape.in, shape.out, shape.window, shape.window});
      char name[64];
      std::snprintf(name, sizeof(name), "b%d %s", static_cast<int>(batch), shape.name);
      checker.time(name, call, sizes,
                   2.0 * static_cast<double>(batch * sizes[7] * sizes[8] * shape.out *
                                             shape.window * shape.window * shape.in));
    }
  }
}

int run(int count, char **arguments) {
  library::Options options;
  bool hasTimes = true;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--folder") == 0 && i + 1 < count) {
      options.folder = arguments[++i];
    } else if (std::strcmp(arguments[i], "--no-times") == 0) {
      hasTimes = false;
    } else {
      std::fprintf(stderr, "usage: library_check [--folder DIR] [--no-times]\n");
      return 2;
    }
  }
  Result<std::unique_ptr<GraphTimer>> timer = GraphTimer::open();
  if (!timer) {
    std::fprintf(stderr, "%s\n", timer.status().toString().c_str());
    return 4;
  }
  std::printf("%s\n", (*timer)->facts().name.c_str());
  for (const library::FoundLibrary &found : library::findLibraries(options.folder)) {
    std::printf("%s %s %s%s\n", found.name.c_str(), found.version.c_str(), found.path.c_str(),
                found.problem.c_str());
  }
  char cache[] = "/tmp/library_check.XXXXXX";
  options.cacheFolder = mkdtemp(cache) ? cache : "";
  options.device = (*timer)->facts().name;
  Checker checker(**timer, options);
  checkMatmuls(checker);
  checkConvs(checker);
  if (hasTimes) {
    timeMatmuls(checker);
    timeConvs(checker);
  }
  std::error_code ignored;
  std::filesystem::remove_all(options.cacheFolder, ignored);
  std::printf("%d wrong or refused\n", checker.failures());
  return checker.failures() ? 1 : 0;
}

} // namespace
} // namespace tenon::gpu

int main(int count, char **arguments) { return tenon::gpu::run(count, arguments); }
