// Relies on the elements of a strip that is not inside being those of one that is.
#include "compiler/codegen/cuda/rows/StripEmitter.h"

#include "compiler/codegen/cuda/rows/Tuning.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

SmallVector<Indices> placesOf(ArrayRef<Strip> strips) {
  SmallVector<Indices> places;
  for (const Strip &strip : strips) {
    llvm::append_range(places, strip.places);
  }
  return places;
}

SmallVector<Value> flatten(ArrayRef<Accumulators> all) {
  SmallVector<Value> flat;
  for (const Accumulators &values : all) {
    llvm::append_range(flat, values);
  }
  return flat;
}

SmallVector<Accumulators> unflatten(ValueRange flat, ArrayRef<Accumulators> like) {
  SmallVector<Accumulators> all;
  for (const Accumulators &values : like) {
    all.push_back(Accumulators(flat.take_front(values.size())));
    flat = flat.drop_front(values.size());
  }
  return all;
}

} // namespace

std::pair<Indices, Indices> RowPlace::ofLane(IndexMath &math, int64_t lane) const {
  std::pair<Indices, Indices> at = {behind, within};
  auto &[group, inGroup] = at;
  if (this->group > 0) {
    group.back() = math.add(group.back(), Index::constant(lane / this->group));
    inGroup.back() = Index::constant(lane % this->group);
  } else {
    Indices &moving = inGroup.empty() ? group : inGroup;
    moving.back() = math.add(moving.back(), Index::constant(lane));
  }
  return at;
}

int64_t stripsAhead(int64_t elements) {
  return std::clamp<int64_t>(tuning::kElementsAhead / elements, 1, tuning::kMaxAhead);
}

StripEmitter::StripEmitter(KernelFrame &kernel)
    : ElementEmitter(kernel), builder(kernel.builder), location(kernel.location) {}

Index StripEmitter::atMost(const Index &index, const Index &bound) {
  Value last = math.value(math.add(bound, Index::constant(-1)));
  return {arith::MinSIOp::create(builder, location, math.value(index), last), 0, 1, true};
}

Index StripEmitter::atMost(const Index &index, const Index &bound, Value &isInside,
                           arith::CmpIPredicate predicate) {
  bool isToLast = predicate == arith::CmpIPredicate::sle;
  Index limit = isToLast ? math.add(bound, Index::constant(-1)) : bound;
  isInside =
      arith::CmpIOp::create(builder, location, predicate, math.value(index), math.value(limit));
  return atMost(index, bound);
}

Strip StripEmitter::strip(const RowsWork &work, const RowPlace &place, const Index &first,
                          const Index &start, int64_t lanes) {
  tn::Dims dims = work.rows;
  dims.append(work.inner);
  dims.append(work.columns());
  Indices inner = kernel.sizes(work.inner);
  Strip strip;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Index number = Index::constant(lane);
    Indices at = place.outer;
    at.append(math.delinearize(place.behind.empty() ? math.add(first, number) : first, inner));
    if (!place.behind.empty()) {
      auto [behind, within] = place.ofLane(math, lane);
      at.append(behind);
      at.append(within);
    }
    strip.linears.push_back(math.add(start, number));
    setLinear(dims, at, strip.linears.back());
    strip.places.push_back(std::move(at));
  }
  return strip;
}

Indices StripEmitter::narrowPlace(Value tensor, const RowPlace &place, int64_t lane) {
  Indices at = place.outer;
  size_t rank = kernel.region.dims(tensor).size(), kept = at.size() + place.behind.size();
  size_t within = rank > kept ? place.within.size() : 0;
  at.resize(rank - place.behind.size() - within, Index::constant(0));
  if (!place.behind.empty()) {
    at.append(place.ofLane(math, lane).first);
  }
  at.append(within, Index::constant(0));
  return at;
}

