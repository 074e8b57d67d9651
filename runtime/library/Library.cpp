// Opens each library at its first call and hands descriptors to it. Relies on the first byte of a
// descriptor for which one that is.

#include "runtime/library/Library.h"

#include "runtime/library/Call.h"
#include "runtime/library/cublaslt/CublasLt.h"
#include "runtime/library/cudnn/Cudnn.h"
#include "support/text/Text.h"

namespace tenon::library {
namespace {

/// What calls with an empty result do.
class EmptyPlan final : public Plan {
public:
  size_t workspaceBytes() const override { return 0; }
  Status run(std::span<void *const>, void *, void *) override { return Status::ok(); }
  std::string describe() const override { return "nothing: the result is empty"; }
};

/// Whether some size in `places` is 0.
bool isEmpty(std::span<const int64_t> sizes, std::initializer_list<size_t> places) {
  bool isAny = false;
  for (size_t place : places) {
    isAny |= sizes[place] == 0;
  }
  return isAny;
}

class LazyHandles final : public Handles {
public:
  explicit LazyHandles(const Options &given) : options(given) {}

  Result<std::unique_ptr<Plan>> prepare(Bytes call, std::span<const int64_t> sizes,
                                        size_t alignment) override {
    if (!call.empty() && call[0] == std::byte(engine::LibraryOp::Matmul)) {
      TENON_ASSIGN(engine::MatmulCall matmul, decodeMatmul(call));
      TENON_TRY(checkSizes(sizes, engine::kMatmulSizes));
      if (isEmpty(sizes, {0, 1, 3})) {
        return std::unique_ptr<Plan>(new EmptyPlan());
      }
      TENON_TRY(open(cublasLt));
      return cublasLt->prepare(matmul, sizes, alignment);
    }
    if (!call.empty() && call[0] == std::byte(engine::LibraryOp::ScaledMatmul)) {
      TENON_ASSIGN(engine::ScaledMatmulCall matmul, decodeScaledMatmul(call));
      TENON_TRY(checkSizes(sizes, engine::kScaledMatmulSizes));
      if (isEmpty(sizes, {0, 1})) {
        return std::unique_ptr<Plan>(new EmptyPlan());
      }
      TENON_TRY(open(cublasLt));
      return cublasLt->prepare(matmul, sizes, alignment);
    }
    if (!call.empty() && call[0] == std::byte(engine::LibraryOp::Attention)) {
      TENON_ASSIGN(engine::AttentionCall attention, decodeAttention(call));
      TENON_TRY(checkSizes(sizes, engine::kAttentionSizes));
      return prepareByCudnn(attention, sizes, isEmpty(sizes, {0, 1, 3, 6}), alignment);
    }
    TENON_ASSIGN(engine::ConvCall conv, decodeConv(call));
    TENON_TRY(checkSizes(sizes, engine::kConvSizes));
    return prepareByCudnn(conv, sizes, isEmpty(sizes, {0, 4, 7, 8}), alignment);
  }

private:
  template <typename Call>
  Result<std::unique_ptr<Plan>> prepareByCudnn(const Call &call, std::span<const int64_t> sizes,
                                               bool isNothing, size_t alignment) {
    if (isNothing) {
      return std::unique_ptr<Plan>(new EmptyPlan());
    }
    TENON_TRY(open(cudnn));
    return cudnn->prepare(call, sizes, alignment);
  }
  template <typename Library> Status open(std::shared_ptr<Library> &library) {
    if (!library) {
      TENON_ASSIGN(library, Library::open(options));
    }
    return Status::ok();
  }

  Options options;
  std::shared_ptr<cublaslt::CublasLt> cublasLt;
  std::shared_ptr<cudnn::Cudnn> cudnn;
};

template <typename Api>
FoundLibrary found(const LibraryName &name, Result<Api> api, std::string (*version)(const Api &)) {
  if (!api) {
    return {std::string(name.name), "", "",
            strCat(api.status().message(), " (", api.status().hint(), ")")};
  }
  return {std::string(name.name), api->library.path, version(*api), ""};
}

} // namespace

std::unique_ptr<Handles> makeHandles(const Options &options) {
  return std::make_unique<LazyHandles>(options);
}

std::vector<FoundLibrary> findLibraries(const std::string &folder) {
  return {found(kCublasLt, cublaslt::openApi(folder), cublaslt::versionOf),
          found(kCudnn, cudnn::openApi(folder), cudnn::versionOf)};
}

const LibraryName *libraryOf(Bytes call) {
  if (call.empty()) {
    return nullptr;
  }
  switch (static_cast<engine::LibraryOp>(call[0])) {
  case engine::LibraryOp::Matmul:
  case engine::LibraryOp::ScaledMatmul:
    return &kCublasLt;
  case engine::LibraryOp::Conv:
  case engine::LibraryOp::Attention:
    return &kCudnn;
  }
  return nullptr;
}

} // namespace tenon::library
