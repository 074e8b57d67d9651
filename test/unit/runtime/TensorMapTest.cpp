// Tensor maps on their way to the driver: encoded with the addresses of a run, refused where the
// copy engine could not take them.

#include "runtime/device/cuda/CudaDevice.h"
#include "test/unit/runtime/GpuFixture.h"

#include <functional>

namespace tenon::runtime {
namespace {

using cuda::EncodedTensorMap;
using engine::ExprId;
using test::PlanBuilder;
using test::ramp;

/// y = 2 x for rows of 32 floats (64 elements of 16 bits) that a tensor map brings to the arena.
engine::Plan
mappedPlan(const std::function<void(PlanBuilder &, engine::TensorMap &)> &change = {}) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 1, 4096, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t copy = builder.arena(builder.plan.exprs.mul(n, builder.size(4)), 0, 1);
  ExprId rows = builder.plan.exprs.floorDiv(n, builder.size(32));
  engine::TensorMap map = {0, 2, rows, builder.size(64), builder.size(128), 64, 64};
  if (change) {
    change(builder, map);
  }
  engine::Instruction &launch = test::launchGpu(builder, test::GpuMapped, {x}, {copy}, n);
  launch.tensorMaps = {map};
  launch.label = "mapped";
  test::launchGpu(builder, test::GpuScale, {copy}, {y}, n);
  builder.finish();
  return builder.plan;
}

std::vector<float> twice(std::vector<float> values) {
  for (float &value : values) {
    value *= 2;
  }
  return values;
}

class TensorMaps : public test::WithFakeCuda {};

TEST_F(TensorMaps, FollowTheAddressesOfARun) {
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(mappedPlan()));
  ASSERT_TRUE(session);
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(twice(ramp(96)), *test::runOnHost(*session, ramp(96)));
  }
  EXPECT_EQ(1, fake->calls("cuTensorMapEncodeTiled"));
  // A larger shape moves the input: the map of the old shape is encoded again.
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(twice(ramp(4096)), *test::runOnHost(*session, ramp(4096)));
    EXPECT_EQ(twice(ramp(96)), *test::runOnHost(*session, ramp(96)));
  }
  EXPECT_EQ(3, fake->calls("cuTensorMapEncodeTiled"));
  EXPECT_TRUE(session->info().usedGraph);
  EXPECT_EQ(2, fake->calls("cuGraphInstantiateWithFlags"));
  EXPECT_EQ(2, fake->calls("cuGraphExecKernelNodeSetParams_v2"));
}

/// Of another kind than launches: it has arguments too, behind those of the launch and its maps.
TEST_F(TensorMaps, KeepTheirPlaceBesideOtherSteps) {
  PlanBuilder builder;
  ExprId count = builder.size(64), bytes = builder.size(256);
  uint32_t x = builder.input("x", DType::F32, {count});
  uint32_t y = builder.output("y", DType::F32, {count});
  uint32_t mapped = builder.arena(bytes, 0, 1);
  engine::Instruction &launch = test::launchGpu(builder, test::GpuMapped, {x}, {mapped}, count);
  launch.tensorMaps = {{0, 2, builder.size(2), builder.size(64), builder.size(128), 64, 64}};
  builder.copy(mapped, y, bytes);
  builder.finish();
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(builder.plan));
  ASSERT_TRUE(session);
  EXPECT_EQ(ramp(64), *test::runOnHost(*session, ramp(64)));
}

TEST_F(TensorMaps, SayWhenTheDriverRefusesThem) {
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(mappedPlan()));
  ASSERT_TRUE(session);
  fake->fail("cuTensorMapEncodeTiled", 1);
  Status status = test::runOnHost(*session, ramp(96)).takeStatus();
  EXPECT_EQ(ErrorId::DeviceFailed, status.id());
  EXPECT_EQ(0u, status.message().find("describing the 3 x 64 matrix of 'mapped': "))
      << status.message();
  EXPECT_EQ(twice(ramp(96)), *test::runOnHost(*session, ramp(96)));
}

TEST_F(TensorMaps, AreOfMatricesInTheirBuffers) {
  auto prepare = [](const std::function<void(PlanBuilder &, engine::TensorMap &)> &change,
                    int64_t count) {
    std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(mappedPlan(change)));
    const int64_t dims[] = {count};
    const std::span<const int64_t> all[] = {dims};
    return session->prepare(all);
  };
  EXPECT_TRUE(prepare({}, 32).isOk());
  Status status = prepare({}, 31);
  EXPECT_EQ(ErrorId::RunBadSize, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("has a matrix of 0 x 64 elements"))
      << status.message();
  auto withRows = [](int64_t rows, int64_t columns, int64_t rowBytes) {
    return [=](PlanBuilder &b, engine::TensorMap &map) {
      map.rows = b.size(rows);
      map.columns = b.size(columns);
      map.rowBytes = b.size(rowBytes);
    };
  };
  EXPECT_TRUE(prepare(withRows(3, 40, 144), 92).isOk()) << "the last row has no gap behind it";
  EXPECT_EQ(ErrorId::RunBadSize, prepare(withRows(3, 40, 144), 91).id());
  EXPECT_EQ(ErrorId::RunBadSize, prepare(withRows(1, 64, 136), 96).id());
  EXPECT_EQ(ErrorId::RunBadSize, prepare(withRows(1, 0, 128), 96).id());
  EXPECT_EQ(ErrorId::RunBadSize, prepare(withRows(2, 64, INT64_MAX - 15), 96).id());
}

TEST_F(TensorMaps, OfAnotherKindAreFoundByTheStandIn) {
  Result<std::shared_ptr<const cuda::CudaDevice>> device =
      cuda::CudaDevice::open(test::driverLibrary(), 0);
  ASSERT_TRUE(device.isOk()) << device.status().toString();
  struct Arguments {
    uintptr_t address = 4096;
    uint64_t dims[2] = {64, 8};
    uint64_t stride = 128;
    unsigned box[2] = {64, 8};
    int swizzle = cuda::kTensorMapSwizzle128;
  };
  auto encode = [&](const Arguments &a) {
    EncodedTensorMap map;
    const unsigned steps[] = {1, 1};
    return (*device)->driver().tensorMapEncodeTiled(
        &map, cuda::kTensorMapUint16, 2, reinterpret_cast<void *>(a.address), a.dims, &a.stride,
        a.box, steps, cuda::kTensorMapNoInterleave, a.swizzle, cuda::kTensorMapFetch128,
        cuda::kTensorMapZeroFill);
  };
  EXPECT_EQ(cuda::kSuccess, encode({}));
  EXPECT_NE(cuda::kSuccess, encode({.address = 4104}));
  EXPECT_NE(cuda::kSuccess, encode({.dims = {64, 0}}));
  EXPECT_NE(cuda::kSuccess, encode({.stride = 136}));
  EXPECT_NE(cuda::kSuccess, encode({.box = {64, 257}}));
  EXPECT_NE(cuda::kSuccess, encode({.box = {128, 8}}));
  EXPECT_NE(cuda::kSuccess, encode({.swizzle = 0}));
}

} // namespace
} // namespace tenon::runtime
