// Relies on buffers starting on 16-byte borders.
#include "compiler/codegen/cuda/base/ElementRun.h"

#include "compiler/codegen/cuda/base/Region.h"
#include "compiler/codegen/cuda/base/WarpOps.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kAccessBytes = 16;

} // namespace

int64_t lanesOf(Type storage) { return kAccessBytes / byteSize(storage); }

ElementRun::ElementRun(const ThreadBuilder &t, Value buffer, Type element, Value begin, Value end)
    : lanes(lanesOf(element)), buffer(buffer), element(element), begin(begin), end(end),
      first(t.mul(t.div(begin, lanes), lanes)),
      count(t.select(t.isLess(begin, end), t.ceilDiv(t.sub(end, first), lanes), t.i64(0))) {}

Value ElementRun::holds(const ThreadBuilder &t, Value place) const {
  return both(t, t.isLess(place, end), t.isLess(t.add(begin, -1), place));
}

Value ElementRun::numberOf(const ThreadBuilder &t, Value vector) const {
  return t.sub(t.add(first, t.mul(vector, lanes)), begin);
}

ThreadBuilder::Values ElementRun::load(const ThreadBuilder &t, Value vector, Value other) const {
  Value place = t.add(first, t.mul(vector, lanes));
  Value isWhole = both(t, holds(t, place), holds(t, t.add(place, lanes - 1)));
  return t.choose(
      isWhole,
      [&](const ThreadBuilder &b) {
        Value from = b.offset(buffer, element, place);
        Value loaded = b.load(b.vectorType(lanes, element), from, kAccessBytes);
        ThreadBuilder::Values values;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          values.push_back(b.extract(loaded, lane));
        }
        return values;
      },
      [&](const ThreadBuilder &b) {
        ThreadBuilder::Values values;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          Value at = b.add(place, lane);
          values.push_back(b.choose(
              holds(b, at),
              [&](const ThreadBuilder &c) {
                return ThreadBuilder::Values{
                    c.load(element, c.offset(buffer, element, at), byteSize(element))};
              },
              [&](const ThreadBuilder &) { return ThreadBuilder::Values{other}; })[0]);
        }
        return values;
      });
}

void ElementRun::store(const ThreadBuilder &t, Value vector, ValueRange elements) const {
  Value place = t.add(first, t.mul(vector, lanes));
  Value isWhole = both(t, holds(t, place), holds(t, t.add(place, lanes - 1)));
  auto storeWhole = [&](const ThreadBuilder &b) {
    b.store(b.pack(ThreadBuilder::Values(elements)), b.offset(buffer, element, place),
            kAccessBytes);
    return ThreadBuilder::Values();
  };
  auto storeEach = [&](const ThreadBuilder &b) {
    for (auto [lane, value] : llvm::enumerate(elements)) {
      Value at = b.add(place, static_cast<int64_t>(lane));
      b.when(holds(b, at), [&](const ThreadBuilder &c) {
        c.store(value, c.offset(buffer, element, at), byteSize(element));
      });
    }
    return ThreadBuilder::Values();
  };
  t.choose(isWhole, storeWhole, storeEach);
}

} // namespace tenon::codegen::cuda
