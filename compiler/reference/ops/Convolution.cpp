// Evaluates convolutions as blocked products whose columns are windows of the data, and transposed
// convolutions by their definition. Relies on Product.h for the sums.
#include "compiler/reference/Evaluation.h"
#include "compiler/reference/Product.h"

using namespace mlir;

namespace tenon::reference {
namespace {

/// One tensor seen as [batch, channel, depth, height, width], missing spatial dims of size 1.
struct Image {
  int64_t batch, channels;
  std::array<int64_t, 3> size = {1, 1, 1};
  int64_t batchStride, channelStride;
  std::array<int64_t, 3> stride = {0, 0, 0};

  Image(const Tensor &tensor, bool channelsLast) {
    Sizes strides = stridesOf(tensor.dims());
    size_t spatial = tensor.rank() - 2;
    size_t channelDim = channelsLast ? tensor.rank() - 1 : 1;
    size_t first = channelsLast ? 1 : 2;
    batch = tensor.dims()[0];
    batchStride = strides[0];
    channels = tensor.dims()[channelDim];
    channelStride = strides[channelDim];
    for (size_t i = 0; i < spatial; ++i) {
      size[3 - spatial + i] = tensor.dims()[first + i];
      stride[3 - spatial + i] = strides[first + i];
    }
  }
  int64_t positions() const { return size[0] * size[1] * size[2]; }
};

struct Windows {
  std::array<int64_t, 3> kernel = {1, 1, 1};
  std::array<int64_t, 3> stride = {1, 1, 1};
  std::array<int64_t, 3> dilation = {1, 1, 1};
  std::array<int64_t, 3> pad = {0, 0, 0};

