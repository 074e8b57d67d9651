// What front and worker tell each other: it comes back as it was, and damage is refused.

#include "server/ipc/Control.h"
#include "server/ipc/ModelInfo.h"
#include "server/ipc/RequestSlot.h"
#include "server/ipc/SharedMemory.h"

#include <gtest/gtest.h>

#include <cstring>

#include <sys/mman.h>
#include <sys/socket.h>

namespace tenon::server {
namespace {

TEST(RequestSlot, TablesComeBackAndDamageIsRefused) {
  std::vector<std::byte> buffer(256);
  std::vector<TensorPlace> tensors = {{128, 8, {2, 1}}, {192, 64, {}}};
  ASSERT_EQ(tableBytes(tensors), 64u);
  writeTable(buffer, 0, tensors);
  Result<std::vector<TensorPlace>> read = readTable(buffer, 0, 2);
  ASSERT_TRUE(read.isOk());
  EXPECT_EQ((*read)[0].dims, tensors[0].dims);
  EXPECT_EQ((*read)[1].bytes, 64u);
  EXPECT_FALSE(readTable(buffer, 240, 1).isOk());
  EXPECT_FALSE(readTable(buffer, UINT64_MAX - 3, 1).isOk());
  for (size_t word : {0u, 1u, 2u}) { // offset, bytes and rank beyond all bounds
    std::vector<std::byte> damaged = buffer;
    std::memset(damaged.data() + word * 8, 0xff, 8);
    EXPECT_FALSE(readTable(damaged, 0, 2).isOk()) << word;
  }
}

TEST(ModelInfo, ComeBackAndEveryTruncationIsRefused) {
  ModelInfo info;
  info.ports = {{{"a", DType::F32, {1, 3}, {8, 3}, {"batch", "3"}}, {"", DType::Bool, {}, {}, {}}},
                {{"y", DType::I64, {1}, {8}, {}}}};
  info.batch = {BatchInfo::State::Refused,
                BatchInfo::State::Proven,
                8,
                0.5,
                "output 'y'",
                "",
                "seq",
                {{"mask", 0}}};
  info.bytes = 12345;
  std::string text = encodeModelInfo(info);
  Result<ModelInfo> read = decodeModelInfo(text);
  ASSERT_TRUE(read.isOk());
  EXPECT_EQ(read->ports.inputs[0].maxDims, info.ports.inputs[0].maxDims);
  EXPECT_EQ(read->ports.inputs[0].dims, info.ports.inputs[0].dims);
  EXPECT_EQ(read->ports.outputs[0].name, "y");
  EXPECT_EQ(read->batch.batching, BatchInfo::State::Refused);
  EXPECT_EQ(read->batch.difference, 0.5);
  EXPECT_EQ(read->batch.paddedDim, "seq");
  ASSERT_EQ(read->batch.masks.size(), 1u);
  EXPECT_EQ(read->batch.masks[0].input, "mask");
  EXPECT_EQ(read->bytes, 12345u);
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(decodeModelInfo(text.substr(0, length)).isOk()) << length;
    std::string changed = text;
    changed[length] = '\xff';
    (void)decodeModelInfo(changed).isOk();
  }
  EXPECT_FALSE(decodeModelInfo(text + "x").isOk());
  LoadRequest request = {"ab",
                         {BatchPolicy::Kind::Stated, 16, 1e-3, true, {{"ids", -1}}, 4096},
                         {32, 4096, 1 << 20},
                         5,
                         true,
                         "cd"};
  Result<LoadRequest> decoded = decodeLoad(encodeLoad(request));
  ASSERT_TRUE(decoded.isOk());
  EXPECT_EQ(decoded->sha256, "ab");
  EXPECT_EQ(decoded->batch.kind, BatchPolicy::Kind::Stated);
  EXPECT_EQ(decoded->batch.maxRows, 16u);
  EXPECT_TRUE(decoded->batch.acceptsMeetings);
  EXPECT_EQ(decoded->batch.pads[0].value, -1);
  EXPECT_EQ(decoded->draftTokens, 5u);
  EXPECT_TRUE(decoded->hasDraft);
  EXPECT_EQ(decoded->draftSha256, "cd");
  EXPECT_EQ(decoded->texts.users, 32u);
  EXPECT_EQ(decoded->texts.tokens, 4096u);
  EXPECT_EQ(decoded->texts.memory, 1u << 20);
  EXPECT_FALSE(decodeLoad(encodeLoad(request) + "x").isOk());
}

TEST(Control, ErrorsComeBack) {
  Status error = decodeError(807, encodeError("what", "how"));
  EXPECT_EQ(error.toString(), "TN0807: what (how)");
  EXPECT_EQ(decodeError(9999, encodeError("what", "")).id(), ErrorId::InternalError);
}

TEST(Control, MessagesCarryDescriptors) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  Descriptor ours(pair[0]), theirs(pair[1]);
  Result<std::unique_ptr<SharedMemory>> memory = SharedMemory::create(8192);
  ASSERT_TRUE(memory.isOk());
  (*memory)->data()[5] = std::byte(7);
  ControlMessage sent = {ControlMessage::Kind::Buffer, 3, 8192, "text", {}};
  sent.descriptors.push_back((*memory)->takeDescriptor());
  Descriptor again(dup(sent.descriptors[0].get()));
  ASSERT_TRUE(sendControl(ours.get(), sent).isOk());
  ControlMessage got;
  bool isEnd = false, isNone = false;
  ASSERT_TRUE(receiveControl(theirs.get(), false, got, &isEnd, &isNone).isOk());
  ASSERT_EQ(got.descriptors.size(), 1u);
  EXPECT_EQ(got.text, "text");
  Result<std::unique_ptr<SharedMemory>> mapped =
      SharedMemory::open(std::move(got.descriptors[0]), 8192);
  ASSERT_TRUE(mapped.isOk());
  EXPECT_EQ((*mapped)->data()[5], std::byte(7));
  EXPECT_FALSE(SharedMemory::open(std::move(again), 4096).isOk());
  // Memory that could still shrink is not mapped.
  Descriptor unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 8192), 0);
  EXPECT_FALSE(SharedMemory::open(std::move(unsealed), 8192).isOk());
  ASSERT_TRUE(receiveControl(theirs.get(), false, got, &isEnd, &isNone).isOk());
  EXPECT_TRUE(isNone);
  ASSERT_EQ(write(ours.get(), "short", 5), 5);
  EXPECT_FALSE(receiveControl(theirs.get(), false, got, &isEnd, &isNone).isOk());
  ours = Descriptor();
  ASSERT_TRUE(receiveControl(theirs.get(), true, got, &isEnd, &isNone).isOk());
  EXPECT_TRUE(isEnd);
}

} // namespace
} // namespace tenon::server
