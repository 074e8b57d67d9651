// Post-training quantization of an ONNX model: what to observe, and the model with QuantizeLinear
// and DequantizeLinear once it was observed. Free of MLIR; who runs the model is the caller's
// affair.
//
// Of the other files, in the order of reading: Graph (who makes and reads a value), Layers (what is
// multiplied, and why it is to stay wide), Plan (tensors that share a range), Range and Smoothing
// (what was observed becomes scales), Weights and Blocks (constants in 8 and 4 bits), QdqWriter
// (the new nodes), PortableForms (what other runtimes need of them) and ModelEdit (the changed
// file); Opset raises old models first.
#pragma once

#include "compiler/opt/precision/Observation.h"
#include "compiler/quant/ConstantSink.h"
#include "compiler/quant/Gram.h"
#include "compiler/quant/Plan.h"
#include "compiler/quant/Range.h"
#include "compiler/quant/Smoothing.h"
#include "support/DType.h"
#include "support/Result.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::quant {

/// How narrow layers say their numbers.
enum class Scheme : uint8_t {
  Static,        ///< QuantizeLinear and DequantizeLinear, activations u8, weights s8
  Float8,        ///< the same with E4M3 on both sides, of opset 19
  DynamicToken,  ///< products of s8 by s8 whose rows find their scales when they run
  DynamicTensor, ///< DynamicQuantizeLinear and MatMulInteger: one scale for all that a run reads
};
inline bool isDynamic(Scheme scheme) {
  return scheme == Scheme::DynamicToken || scheme == Scheme::DynamicTensor;
}

/// How a model says weights of 4 bits.
enum class BlockForm : uint8_t {
  Product,   ///< com.microsoft's MatMulNBits
  Dequantize ///< DequantizeLinear with block_size, of opset 21
};

struct Settings {
  Scheme scheme = Scheme::Static;
  RangeMethod method = RangeMethod::Mse;
  double percentile = 99.99;
  /// 8 or 4: weights only, which needs no samples; products of 4 bits, other layers of 8.
  unsigned weightBits = 0;
  BlockForm blockForm = BlockForm::Product; ///< of those of 4 bits
  bool reducesRange = false;                ///< weights up to kMaxReduced
  bool smooths = true;                      ///< SmoothQuant, where it is predicted to help
  bool correctsBias = true;                 ///< where the samples support it
  bool mayBeNone = false; ///< whether a model of which nothing is quantized is no error
  /// Treatments of layers and tables by the names of their nodes, which replace the first guess.
  Overrides overrides;
};

/// What observers say of a tensor.
struct Observed {
  Histogram histogram;
  Channels channels;
};

/// What became of a layer, or of an embedding table by the node that reads it.
struct LayerInfo {
  std::string name, op;
  Treatment treatment = Treatment::Narrow;
  std::string reason; ///< why it is not narrow
  unsigned bits = 8;  ///< of the weights, unless it is wide
  double roundingGain =
      0;                  ///< of 4 bits rounded by samples: decibels that the product's error falls
  double weightError = 0; ///< squared, relative; of weights that stay wide 0
  /// Channels whose bias takes off the mean of what rounding the weights adds, and the largest of
  /// these in terms of the standard deviation of the channel.
  size_t corrected = 0;
  double correction = 0;
  double correctionGain = 0; ///< decibels that the error of the rounded weights falls by it
};

/// What became of a quantization group.
struct TensorInfo {
  std::string name; ///< of the first of its tensors
  size_t tensors = 1;
  Range seen, range;
  Affine affine;
  std::vector<std::string> readers; ///< the narrow layers that read it
  double decibels = 0;              ///< signal to quantization noise
  double levels = 0;                ///< levels that the middle 95 % of the values lie on
  double clipped = 0;               ///< share of the values outside of the range
  double alpha = 0;                 ///< of SmoothQuant; 0 where it is not used
  double gain = 0;        ///< what that adds to the signal over noise of the products, in decibels
  bool isRefused = false; ///< whether entropy's range was worse than min-max's, which it got then
};

struct QuantizationInfo {
  std::vector<LayerInfo> layers;
  std::vector<TensorInfo> tensors;
  std::vector<LayerInfo> tables;
};

/// An input of the model; -1 is a free dim.
struct InputInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
};

class Quantizer {
public:
  /// An error for a model that is quantized already, that has no layer to quantize, or of an old
  /// opset that cannot be raised to 13 (Opset.h).
  static Result<Quantizer> open(const std::string &path, const Settings &settings);
  Quantizer(Quantizer &&) noexcept;
  Quantizer &operator=(Quantizer &&) noexcept;
  ~Quantizer();

  Result<std::vector<InputInfo>> inputs() const;
  /// A text of the model's own; empty where it has none of that key.
  std::string metadata(std::string_view key) const;
  const Graph &graph() const;
  /// What is decided so far: chooseRanges may leave more wide.
  const Plan &plan() const;
  /// What to observe, and the names among it that are no inputs of the model.
  const std::vector<opt::Observation> &observations() const;
  std::vector<std::string> innerObserved() const;

  /// Tensors of whose rows a Gram matrix helps to round, with the depth of each; empty but for
  /// weights of 4 bits.
  std::map<std::string, size_t> gramTensors() const;
  void setGrams(Grams known);

  /// Finds the ranges: what was seen by each observation over `runs` runs.
  Status chooseRanges(const std::vector<Observed> &seen, size_t runs);
  /// A text for the metadata of what is written, beside that of `write`.
  void addMetadata(std::string key, std::string text);
  /// The quantized model, with a text of the caller's in its metadata unless that is empty. After
  /// chooseRanges. Constants go to the sink where the file has no room for them.
  Result<std::string> write(std::string_view key, const std::string &text,
                            ConstantSink *sink = nullptr);
  /// After write.
  const QuantizationInfo &info() const;

private:
  struct Impl;
  explicit Quantizer(std::unique_ptr<Impl> implementation);
  std::unique_ptr<Impl> impl;
};

} // namespace tenon::quant
