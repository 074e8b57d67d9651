// Direct convolutions on the emulated GPU: groups of any widths, windows, strides, dilations,
// epilogues, bytes, sizes that vary, all tiles.
#include "compiler/codegen/cuda/conv/DirectConv.h"
#include "test/unit/codegen/cuda/ConvText.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "compiler/codegen/cuda/KernelFamily.h"

namespace tenon::codegen::cuda {
namespace {

const Emitter emitDirectly = byFamily({"conv_direct"});

void expectDirect(const ConvCase &c) {
  std::string text = convText(c);
  EXPECT_TRUE(matchesReference(text, emitDirectly, {}, 1)) << text;
}

/// Groups of so many input and output channels each.
ConvCase grouped(int64_t groups, int64_t channels, int64_t columns) {
  return {.in = {9, 10},
          .channels = groups * channels,
          .outChannels = groups * columns,
          .groups = groups,
          .taps = {3, 3},
          .pads = {1, 1, 1, 1},
          .epilogue = "bias relu"};
}

TEST(CudaDirectConvTest, Groups) {
  for (int64_t width : {1, 2, 3, 4, 8, 12, 16, 24, 40, 48, 64, 112}) {
    expectDirect(grouped(width < 8 ? 8 : 2, width, width));
  }
  expectDirect(grouped(8, 4, 2));
  expectDirect(grouped(4, 8, 2));
  expectDirect(grouped(2, 8, 72));
  expectDirect(grouped(1, 8, 64));
}

TEST(CudaDirectConvTest, Windows) {
  for (int64_t width : {4, 16, 24}) {
    ConvCase c = grouped(4, width, width);
    c.strides = {2, 2};
    expectDirect(c);
    c.strides = {2, 3};
    c.taps = {5, 4};
    c.pads = {2, 1, 1, 3};
    expectDirect(c);
    c.strides = {1, 1};
    c.taps = {2, 3};
    c.dilations = {2, 3};
    expectDirect(c);
    c = grouped(4, width, width);
    c.taps = {1, 1};
    c.pads = {0, 0, 0, 0};
    c.epilogue = "residual silu";
    expectDirect(c);
  }
}

} // namespace
} // namespace tenon::codegen::cuda
