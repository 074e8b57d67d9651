// Support object and linker: the memory functions do what C says, equal input gives equal bytes,
// and what a code object must not have is refused. Relies on LoadedCode to run generated code.
#include "compiler/codegen/cpu/base/Emit.h"
#include "test/unit/codegen/LoadedCode.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

namespace tenon::codegen::cpu {
namespace {

using Move = void *(void *, const void *, size_t);
using Set = void *(void *, int, size_t);

llvm::Expected<std::string> emitText(llvm::StringRef text, engine::CpuLevel level) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, context);
  EXPECT_TRUE(module) << diagnostic.getMessage().str();
  return emitObject(*module, level);
}

TEST(Link, MemoryFunctions) {
  for (engine::CpuLevel level : machineLevels()) {
    LoadedCode code(level, {}, {"memcpy", "memmove", "memset"});
    Move *copy = code.function<Move>("memcpy");
    Move *move = code.function<Move>("memmove");
    Set *set = code.function<Set>("memset");
    for (size_t size = 0; size < 200; ++size) {
      std::vector<unsigned char> source(600), target(600, 7), expected(600, 7);
      for (size_t i = 0; i < source.size(); ++i) {
        source[i] = static_cast<unsigned char>(i * 31 + size);
      }
      memcpy(&expected[200], &source[100], size);
      EXPECT_EQ(copy(&target[200], &source[100], size), &target[200]);
      EXPECT_EQ(target, expected) << "memcpy " << size;
      memset(&expected[200], 0x1ff, size);
      EXPECT_EQ(set(&target[200], 0x1ff, size), &target[200]);
      EXPECT_EQ(target, expected) << "memset " << size;
      for (size_t to : {101, 140, 200, 99, 60, 100}) {
        target = expected = source;
        memmove(&expected[to], &expected[100], size);
        EXPECT_EQ(move(&target[to], &target[100], size), &target[to]);
        EXPECT_EQ(target, expected) << "memmove " << size << " to " << to;
      }
    }
  }
}

TEST(Link, EqualInputGivesEqualBytes) {
  llvm::Expected<std::string> support = supportObject(engine::CpuLevel::Avx512, "memcpy");
  llvm::Expected<std::string> again = supportObject(engine::CpuLevel::Avx512, "memcpy");
  ASSERT_TRUE(bool(support) && bool(again));
  EXPECT_EQ(*support, *again);
  llvm::Expected<std::string> linked = linkCode({*support}, {"memset"});
  llvm::Expected<std::string> linkedAgain = linkCode({*again}, {"memset"});
  ASSERT_TRUE(bool(linked) && bool(linkedAgain));
  EXPECT_EQ(*linked, *linkedAgain);
  EXPECT_EQ(linked->find("/proc"), std::string::npos);
}

/// Several times what a pipe holds, where no file can be made.
TEST(Link, LargeCodeNeedsNoFile) {
  const char *kept = getenv("TMPDIR");
  std::string before = kept ? kept : "";
  setenv("TMPDIR", "/none", 1);
  std::string text = "@large = constant [3000000 x i8] c\"" + std::string(2999999, 'a') + "z\"";
  llvm::Expected<std::string> object = emitText(text, engine::CpuLevel::X86_64_V3);
  ASSERT_TRUE(bool(object));
  llvm::Expected<std::string> linked = linkCode({*object}, {"large"});
  kept ? setenv("TMPDIR", before.c_str(), 1) : unsetenv("TMPDIR");
  ASSERT_TRUE(bool(linked));
  EXPECT_NE(linked->find(std::string(2999999, 'a') + "z"), std::string::npos);
}

/// Machine code of any architecture is made on any machine; nothing of it is run here.
TEST(Link, CodeIsForTheLevelsArchitecture) {
  for (auto [level, machine] : {std::pair(engine::CpuLevel::X86_64_V3, llvm::ELF::EM_X86_64),
                                std::pair(engine::CpuLevel::Armv8A, llvm::ELF::EM_AARCH64)}) {
    llvm::Expected<std::string> support = supportObject(level, "memcpy");
    llvm::Expected<std::string> object =
        emitText("define bfloat @f(float %x, ptr %a, ptr %b) {\n"
                 " call void @llvm.memcpy.p0.p0.i64(ptr %a, ptr %b, i64 4096, i1 false)\n"
                 " %y = fptrunc float %x to bfloat\n ret bfloat %y\n}\n"
                 "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
                 level);
    ASSERT_TRUE(bool(support) && bool(object));
    llvm::Expected<std::string> linked = linkCode({*support, *object}, {"f"});
    ASSERT_TRUE(bool(linked));
    uint16_t found = 0;
    memcpy(&found, linked->data() + offsetof(llvm::ELF::Elf64_Ehdr, e_machine), sizeof(found));
    EXPECT_EQ(machine, found);
  }
}

/// Micro-kernels that nothing calls are not compiled.
TEST(Link, TakesTheSupportThatIsCalled) {
  llvm::Expected<std::string> plain =
      emitText("define void @f() { ret void }", engine::CpuLevel::X86_64_V3);
  llvm::Expected<std::string> packing =
      emitText("declare void @tenon_product_pack_transposed_f32()\n"
               "define void @g() {\n call void @tenon_product_pack_transposed_f32()\n ret void\n}",
               engine::CpuLevel::X86_64_V3);
  ASSERT_TRUE(bool(plain) && bool(packing));
  llvm::Expected<std::vector<std::string>> none = supportOf({*plain});
  llvm::Expected<std::vector<std::string>> some = supportOf({*plain, *packing});
  ASSERT_TRUE(bool(none) && bool(some));
  EXPECT_EQ(*none, std::vector<std::string>{"memcpy"});
  EXPECT_EQ(*some, (std::vector<std::string>{"memcpy", "tenon_product_pack_transposed_f32"}));
}

TEST(Link, RefusesImports) {
  llvm::Expected<std::string> object =
      emitText("declare float @expf(float)\n"
               "define float @f(float %x) {\n %y = call float @expf(float %x)\n ret float %y\n}",
               engine::CpuLevel::X86_64_V3);
  ASSERT_FALSE(bool(object));
  EXPECT_EQ(llvm::toString(object.takeError()),
            "generated code calls 'expf', which a code object does not contain");
}

TEST(Link, ReportsLinkersText) {
  llvm::Expected<std::string> object =
      emitText("define void @f() { ret void }", engine::CpuLevel::X86_64_V3);
  ASSERT_TRUE(bool(object));
  llvm::Expected<std::string> linked = linkCode({*object, *object}, {"f"});
  ASSERT_FALSE(bool(linked));
  EXPECT_NE(llvm::toString(linked.takeError()).find("duplicate symbol: f"), std::string::npos);
}

} // namespace
} // namespace tenon::codegen::cpu
