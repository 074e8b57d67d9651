// PTX of a user as the engine takes it: from nvcc and Triton, assembled by ptxas where there is
// one.
#include "compiler/codegen/cuda/library/UserPtx.h"

#include "compiler/codegen/cuda/CudaCodegen.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tenon::codegen::cuda {
namespace {

std::string fileOf(const std::string &name) {
  auto file = llvm::MemoryBuffer::getFile(std::string(TENON_SOURCE_DIR) + "/" + name);
  EXPECT_TRUE(static_cast<bool>(file)) << name;
  return file ? (*file)->getBuffer().str() : "";
}

UserPtx ptxOfFile(const std::string &name) {
  llvm::Expected<UserPtx> ptx = UserPtx::parse(fileOf(name));
  EXPECT_TRUE(static_cast<bool>(ptx)) << llvm::toString(ptx.takeError());
  return std::move(*ptx);
}

std::string refusalOf(const std::string &text) {
  llvm::Expected<UserPtx> ptx = UserPtx::parse(text);
  return ptx ? "" : llvm::toString(ptx.takeError());
}

const target::Target &sm90() { return target::targetOf("sm_90a"); }

std::string taken(const UserPtx &ptx, const PtxKernel &kernel) {
  llvm::Expected<std::string> code = ptx.take(kernel, sm90());
  EXPECT_TRUE(static_cast<bool>(code)) << llvm::toString(code.takeError());
  return code ? *code : "";
}

TEST(UserPtx, HasTheEntriesOfNvcc) {
  UserPtx ptx = ptxOfFile("examples/kernels/vector_add.ptx");
  ASSERT_EQ(ptx.entries().size(), 1u);
  const PtxEntry &entry = ptx.entries().front();
  EXPECT_EQ(entry.name, "vector_add");
  std::vector<uint64_t> bytes;
  for (const PtxParameter &parameter : entry.parameters) {
    bytes.push_back(parameter.bytes);
  }
  EXPECT_EQ(bytes, (std::vector<uint64_t>{8, 8, 8, 4, 4}));
  EXPECT_EQ(ptx.find("vectoradd"), nullptr);
  std::string code = taken(ptx, {"vector_add", "k_1", {0, 1, 2, 3, 4}, {256, 1, 1}});
  EXPECT_NE(code.find(".visible .entry k_1(\n  .param .u64 vector_add_param_0,"),
            std::string::npos);
  EXPECT_NE(code.find(".reqntid 256\n"), std::string::npos);
  EXPECT_TRUE(assembles(code, sm90()));
}

TEST(UserPtx, TakesTritonsWithItsParametersAtTheEnd) {
  UserPtx ptx = ptxOfFile("examples/kernels/vector_add_triton.ptx");
  const PtxEntry &entry = ptx.entries().front();
  EXPECT_EQ(entry.parameters.size(), 7u);
  EXPECT_EQ(entry.exactThreads, 128);
  std::string code = taken(ptx, {"vector_add", "k_1", {0, 1, 2, 3, 4, 5, 6}, {128, 1, 1}});
  EXPECT_TRUE(assembles(code, sm90()));
}

TEST(UserPtx, StartsBlocksAndGridsOfTwoDimensionsInOne) {
  UserPtx ptx = ptxOfFile("test/data/kernels/transpose.ptx");
  EXPECT_EQ(ptx.entries().front().sharedBytes, 32 * 33 * 4);
  std::string code = taken(ptx, {"transpose", "k_1", {0, 1, 2, 3}, {32, 8, 1}, 2});
  EXPECT_NE(code.find(".reqntid 256\n"), std::string::npos);
  EXPECT_EQ(code.find("%tid.y"), std::string::npos);
  EXPECT_EQ(code.find("%ctaid.y"), std::string::npos);
  EXPECT_TRUE(assembles(code, sm90()));
}

TEST(UserPtx, TakesOneKernelAndWhatItCallsUnderNamesOfItsOwn) {
  UserPtx ptx = ptxOfFile("test/data/kernels/reverse.ptx");
  ASSERT_EQ(ptx.entries().size(), 2u);
  EXPECT_EQ(ptx.entries().front().mostThreads, 256);
  std::string first = taken(ptx, {"reverse", "k_1", {0, 1, 2}, {256, 1, 1}});
  std::string second = taken(ptx, {"reverse", "k_2", {0, 1, 2}, {128, 1, 1}});
  EXPECT_EQ(first.find(" first("), std::string::npos);
  EXPECT_NE(first.find("k_1__Z6helperf"), std::string::npos);
  EXPECT_EQ(first.find(".loc"), std::string::npos);
  EXPECT_EQ(first.find(".section"), std::string::npos);
  llvm::Expected<std::string> both = linkPtx({first, second});
  ASSERT_TRUE(static_cast<bool>(both)) << llvm::toString(both.takeError());
  both->pop_back();
  EXPECT_TRUE(assembles(*both, sm90()));
}

TEST(UserPtx, JoinsOlderPtxUnderTheNewestVersion) {
  llvm::Expected<std::string> both =
      linkPtx({".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry a()\n{\n}\n",
               ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry b()\n{\n}\n"});
  ASSERT_TRUE(static_cast<bool>(both)) << llvm::toString(both.takeError());
  EXPECT_TRUE(llvm::StringRef(*both).starts_with(".version 8.7\n.target sm_90\n")) << *both;
  EXPECT_EQ(llvm::StringRef(*both).count(".version"), 1u);
}

TEST(UserPtx, SaysWhatAnEngineCannotTake) {
  std::string head = ".version 8.0\n.target sm_80\n.address_size 64\n";
  EXPECT_EQ(refusalOf("int main() {}"), "it does not start with .version, so it is no PTX");
  EXPECT_EQ(refusalOf(head), "it has no kernel (.entry)");
  EXPECT_EQ(refusalOf(head + ".visible .entry k(.param .align 8 .b8 k_param_0[16]) { ret; }"),
            "k() takes a struct or an array as parameter 1; an engine passes pointers and numbers");
  EXPECT_EQ(
      refusalOf(head + ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);"),
      "it calls vprintf(), which is not in it: leave out printf, assert and other modules");
  EXPECT_EQ(refusalOf(head + ".visible .entry k() .reqnctapercluster 2, 1, 1 { ret; }"),
            "k() wants clusters of blocks");
  EXPECT_EQ(refusalOf(head + ".visible .entry k() { ret;"), "'.visible .entry k()' has no end");
  UserPtx ptx = ptxOfFile("examples/kernels/vector_add.ptx");
  llvm::Expected<UserPtx> newer =
      UserPtx::parse(".version 8.0\n.target sm_100a\n.address_size 64\n.entry k() { ret; }");
  ASSERT_TRUE(static_cast<bool>(newer));
  EXPECT_EQ(llvm::toString(newer->fits(sm90())), "it is for sm_100a, the engine for sm_90a");
  EXPECT_FALSE(static_cast<bool>(ptx.fits(sm90())));
}

} // namespace
} // namespace tenon::codegen::cuda
