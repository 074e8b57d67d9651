// External data: only plain files inside of the model's folder, only ranges inside of the file.
// Relies on a scratch folder with links, pipes and folders of its own.
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon::onnx::test {
namespace {

namespace fs = std::filesystem;

class ExternalData : public ImportFixture {
protected:
  void SetUp() override {
    root = fs::temp_directory_path() / ("tenon-external-" + std::to_string(::getpid()));
    fs::create_directories(root / "model" / "inner");
    folder = (root / "model").string();
    write(root / "outside.bin");
    write(root / "model" / "data.bin");
    write(root / "model" / "inner" / "data.bin");
  }
  void TearDown() override { fs::remove_all(root); }

  static void write(const fs::path &path) {
    std::ofstream(path, std::ios::binary) << std::string(512, 'a');
  }

  static Message entry(std::string_view key, std::string_view value) {
    return Message().text(1, key).text(2, value);
  }

  /// The error of a model whose 100-element weight lies where the entries say.
  ErrorId with(const std::vector<std::pair<std::string, std::string>> &entries) {
    Message tensor = Message().varint(1, 100).varint(2, kFloat).text(8, "w").varint(14, 1);
    for (const auto &[key, value] : entries) {
      tensor.add(13, entry(key, value));
    }
    return errorOf(
        oneNode(node("Add", {"x", "w"}, {"y"}), {valueInfo("x", kFloat, {2, 100})}, 17, {tensor}));
  }
  ErrorId at(const std::string &location) { return with({{"location", location}}); }

  fs::path root;
};

TEST_F(ExternalData, PlainFilesInsideOfTheFolderAreRead) {
  EXPECT_EQ(at("data.bin"), ErrorId::None);
  EXPECT_EQ(at("inner/data.bin"), ErrorId::None);
  EXPECT_EQ(with({{"location", "data.bin"}, {"offset", "112"}, {"length", "400"}}), ErrorId::None);
}

TEST_F(ExternalData, PathsThatLeaveTheFolder) {
  EXPECT_EQ(at("../outside.bin"), ErrorId::OnnxExternalPath);
  EXPECT_EQ(at("inner/../../outside.bin"), ErrorId::OnnxExternalPath);
  EXPECT_EQ(at((root / "outside.bin").string()), ErrorId::OnnxExternalPath);
  EXPECT_EQ(at("/proc/self/mem"), ErrorId::OnnxExternalPath);
  EXPECT_EQ(at(""), ErrorId::OnnxExternalPath);
  EXPECT_EQ(at(std::string("data.bin\0.txt", 13)), ErrorId::OnnxExternalPath);
  folder.clear();
  EXPECT_EQ(at("data.bin"), ErrorId::OnnxExternalPath);
}

TEST_F(ExternalData, Links) {
  fs::create_symlink("data.bin", root / "model" / "soft.bin");
  fs::create_directory_symlink("inner", root / "model" / "away");
  EXPECT_EQ(at("soft.bin"), ErrorId::OnnxExternalPath);
  EXPECT_EQ(at("away/data.bin"), ErrorId::OnnxExternalPath);
  fs::create_hard_link(root / "outside.bin", root / "model" / "hard.bin");
  EXPECT_EQ(at("hard.bin"), ErrorId::OnnxExternalNotRegular);
}

TEST_F(ExternalData, ThingsThatAreNoFiles) {
  ASSERT_EQ(::mkfifo((root / "model" / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(at("pipe"), ErrorId::OnnxExternalNotRegular);
  EXPECT_EQ(at("inner"), ErrorId::OnnxExternalNotRegular);
  EXPECT_EQ(at("missing.bin"), ErrorId::OnnxExternalMissing);
}

TEST_F(ExternalData, Ranges) {
  EXPECT_EQ(with({{"location", "data.bin"}, {"offset", "113"}}), ErrorId::OnnxExternalRange);
  EXPECT_EQ(with({{"location", "data.bin"}, {"offset", "18446744073709551615"}}),
            ErrorId::OnnxExternalRange);
  EXPECT_EQ(with({{"location", "data.bin"}, {"offset", "-1"}}), ErrorId::OnnxExternalRange);
  EXPECT_EQ(with({{"location", "data.bin"}, {"offset", "1e3"}}), ErrorId::OnnxExternalRange);
  EXPECT_EQ(with({{"location", "data.bin"}, {"length", "99999999999999999999999"}}),
            ErrorId::OnnxExternalRange);
  EXPECT_EQ(with({{"location", "data.bin"}, {"length", "399"}}), ErrorId::OnnxTensorSize);
}

TEST_F(ExternalData, Keys) {
  EXPECT_EQ(with({{"location", "data.bin"}, {"colour", "blue"}}), ErrorId::OnnxExternalKey);
  EXPECT_EQ(with({{"location", "data.bin"}, {"location", "data.bin"}}), ErrorId::OnnxExternalKey);
  EXPECT_EQ(at("*/_ORT_MEM_ADDR_/*"), ErrorId::OnnxExternalInMemory);
}

TEST_F(ExternalData, Seeded) {
  EXPECT_EQ(with({{"location", "tenon-seeded"}, {"scale", "0.5"}, {"center", "0"}}), ErrorId::None);
  EXPECT_EQ(with({{"location", "tenon-seeded"}, {"scale", "0.5"}}), ErrorId::OnnxSeeded);
  EXPECT_EQ(with({{"location", "tenon-seeded"}, {"scale", "-1"}, {"center", "0"}}),
            ErrorId::OnnxSeeded);
  EXPECT_EQ(with({{"location", "tenon-seeded"}, {"scale", "nan"}, {"center", "0"}}),
            ErrorId::OnnxSeeded);
  EXPECT_EQ(with({{"location", "tenon-seeded"}, {"scale", "1"}, {"offset", "0"}}),
            ErrorId::OnnxSeeded);
  EXPECT_EQ(with({{"location", "data.bin"}, {"scale", "1"}}), ErrorId::OnnxSeeded);
}

} // namespace
} // namespace tenon::onnx::test