SmallVector<Accumulators> StripEmitter::reduceStrips(linalg::GenericOp op, const Combiner &combiner,
                                                     const Accumulators &neutral,
                                                     ArrayRef<Strip> strips, int64_t columns,
                                                     ArrayRef<Accumulators> before) {
  SmallVector<Indices> places = placesOf(strips);
  SmallVector<Accumulators> starts(places.size(), combiner.start(builder, location, neutral));
  SmallVector<Accumulators> values = steps(op, places, starts);
  SmallVector<Accumulators> results;
  for (int64_t column = 0; column < columns; ++column) {
    SmallVector<Accumulators> parts;
    if (!before.empty()) {
      parts.push_back(before[column]);
    }
    ArrayRef<Accumulators> rest = values;
    for (const Strip &strip : strips) {
      SmallVector<Accumulators> own;
      for (size_t i = column; i < strip.places.size(); i += columns) {
        own.push_back(rest[i]);
      }
      rest = rest.drop_front(strip.places.size());
      Accumulators part = combiner.combine(builder, location, std::move(own));
      for (auto [value, other] : llvm::zip(part, neutral)) {
        if (strip.isInside) {
          value = arith::SelectOp::create(builder, location, strip.isInside, value, other);
        }
      }
      parts.push_back(std::move(part));
    }
    results.push_back(combiner.combine(builder, location, std::move(parts)));
  }
  return results;
}

void StripEmitter::hold(linalg::GenericOp op, const Accumulators &values) {
  for (auto [result, value] : llvm::zip(op->getResults(), values)) {
    hold(result, [value](ArrayRef<Index>) { return value; });
  }
}

SmallVector<Accumulators> StripEmitter::loop(Value first, Value end, int64_t step,
                                             ArrayRef<Accumulators> inits, LoopBody body) {
  scf::ForOp made =
      scf::ForOp::create(builder, location, first, end, math.constant(step), flatten(inits));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(made.getBody());
  openScope();
  SmallVector<Accumulators> next =
      body({made.getInductionVar(), 0, 1, true}, unflatten(made.getRegionIterArgs(), inits));
  if (!inits.empty()) {
    scf::YieldOp::create(builder, location, flatten(next));
  }
  closeScope();
  return unflatten(made.getResults(), inits);
}

void StripEmitter::storeStrips(ArrayRef<Root> roots, ArrayRef<Strip> strips, Value condition) {
  if (roots.empty()) {
    return;
  }
  SmallVector<Indices> places = placesOf(strips);
  SmallVector<SmallVector<Value>> values;
  for (const Root &root : roots) {
    values.push_back(elements(root.tensor, places));
  }
  when(condition, [&] {
    size_t first = 0;
    for (const Strip &strip : strips) {
      when(strip.isInside, [&] {
        for (auto [root, elements] : llvm::zip(roots, values)) {
          for (auto [lane, linear] : llvm::enumerate(strip.linears)) {
            kernel.store(root.buffer, elements[first + lane], linear);
          }
        }
      });
      first += strip.places.size();
    }
  });
}

void StripEmitter::storeNarrow(ArrayRef<Root> roots, int64_t lanes, const Index &start,
                               const RowPlace &place, Value condition, const Index &thread) {
  if (roots.empty()) {
    return;
  }
  SmallVector<SmallVector<Value>> values;
  for (const Root &root : roots) {
    SmallVector<Indices> places;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      places.push_back(narrowPlace(root.tensor, place, lane));
    }
    values.push_back(elements(root.tensor, places));
  }
  when(condition, [&] {
    Value isFirst = thread.isConstant()
                        ? Value()
                        : arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq,
                                                math.value(thread), math.constant(0));
    when(isFirst, [&] {
      for (auto [root, elements] : llvm::zip(roots, values)) {
        for (auto [lane, value] : llvm::enumerate(elements)) {
          kernel.store(root.buffer, value,
                       math.add(start, Index::constant(static_cast<int64_t>(lane))));
        }
      }
    });
  });
}

} // namespace tenon::codegen::cuda
