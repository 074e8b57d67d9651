// library_check: on a machine with an NVIDIA GPU, runs library calls of many shapes and types
// against the host, then times those of known models with cold weights. Prints one line a case and
// exits with 1 if a result is wrong. Arguments: [--folder DIR] [--no-times].

#include "LibraryChecker.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tenon::gpu {
namespace {

using engine::LibraryActivation;

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

struct AttentionShape {
  int64_t batch, heads, keyHeads, queries, keys, width;
};

/// Q, K and V as [batch, row, head, column]; the mask, if there is one, is of each sequence's keys.
std::vector<int64_t> attentionSizes(const engine::AttentionCall &call, const AttentionShape &s) {
  std::vector<int64_t> sizes = {s.batch, s.heads, s.keyHeads, s.queries, s.keys, s.width, s.width};
  auto append = [&](int64_t rows, int64_t heads) {
    sizes.insert(sizes.end(), {rows * heads * s.width, s.width, heads * s.width});
  };
  append(s.queries, s.heads);
  append(s.keys, s.keyHeads);
  append(s.keys, s.keyHeads);
  append(s.queries, s.heads);
  sizes.insert(sizes.end(), {call.hasMask ? s.keys : 0, 0, 0, 0, 0, 0});
  return sizes;
}

void checkAttention(Checker &checker) {
  const AttentionShape shapes[] = {{2, 4, 4, 64, 64, 64},
                                   {2, 4, 2, 40, 72, 64},
                                   {1, 8, 1, 128, 200, 128},
                                   {3, 2, 2, 17, 24, 32}};
  for (DType type : {DType::F16, DType::BF16}) {
    for (const AttentionShape &shape : shapes) {
      for (bool hasMask : {false, true}) {
        engine::AttentionCall call{.type = type, .hasMask = hasMask, .scale = 0.2f};
        std::printf("attention %d keys%s\n", static_cast<int>(shape.keys),
                    hasMask ? " with mask" : "");
        checker.check("attention", call, attentionSizes(call, shape));
      }
    }
  }
}

void timeAttention(Checker &checker) {
  for (const AttentionShape &s : {AttentionShape{64, 16, 16, 384, 384, 64},
                                  {64, 12, 12, 197, 197, 64},
                                  {4, 16, 16, 4096, 4096, 128}}) {
    for (bool hasMask : {false, true}) {
      engine::AttentionCall call{.hasMask = hasMask, .scale = 0.125f};
      char name[64];
      std::snprintf(name, sizeof(name), "attention b%d s%d d%d%s", static_cast<int>(s.batch),
                    static_cast<int>(s.keys), static_cast<int>(s.width), hasMask ? " mask" : "");
      checker.time(name, call, attentionSizes(call, s),
                   4.0 * static_cast<double>(s.batch * s.heads * s.queries * s.keys * s.width));
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
  for (int64_t m : {128, 4096, 12608}) {
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
  std::printf("%s\n", (*timer)->info().name.c_str());
  for (const library::FoundLibrary &found : library::findLibraries(options.folder)) {
    std::printf("%s %s %s%s\n", found.name.c_str(), found.version.c_str(), found.path.c_str(),
                found.problem.c_str());
  }
  char cache[] = "/tmp/library_check.XXXXXX";
  options.cacheFolder = mkdtemp(cache) ? cache : "";
  options.device = (*timer)->info().name;
  Checker checker(**timer, options);
  checkMatmuls(checker);
  checkConvs(checker);
  checkAttention(checker);
  if (hasTimes) {
    timeAttention(checker);
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
