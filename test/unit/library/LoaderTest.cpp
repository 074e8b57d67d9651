// Where libraries are looked for, what is said of those that are missing, and descriptors that are
// none.

#include "LibraryFixture.h"

#include "runtime/library/Loader.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tenon::library {
namespace {

constexpr std::string_view kNoFiles[] = {"libtenon_test_absent.so.13",
                                         "libtenon_test_absent.so.12"};
constexpr std::string_view kWheelFiles[] = {"libtenon_test_wheel.so.9"};
constexpr std::string_view kWholeFiles[] = {"libtenon_test_whole.so.9"};
constexpr std::string_view kPartFiles[] = {"libtenon_test_absent.so.9", "libtenon_test_part.so.9"};
constexpr std::string_view kTextFiles[] = {"libtenon_test_text.so.9"};

/// A virtual environment with one wheel, current while the test runs.
struct WheelTest : LibraryTest {
  WheelTest() {
    root = std::filesystem::path(testing::TempDir()) / "tenon-wheels";
    folder = root / "lib/python3.11/site-packages/nvidia/cudnn/lib";
    std::filesystem::create_directories(folder);
    const char *current = std::getenv("VIRTUAL_ENV");
    before = current ? current : "";
    setenv("VIRTUAL_ENV", root.c_str(), 1);
  }
  ~WheelTest() override {
    std::filesystem::remove_all(root);
    before.empty() ? unsetenv("VIRTUAL_ENV") : setenv("VIRTUAL_ENV", before.c_str(), 1);
  }
  std::filesystem::path root, folder;
  std::string before;
};

TEST(LoaderTest, AMissingLibraryNamesItsPackage) {
  LibraryName absent{"cuNothing", kNoFiles, "nvidia-nothing"};
  Status status = openLibrary(absent, "/nowhere").takeStatus();
  EXPECT_EQ(ErrorId::LibraryMissing, status.id());
  EXPECT_EQ("cuNothing: libtenon_test_absent.so.13 was not found", status.message());
  EXPECT_NE(std::string_view::npos, status.hint().find("pip install nvidia-nothing"));
}

TEST_F(WheelTest, WheelsOfTheActivePythonAreFound) {
  std::vector<std::string> folders = installedFolders();
  EXPECT_NE(folders.end(), std::find(folders.begin(), folders.end(), folder.string()));
  LibraryName wheel{"wheel", kWheelFiles, "wheel"};
  EXPECT_FALSE(openLibrary(wheel, ""));
  std::filesystem::copy_file(std::string(TENON_DOUBLES_FOLDER) + "/libcudnn.so.9",
                             folder / kWheelFiles[0]);
  Result<OpenLibrary> opened = openLibrary(wheel, "");
  ASSERT_TRUE(opened) << opened.status().toString();
  EXPECT_EQ(folder / kWheelFiles[0], opened->path);
}

TEST_F(WheelTest, PartsAreOpenedBesideTheirLibrary) {
  std::string doubles = TENON_DOUBLES_FOLDER;
  std::filesystem::copy_file(doubles + "/libcudnn.so.9", folder / kWholeFiles[0]);
  std::filesystem::copy_file(doubles + "/libcublasLt.so.13", folder / kPartFiles[1]);
  LibraryName whole{"wheel", kWholeFiles, "wheel", kPartFiles};
  Result<OpenLibrary> opened = openLibrary(whole, "");
  ASSERT_TRUE(opened) << opened.status().toString();
  std::string part = folder / kPartFiles[1];
  EXPECT_FALSE(dlopen(part.c_str(), RTLD_NOW | RTLD_NOLOAD));
  openParts(whole, *opened); // the first is not there
  EXPECT_TRUE(dlopen(part.c_str(), RTLD_NOW | RTLD_NOLOAD));
}

TEST_F(WheelTest, AFileThatDoesNotLoadIsNamed) {
  std::ofstream(folder / kTextFiles[0]) << "no library";
  Status status = openLibrary({"wheel", kTextFiles, "wheel"}, "").takeStatus();
  EXPECT_NE(std::string_view::npos, status.message().find("cannot be loaded"));
}

TEST_F(LibraryTest, DoctorSeesFilesAndVersions) {
  std::vector<FoundLibrary> found = findLibraries(options.folder);
  ASSERT_EQ(2u, found.size());
  EXPECT_EQ("cuBLASLt", found[0].name);
  EXPECT_EQ(options.folder + "/libcublasLt.so.13", found[0].path);
  EXPECT_EQ("13.2.3", found[0].version);
  EXPECT_EQ("", found[0].problem);
  EXPECT_EQ("cuDNN", found[1].name);
  EXPECT_EQ("9.12.3", found[1].version);
}

TEST_F(LibraryTest, AnOldLibraryIsRefused) {
  // The stand-in for cuDNN under the name of cuBLASLt has none of its functions.
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tenon-old";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(options.folder + "/libcudnn.so.9", folder / "libcublasLt.so.13",
                             std::filesystem::copy_options::overwrite_existing);
  options.folder = folder.string();
  engine::MatmulCall call;
  std::vector<int64_t> sizes = {1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
  Status status = makeHandles(options)->prepare(bytesOf(call), sizes).takeStatus();
  std::filesystem::remove_all(folder);
  EXPECT_EQ(ErrorId::LibraryMissing, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("lacks cublasLt")) << status.message();
}

TEST_F(LibraryTest, WhatIsNoDescriptorIsRefused) {
  std::unique_ptr<Handles> handles = makeHandles(options);
  engine::MatmulCall matmul;
  engine::ConvCall conv;
  std::vector<int64_t> matmulSizes = {1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
  std::vector<int64_t> convSizes(engine::kConvSizes, 1);
  auto idOf = [&](Bytes call, std::vector<int64_t> sizes) {
    return handles->prepare(call, sizes).status().id();
  };
  EXPECT_EQ(ErrorId::None, idOf(bytesOf(matmul), matmulSizes));
  EXPECT_EQ(ErrorId::None, idOf(bytesOf(conv), convSizes));
  EXPECT_EQ(ErrorId::EngineBadInstruction, idOf({}, matmulSizes));
  for (size_t size = 1; size < sizeof(matmul); ++size) {
    EXPECT_EQ(ErrorId::EngineBadInstruction, idOf(bytesOf(matmul).first(size), matmulSizes));
  }
  for (size_t size = 1; size < sizeof(conv); ++size) {
    EXPECT_EQ(ErrorId::EngineBadInstruction, idOf(bytesOf(conv).first(size), convSizes));
  }
  for (size_t at = 0; at < sizeof(matmul); ++at) {
    std::vector<std::byte> bytes(bytesOf(matmul).begin(), bytesOf(matmul).end());
    // The numbers of a hint are any that are not negative.
    bool isHint = at >= offsetof(engine::MatmulCall, hint);
    bytes[at] = std::byte(0xee);
    EXPECT_EQ(isHint && at % 4 != 3 ? ErrorId::None : ErrorId::EngineBadInstruction,
              idOf(bytes, matmulSizes))
        << at;
  }
  engine::AttentionCall attention;
  std::vector<int64_t> attentionSizes(engine::kAttentionSizes, 1);
  EXPECT_EQ(ErrorId::None, idOf(bytesOf(attention), attentionSizes));
  EXPECT_EQ(ErrorId::EngineBadInstruction, idOf(bytesOf(attention), matmulSizes));
  for (size_t at = 0; at < 4; ++at) {
    std::vector<std::byte> bytes(bytesOf(attention).begin(), bytesOf(attention).end());
    bytes[at] = std::byte(0xee);
    EXPECT_EQ(ErrorId::EngineBadInstruction, idOf(bytes, attentionSizes)) << at;
  }
  attention.scale = INFINITY;
  EXPECT_EQ(ErrorId::EngineBadInstruction, idOf(bytesOf(attention), attentionSizes));
  conv.strides[1] = 0;
  EXPECT_EQ(ErrorId::EngineBadInstruction, idOf(bytesOf(conv), convSizes));
  matmulSizes[4] = -1;
  EXPECT_EQ(ErrorId::EngineBadInstruction, idOf(bytesOf(matmul), matmulSizes));
  matmulSizes.pop_back();
  EXPECT_EQ(ErrorId::EngineBadInstruction, idOf(bytesOf(matmul), matmulSizes));
}

} // namespace
} // namespace tenon::library
