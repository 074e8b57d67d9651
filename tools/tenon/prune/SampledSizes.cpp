// Relies on dims of one name being of one size, and on a model that takes a size taking twice that:
// what folds or strides need a multiple of stays one.

#include "tools/tenon/prune/SampledSizes.h"

#include "support/LikelySize.h"
#include "tools/tenon/model/CompilerBridge.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tenon::tool {
namespace {

/// A size that inputs leave open, and where they have it.
struct FreeSize {
  std::vector<std::pair<size_t, size_t>> places; ///< a shape, and its dim
  int64_t size = 1, min = 1, max = 1 << 16;
};

void setSize(std::vector<ShapeArgument> &shapes, const FreeSize &free, int64_t size) {
  for (auto [shape, dim] : free.places) {
    shapes[shape].dims[dim] = {size, size, false};
  }
}

/// As given for the dim, if it is.
std::optional<ShapeArgument::Dim> givenDim(const std::vector<ShapeArgument> &given,
                                           const std::string &input, size_t dim) {
  for (const ShapeArgument &own : given) {
    if (own.input == input && dim < own.dims.size() && !own.dims[dim].keep) {
      return own.dims[dim];
    }
  }
  return std::nullopt;
}

/// Adds shapes of all inputs, with the sizes of the first sample.
std::vector<FreeSize> freeSizes(const std::vector<ShapeArgument> &given,
                                const prune::Pruner &pruner, const prune::ValueDims &dims,
                                std::vector<ShapeArgument> &shapes) {
  std::vector<FreeSize> result;
  std::map<std::string, size_t> named;
  for (const std::string &input : pruner.inputNames()) {
    auto own = dims.find(input);
    if (own == dims.end() || own->second.empty()) {
      continue;
    }
    std::vector<std::optional<std::string>> names = pruner.freeDims(input);
    ShapeArgument shape{input, {}};
    for (size_t i = 0; i < own->second.size(); ++i) {
      int64_t size = own->second[i];
      shape.dims.push_back({size, size, false});
      if (i >= names.size() || !names[i]) {
        continue;
      }
      auto [known, isNew] = named.emplace(*names[i], result.size());
      if (isNew || names[i]->empty()) {
        known->second = result.size();
        FreeSize free;
        if (std::optional<ShapeArgument::Dim> range = givenDim(given, input, i);
            range && range->min < range->max) {
          free.min = range->min;
          free.max = range->max;
        }
        free.size = size < 0 ? likelySize(static_cast<uint32_t>(i), free.min, free.max) : size;
        result.push_back(free);
      }
      result[known->second].places.push_back({shapes.size(), i});
    }
    shapes.push_back(std::move(shape));
  }
  for (const FreeSize &free : result) {
    setSize(shapes, free, free.size);
  }
  return result;
}

class Sampler {
public:
  Sampler(const std::string &model, SampledShapes &shapes, prune::SampledDims &dims)
      : model(model), shapes(shapes), dims(dims) {}

  Status add(std::vector<ShapeArgument> sample) {
    TENON_ASSIGN(prune::ValueDims own, dimsOfValues(model, sample));
    dims.push_back(std::move(own));
    shapes.push_back(std::move(sample));
    return Status::ok();
  }
  /// Twice the size of each; of a model that does not take that, another of one after the other.
  void addOthers(const std::vector<FreeSize> &frees) {
    std::vector<ShapeArgument> twice = shapes.front();
    for (const FreeSize &free : frees) {
      int64_t larger = 2 * free.size;
      setSize(twice, free, larger <= free.max ? larger : std::max(free.min, free.size / 2));
    }
    if (frees.empty() || add(std::move(twice)).isOk()) {
      return;
    }
    for (const FreeSize &free : frees) {
      addOther(free);
    }
  }

private:
  void addOther(const FreeSize &free) {
    for (int64_t size : {2 * free.size, free.size + 1, free.size / 2, free.size - 1}) {
      std::vector<ShapeArgument> other = shapes.front();
      setSize(other, free, size);
      bool isAllowed = size >= free.min && size <= free.max && size != free.size;
      if (isAllowed && add(std::move(other)).isOk()) {
        return;
      }
    }
  }

  const std::string &model;
  SampledShapes &shapes;
  prune::SampledDims &dims;
};

} // namespace

Result<SampledShapes> sampleShapes(const std::string &model,
                                   const std::vector<ShapeArgument> &given,
                                   const prune::Pruner &pruner, prune::SampledDims &dims) {
  TENON_ASSIGN(prune::ValueDims open, dimsOfValues(model, given));
  std::vector<ShapeArgument> first;
  std::vector<FreeSize> frees = freeSizes(given, pruner, open, first);
  SampledShapes shapes;
  Sampler sampler(model, shapes, dims);
  TENON_TRY(sampler.add(std::move(first)));
  sampler.addOthers(frees);
  return shapes;
}

} // namespace tenon::tool
