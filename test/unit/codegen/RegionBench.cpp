// Prints the rate of whole regions on one thread against the FMA peak of the same round, and what
// compiling each took. Data is in cache as far as it fits; nothing is checked here.
#include "engine/KernelAbi.h"
#include "test/unit/codegen/LoadedCode.h"
#include "test/unit/codegen/PackedText.h"
#include "test/unit/codegen/SelectedText.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

using namespace tenon;
using namespace tenon::codegen::cpu;

namespace {

struct Case {
  std::string name;
  std::string signature, body, strategy = "contraction";
  /// Elements of each buffer, in the order of the ABI.
  std::vector<int64_t> buffers;
  double flops;
};

std::string tensor(std::initializer_list<int64_t> dims) {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + "f32>";
}

Case matmul(int64_t m, int64_t k, int64_t n, const std::string &activation) {
  std::string a = tensor({m, k}), y = tensor({m, n}), c = tensor({n});
  tenon::codegen::PackedText b = tenon::codegen::panelsText({k, n}, 1, 32);
  std::string p = b.type;
  std::string body = llvm::formatv("{0}%y = tn.matmul %a, %b : ({1}, {2}) -> {3}\n"
                                   "%1 = tn.add %y, %c : ({3}, {4}) -> {3}\n",
                                   b.unpack("%p", "%b"), a, b.weight, y, c);
  body += activation.empty() ? "return %1 : " + y
                             : "%2 = tn." + activation + " %1 : " + y + "\nreturn %2 : " + y;
  return {llvm::formatv("matmul {0} x {1} x {2} {3}", m, k, n, activation),
          "(%a: " + a + ", %p: " + p + ", %c: " + c + ") -> " + y,
          body,
          "contraction",
          {m * k, (n + 31) / 32 * 32 * k, n, m * n},
          2.0 * m * n * k};
}

Case conv(int64_t size, int64_t channels, int64_t outChannels, int64_t kernel, int64_t stride,
          int64_t winograd = 0) {
  int64_t pad = kernel / 2, out = (size + 2 * pad - kernel) / stride + 1;
  std::string x = tensor({1, size, size, channels}), y = tensor({1, out, out, outChannels});
  std::string w = tensor({outChannels, channels, kernel, kernel}), b = tensor({outChannels});
  int64_t depth = kernel * kernel * channels, panels = (outChannels + 31) / 32;
  double flops = 2.0 * out * out * outChannels * depth;
  depth = winograd ? (winograd + 2) * (winograd + 2) * channels : depth;
  int64_t side = winograd ? winograd + 2 : kernel;
  tenon::codegen::PackedText packed =
      tenon::codegen::outputPanelsText({outChannels, channels, side, side}, 32);
  std::string taps =
      winograd ? llvm::formatv("%w = tn.winograd_taps %f {{m = {0} : i64} : ({1}) -> {2}\n",
                               winograd, packed.weight, w)
                     .str()
               : "";
  std::string body = llvm::formatv(
      "{0}{7}"
      "%y = tn.conv %x, %w bias %b {{strides = array<i64: {2}, {2}>, pads = array<i64: {3}, {3}, "
      "{3}, "
      "{3}>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : ({4}, {1}, "
      "{5}) -> {6}\n%1 = tn.relu %y : {6}\nreturn %1 : {6}",
      packed.unpack("%p", winograd ? "%f" : "%w"), w, stride, pad, x, b, y, taps);
  return {llvm::formatv("conv {0} x {0} x {1} -> {2}, {3} x {3} / {4}, F({5})", size, channels,
                        outChannels, kernel, stride, winograd),
          "(%x: " + x + ", %p: " + packed.type + ", %b: " + b + ") -> " + y,
          body,
          "contraction",
          {size * size * channels, panels * depth * 32, outChannels, out * out * outChannels},
          flops};
}

Case attention(int64_t length, int64_t heads, int64_t width, bool causal) {
  std::string t = tensor({1, length, heads, width});
  int64_t elements = length * heads * width;
  return {
      llvm::formatv("attention {0} x {1} x {2}{3}", length, heads, width, causal ? " causal" : ""),
      "(%q: " + t + ", %k: " + t + ", %v: " + t + ") -> " + t,
      llvm::formatv(
          "%0 = tn.attention %q, %k, %v {{scale = 0.125 : f64, causal = {0}, headsInner = "
          "array<i1: true, true, true, true>} : ({1}, {1}, {1}) -> {1}\nreturn %0 : {1}",
          causal ? "true" : "false", t),
      "attention",
      {elements, elements, elements, elements},
      4.0 * length * length * heads * width * (causal ? 0.5 : 1)};
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// GF/s of independent chains of FMAs of the widest register, compiled like the regions themselves.
__attribute__((target("avx2,fma"))) double peak() {
  using Vector = float __attribute__((vector_size(32)));
  Vector sums[12] = {}, x = {};
  double start = seconds();
  constexpr int64_t kSteps = 1'000'000;
  for (int64_t i = 0; i < kSteps; ++i) {
    for (Vector &sum : sums) {
      asm volatile("vfmadd231ps %1, %1, %0" : "+x"(sum) : "x"(x));
    }
  }
  return kSteps * 12 * 16 / (seconds() - start) * 1e-9;
}

void measure(const Case &c, engine::CpuLevel level) {
  std::string text = "module {\n  func.func @kernel" + c.signature +
                     " attributes {tn.strategy = \"" + c.strategy + "\"} {\n" + c.body +
                     "\n  }\n}\n";
  double start = seconds();
  llvm::Expected<Kernel> kernel = compileRegion(codegen::selectedForCpu(text), "bench", level);
  double compiled = seconds() - start;
  if (!kernel) {
    printf("%s: %s\n", c.name.c_str(), llvm::toString(kernel.takeError()).c_str());
    return;
  }
  LoadedCode code(level, {kernel->object}, {"bench"});
  std::vector<void *> buffers;
  for (int64_t size : c.buffers) {
    float *buffer = static_cast<float *>(aligned_alloc(64, (size * 4 + 63) / 64 * 64));
    std::fill_n(buffer, size, 0.01f);
    buffers.push_back(buffer);
  }
  int64_t grid = *engine::evaluate(kernel->grid, {});
  uint64_t scratchBytes = *engine::evaluate(kernel->scratch, {});
  void *scratch = aligned_alloc(64, (scratchBytes + 127) / 64 * 64);
  TenonKernelContext context{TENON_KERNEL_ABI, 0, scratch, scratchBytes, nullptr, 0};
  auto *run = code.function<std::remove_pointer_t<TenonKernelFn>>("bench");
  double best = 0, top = 0;
  int calls = static_cast<int>(3e8 / c.flops) + 1;
  for (int round = 0; round < 7; ++round) {
    top = std::max(top, peak());
    start = seconds();
    for (int i = 0; i < calls; ++i) {
      run(&context, buffers.data(), nullptr, 0, grid);
    }
    best = std::max(best, calls * c.flops / (seconds() - start) * 1e-9);
  }
  printf(
      "%-36s %6.1f GF/s %5.1f %% of peak, %7.1f us, grid %3ld, compiled in %5.1f ms, object %zu\n",
      c.name.c_str(), best, 100 * best / top, c.flops / best * 1e-3, long(grid), compiled * 1e3,
      kernel->object.size());
  for (void *buffer : buffers) {
    free(buffer);
  }
  free(scratch);
}

} // namespace

int main(int argc, char **argv) {
  std::string only = argc > 1 ? argv[1] : "";
  for (engine::CpuLevel level : machineLevels()) {
    printf("%s\n", std::string(nameOf(level)).c_str());
    for (const Case &c : {matmul(128, 768, 768, ""),     matmul(128, 768, 3072, "gelu"),
                          matmul(128, 3072, 768, ""),    matmul(197, 768, 2304, ""),
                          matmul(1, 2048, 1000, ""),     conv(224, 3, 64, 7, 2),
                          conv(56, 64, 64, 3, 1),        conv(56, 64, 256, 1, 1),
                          conv(56, 256, 64, 1, 1),       conv(28, 128, 128, 3, 1),
                          conv(28, 512, 128, 1, 1),      conv(28, 512, 1024, 1, 2),
                          conv(14, 256, 256, 3, 1),      conv(14, 1024, 256, 1, 1),
                          conv(14, 256, 1024, 1, 1),     conv(7, 512, 512, 3, 1),
                          conv(7, 512, 2048, 1, 1),      conv(7, 2048, 512, 1, 1),
                          conv(112, 32, 16, 1, 1),       conv(112, 16, 96, 1, 1),
                          conv(56, 144, 24, 1, 1),       conv(56, 24, 144, 1, 1),
                          conv(28, 32, 192, 1, 1),       conv(14, 96, 576, 1, 1),
                          conv(14, 576, 96, 1, 1),       conv(7, 960, 160, 1, 1),
                          conv(7, 320, 1280, 1, 1),      attention(128, 12, 64, false),
                          attention(197, 12, 64, false), attention(512, 12, 64, false),
                          attention(512, 12, 64, true),  conv(56, 64, 64, 3, 1, 2),
                          conv(56, 64, 64, 3, 1, 4),     conv(28, 128, 128, 3, 1, 2),
                          conv(28, 128, 128, 3, 1, 4),   conv(14, 256, 256, 3, 1, 2),
                          conv(14, 256, 256, 3, 1, 4),   conv(7, 512, 512, 3, 1, 2),
                          conv(7, 512, 512, 3, 1, 4),    conv(112, 32, 32, 3, 1, 4),
                          conv(56, 16, 16, 3, 1, 2)}) {
      if (c.name.find(only) != std::string::npos) {
        measure(c, level);
      }
    }
  }
  return 0;
}
