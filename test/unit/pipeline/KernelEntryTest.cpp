// Kernels as cache entries: back as they were, and no truncation taken for a kernel.
#include "compiler/pipeline/KernelEntry.h"

#include <gtest/gtest.h>

using tenon::codegen::cpu::Kernel;
using tenon::engine::ExprOp;
using namespace tenon::pipeline;

namespace {

TEST(KernelEntryTest, ComesBackAndRefusesEveryTruncation) {
  Kernel kernel;
  kernel.symbol = "k_1";
  kernel.object = std::string("\x7f"
                              "ELF\0bytes",
                              10);
  kernel.grid = {{ExprOp::Symbol, 0}, {ExprOp::Constant, 4}, {ExprOp::CeilDiv}};
  kernel.scratch = {{ExprOp::Constant, 64}};
  std::string bytes = encodeKernel(kernel);
  std::optional<Kernel> back = decodeKernel(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->symbol, kernel.symbol);
  EXPECT_EQ(back->object, kernel.object);
  EXPECT_EQ(back->grid, kernel.grid);
  EXPECT_EQ(back->scratch, kernel.scratch);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decodeKernel(bytes.substr(0, length))) << length;
  }
  EXPECT_FALSE(decodeKernel(bytes + "x"));
}

} // namespace