  Windows(llvm::ArrayRef<int64_t> kernels, llvm::ArrayRef<int64_t> strides,
          llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations) {
    size_t spatial = kernels.size();
    for (size_t i = 0; i < spatial; ++i) {
      kernel[3 - spatial + i] = kernels[i];
      stride[3 - spatial + i] = strides[i];
      dilation[3 - spatial + i] = dilations[i];
      pad[3 - spatial + i] = pads[i];
    }
  }
  int64_t count() const { return kernel[0] * kernel[1] * kernel[2]; }
};

std::array<int64_t, 3> unflatten(int64_t index, const std::array<int64_t, 3> &size) {
  return {index / (size[1] * size[2]), index / size[2] % size[1], index % size[2]};
}

/// Element (output position, (channel, kernel position)) of the matrix that the weight multiplies.
template <typename T, typename W>
void packWindows(const T *data, const Image &image, const Windows &windows, int64_t channel,
                 const std::array<int64_t, 3> &outSize, const PackRequest &request, W *out) {
  for (int64_t i = 0; i < request.lines; ++i) {
    std::array<int64_t, 3> position = unflatten(request.line + i, outSize);
    int64_t c = channel + request.depth / windows.count();
    std::array<int64_t, 3> tap = unflatten(request.depth % windows.count(), windows.kernel);
    for (int64_t k = 0; k < request.depths; ++k) {
      int64_t offset = c * image.channelStride;
      bool inside = true;
      for (size_t d = 0; d < 3; ++d) {
        int64_t at =
            position[d] * windows.stride[d] + tap[d] * windows.dilation[d] - windows.pad[d];
        inside &= at >= 0 && at < image.size[d];
        offset += at * image.stride[d];
      }
      out[k * request.stride + i] = inside ? W(widen(data[offset])) : W(0);
      for (size_t d = 3; d-- > 0;) {
        if (++tap[d] < windows.kernel[d]) {
          break;
        }
        tap[d] = 0;
        c += d == 0;
      }
    }
  }
}

template <typename X, typename F, typename T>
void convolve(ThreadPool &pool, const Image &x, const Image &y, const Windows &windows,
              int64_t groups, const X *xData, const F *weight, const T *bias, T *yData) {
  using W = std::conditional_t<kIsFloat<T>, double, uint64_t>;
  int64_t inPerGroup = x.channels / groups;
  int64_t outPerGroup = y.channels / groups;
  int64_t depth = inPerGroup * windows.count();
  multiply<W>(
      pool, {x.batch * groups, outPerGroup, y.positions(), depth},
      [&](const PackRequest &request, W *out) {
        const F *rows = weight + (request.batch % groups * outPerGroup + request.line) * depth;
        for (int64_t i = 0; i < request.lines; ++i) {
          for (int64_t k = 0; k < request.depths; ++k) {
            out[k * request.stride + i] = W(widen(rows[i * depth + request.depth + k]));
          }
        }
      },
      [&](const PackRequest &request, W *out) {
        packWindows(xData + request.batch / groups * x.batchStride, x, windows,
                    request.batch % groups * inPerGroup, y.size, request, out);
      },
      [&](int64_t batch, int64_t row, int64_t column, int64_t count, const W *values) {
        int64_t channel = batch % groups * outPerGroup + row;
        T *out = yData + batch / groups * y.batchStride + channel * y.channelStride;
        W added = bias ? W(widen(bias[channel])) : W(0);
        for (int64_t j = 0; j < count; ++j) {
          std::array<int64_t, 3> at = unflatten(column + j, y.size);
          out[at[0] * y.stride[0] + at[1] * y.stride[1] + at[2] * y.stride[2]] =
              narrow<T>(W(values[j] + added));
        }
      });
}

Status evaluateConv(Evaluation &evaluation) {
  tn::ConvOp op = cast<tn::ConvOp>(evaluation.op);
  const Tensor &x = evaluation.get(op.getX());
  const Tensor &weight = evaluation.get(op.getWeight());
  const Tensor *bias = op.getBias() ? evaluation.find(op.getBias()) : nullptr;
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Image in(x, op.getChannelsLast());
  Image out(y, op.getChannelsLast());
  int64_t groups = op.getGroups();
  Windows windows(weight.dims().drop_front(2), op.getStrides(), op.getPads(), op.getDilations());
  if (in.channels != weight.dims()[1] * groups || out.channels != weight.dims()[0] ||
      in.batch != out.batch || (bias && bias->count() != out.channels)) {
    return badOperand("the shapes of data, weight and bias do not fit");
  }
  if (y.dtype() == DType::I32 && weight.dtype() == DType::I8) {
    auto ofBytes = [&](const auto *numbers) {
      convolve(evaluation.pool, in, out, windows, groups, numbers, weight.as<int8_t>(),
               bias ? bias->as<int32_t>() : nullptr, y.as<int32_t>());
    };
    if (x.dtype() == DType::I8) {
      ofBytes(x.as<int8_t>());
    } else {
      ofBytes(x.as<uint8_t>());
    }
    return evaluation.finish(std::move(y));
  }
  auto run = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    convolve(evaluation.pool, in, out, windows, groups, x.as<T>(), weight.as<T>(),
             bias ? bias->as<T>() : nullptr, y.as<T>());
    return Status::ok();
  };
  TENON_TRY(isFloat(x.dtype()) ? visitFloat(x.dtype(), run) : visitInteger(x.dtype(), run));
  return evaluation.finish(std::move(y));
}

/// One element of a transposed convolution: the sum over the inputs whose windows cover it.
template <typename T, typename W>
W transposedElement(const Image &x, const Windows &windows, const T *data, const T *weight,
                    int64_t channels, int64_t weightStride, const std::array<int64_t, 3> &at) {
  W sum = 0;
  for (int64_t k = 0; k < windows.count(); ++k) {
    std::array<int64_t, 3> tap = unflatten(k, windows.kernel);
    int64_t offset = 0;
    bool covers = true;
    for (size_t d = 0; d < 3; ++d) {
      int64_t distance = at[d] + windows.pad[d] - tap[d] * windows.dilation[d];
      int64_t source = distance / windows.stride[d];
      covers &= distance >= 0 && distance % windows.stride[d] == 0 && source < x.size[d];
      offset += source * x.stride[d];
    }
    for (int64_t c = 0; covers && c < channels; ++c) {
      sum += W(widen(data[c * x.channelStride + offset])) * W(widen(weight[c * weightStride + k]));
    }
  }
  return sum;
}

Status evaluateConvTranspose(Evaluation &evaluation) {
  tn::ConvTransposeOp op = cast<tn::ConvTransposeOp>(evaluation.op);
  const Tensor &x = evaluation.get(op.getX());
  const Tensor &weight = evaluation.get(op.getWeight());
  const Tensor *bias = op.getBias() ? evaluation.find(op.getBias()) : nullptr;
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Image in(x, false);
  Image out(y, false);
  int64_t groups = op.getGroups();
  Windows windows(weight.dims().drop_front(2), op.getStrides(), op.getPads(), op.getDilations());
  int64_t inPerGroup = in.channels / groups;
  int64_t outPerGroup = weight.dims()[1];
  if (in.channels != weight.dims()[0] || out.channels != outPerGroup * groups ||
      in.batch != out.batch || (bias && bias->count() != out.channels)) {
    return badOperand("the shapes of data, weight and bias do not fit");
  }
  auto run = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using W = std::conditional_t<kIsFloat<T>, double, uint64_t>;
    evaluation.pool.parallelFor(y.count(), [&](int64_t begin, int64_t end, unsigned) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t channel = i / out.positions() % out.channels;
        int64_t firstIn = channel / outPerGroup * inPerGroup;
        const T *data = x.as<T>() + i / out.positions() / out.channels * in.batchStride +
                        firstIn * in.channelStride;
        const T *taps =
            weight.as<T>() + (firstIn * outPerGroup + channel % outPerGroup) * windows.count();
        W sum = transposedElement<T, W>(in, windows, data, taps, inPerGroup,
                                        outPerGroup * windows.count(),
                                        unflatten(i % out.positions(), out.size));
        y.as<T>()[i] = narrow<T>(W(sum + (bias ? W(widen(bias->as<T>()[channel])) : W(0))));
      }
    });
    return Status::ok();
  };
  TENON_TRY(isFloat(x.dtype()) ? visitFloat(x.dtype(), run) : visitInteger(x.dtype(), run));
  return evaluation.finish(std::move(y));
}

constexpr OpRow kConvolutionOpRows[] = {
    {"tn.conv", evaluateConv},
    {"tn.conv_transpose", evaluateConvTranspose},
};

} // namespace

llvm::ArrayRef<OpRow> convolutionOps() { return kConvolutionOpRows; }

} // namespace tenon::reference
