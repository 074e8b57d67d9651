// Evaluates layer, RMS, group and batch normalization, each in two passes of doubles.
// Relies on scale and bias broadcasting over the normalized dims, which is checked.
#include "compiler/reference/Evaluation.h"

using namespace mlir;

namespace tenon::reference {
namespace {

/// An optional parameter as doubles, spread over `dims`; `absent` everywhere if there is none.
Result<std::vector<double>> spread(const Tensor *parameter, llvm::ArrayRef<int64_t> dims,
                                   double absent) {
  std::vector<double> values(productOf(dims), absent);
  if (!parameter) {
    return values;
  }
  TENON_ASSIGN(Sizes strides, broadcastStrides(parameter->dims(), dims));
  TENON_TRY(visitFloat(parameter->dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Walker<1> walker(dims, {strides}, 0);
    for (double &value : values) {
      value = widen(parameter->as<T>()[walker.offset()]);
      walker.next();
    }
    return Status::ok();
  }));
  return values;
}

struct Moments {
  double mean = 0;
  double variance = 0;
};

template <typename T> Moments momentsOf(const T *values, int64_t count, bool centered) {
  Moments moments;
  for (int64_t i = 0; centered && i < count; ++i) {
    moments.mean += widen(values[i]) / count;
  }
  for (int64_t i = 0; i < count; ++i) {
    double distance = widen(values[i]) - moments.mean;
    moments.variance += distance * distance / count;
  }
  return moments;
}

/// Normalizes each contiguous row of dims `row`; without `centered` the mean counts as zero.
Status normalizeRows(Evaluation &evaluation, llvm::ArrayRef<int64_t> row, bool centered,
                     double epsilon, const Tensor *scale, const Tensor *bias) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_ASSIGN(std::vector<double> factors, spread(scale, row, 1));
  TENON_ASSIGN(std::vector<double> offsets, spread(bias, row, 0));
  int64_t size = productOf(row);
  TENON_TRY(visitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    int64_t rows = size ? x.count() / size : 0;
    evaluation.pool.parallelFor(rows, [&](int64_t begin, int64_t end, unsigned) {
      for (int64_t r = begin; r < end; ++r) {
        const T *in = x.as<T>() + r * size;
        Moments moments = momentsOf(in, size, centered);
        double factor = 1 / std::sqrt(moments.variance + epsilon);
        for (int64_t i = 0; i < size; ++i) {
          double normal = (widen(in[i]) - moments.mean) * factor;
          y.as<T>()[r * size + i] = narrow<T>(normal * factors[i] + offsets[i]);
        }
      }
    });
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateLayerNorm(Evaluation &evaluation) {
  tn::LayerNormOp op = cast<tn::LayerNormOp>(evaluation.op);
  return normalizeRows(evaluation, evaluation.operands[0].dims().drop_front(op.getAxis()), true,
                       op.getEpsilon().convertToDouble(), evaluation.find(op.getScale()),
                       evaluation.find(op.getBias()));
}

Status evaluateRmsNorm(Evaluation &evaluation) {
  tn::RmsNormOp op = cast<tn::RmsNormOp>(evaluation.op);
  return normalizeRows(evaluation, evaluation.operands[0].dims().drop_front(op.getAxis()), false,
                       op.getEpsilon().convertToDouble(), evaluation.find(op.getScale()), nullptr);
}

Status evaluateGroupNorm(Evaluation &evaluation) {
  tn::GroupNormOp op = cast<tn::GroupNormOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  double epsilon = op.getEpsilon().convertToDouble();
  int64_t channels = x.dims()[1];
  int64_t groups = op.getGroups();
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_ASSIGN(std::vector<double> factors, spread(&evaluation.get(op.getScale()), channels, 1));
  TENON_ASSIGN(std::vector<double> offsets, spread(&evaluation.get(op.getBias()), channels, 0));
  int64_t perGroup = channels / groups;
  int64_t positions = productOf(x.dims().drop_front(2));
  int64_t size = perGroup * positions;
  TENON_TRY(visitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (int64_t block = 0; size != 0 && block < x.count() / size; ++block) {
      const T *in = x.as<T>() + block * size;
      Moments moments = momentsOf(in, size, true);
      double factor = 1 / std::sqrt(moments.variance + epsilon);
      for (int64_t i = 0; i < size; ++i) {
        int64_t channel = block % groups * perGroup + i / positions;
        double normal = (widen(in[i]) - moments.mean) * factor;
        y.as<T>()[block * size + i] = narrow<T>(normal * factors[channel] + offsets[channel]);
      }
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateBatchNorm(Evaluation &evaluation) {
  tn::BatchNormOp op = cast<tn::BatchNormOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  double epsilon = op.getEpsilon().convertToDouble();
  size_t channelDim = op.getChannelsLast() ? x.rank() - 1 : 1;
  int64_t channels = x.dims()[channelDim];
  int64_t inner = productOf(x.dims().drop_front(channelDim + 1));
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_ASSIGN(std::vector<double> scale, spread(&evaluation.get(op.getScale()), channels, 1));
  TENON_ASSIGN(std::vector<double> bias, spread(&evaluation.get(op.getBias()), channels, 0));
  TENON_ASSIGN(std::vector<double> mean, spread(&evaluation.get(op.getMean()), channels, 0));
  TENON_ASSIGN(std::vector<double> variance, spread(&evaluation.get(op.getVar()), channels, 1));
  TENON_TRY(visitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < x.count(); ++i) {
      int64_t c = i / inner % channels;
      double normal = (widen(x.as<T>()[i]) - mean[c]) / std::sqrt(variance[c] + epsilon);
      y.as<T>()[i] = narrow<T>(normal * scale[c] + bias[c]);
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

constexpr OpRow kNormalizeOpRows[] = {
    {"tn.layer_norm", evaluateLayerNorm},
    {"tn.rms_norm", evaluateRmsNorm},
    {"tn.group_norm", evaluateGroupNorm},
    {"tn.batch_norm", evaluateBatchNorm},
};

} // namespace

llvm::ArrayRef<OpRow> normalizeOps() { return kNormalizeOpRows; }

} // namespace tenon::reference
