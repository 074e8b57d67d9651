// Regions of a convolution as text, for tests: all that a case says, and the rest as it follows.
#pragma once

#include "test/unit/codegen/emulator/HandKernelCheck.h"

namespace tenon::codegen::cuda {

using Numbers = std::vector<int64_t>;

struct ConvCase {
  std::string type = "f16";
  int64_t images = 1;
  Numbers in; ///< spatial
  int64_t channels = 8, outChannels = 16, groups = 1;
  Numbers taps = {}, strides = {}, pads = {}, dilations = {}; ///< pads: begins, then ends
  std::string epilogue = ""; ///< words: own (the convolution's bias), bias, residual, relu, silu
  bool isConstant = true;
  bool isLaidOut = false; ///< the weight, as the family has it
  bool isDynamic = false; ///< images and their sizes vary, the same along every dim
  int64_t most = 512;     ///< of those sizes
};

inline std::string joined(const Numbers &numbers) {
  std::string text;
  for (int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

inline std::string plainTensor(const Numbers &dims, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + type + ">";
}

/// s0 images, and every spatial dim `size`, an expression of s1.
inline std::string dynamicTensor(const Numbers &dims, const std::string &type,
                                 const std::string &size) {
  std::string text = "tensor<?x", shape = "(s0, ";
  for (size_t i = 2; i < dims.size(); ++i) {
    text += "?x";
    shape += size + ", ";
  }
  std::string channels = std::to_string(dims.back());
  return text + channels + "x" + type + ", #tn.shape<()[s0, s1] -> " + shape + channels + ")>>";
}

inline Numbers ones(size_t count, int64_t value = 1) { return Numbers(count, value); }

inline bool has(const ConvCase &c, const char *word) {
  return c.epilogue.find(word) != std::string::npos;
}

/// The types of the input, the filter and the result.
struct ConvTypes {
  explicit ConvTypes(const ConvCase &c) {
    size_t spatial = c.in.size();
    Numbers laidOut{c.outChannels}, xDims{c.images}, wDims{c.outChannels, c.channels / c.groups},
        yDims{c.images};
    for (size_t i = 0; i < spatial; ++i) {
      xDims.push_back(c.in[i]);
      wDims.push_back(c.taps[i]);
      int64_t reach = (c.taps[i] - 1) * c.dilations[i] + 1;
      yDims.push_back((c.in[i] + c.pads[i] + c.pads[spatial + i] - reach) / c.strides[i] + 1);
      packing += std::to_string(2 + i) + ", ";
      laidOut.push_back(c.taps[i]);
    }
    packing += "1]";
    laidOut.push_back(c.channels / c.groups);
    stored = plainTensor(laidOut, c.type);
    xDims.push_back(c.channels);
    yDims.push_back(c.outChannels);
    x = plainTensor(xDims, c.type);
    w = plainTensor(wDims, c.type);
    y = plainTensor(yDims, c.type);
    if (c.isDynamic) {
      int64_t more = c.pads[0] + c.pads[spatial] - (c.taps[0] - 1) * c.dilations[0] - 1;
      std::string size =
          "(s1 + " + std::to_string(more) + ") floordiv " + std::to_string(c.strides[0]) + " + 1";
      x = dynamicTensor(xDims, c.type, "s1");
      y = dynamicTensor(yDims, c.type,
                        c.strides[0] == 1 ? "s1 + " + std::to_string(more + 1) : size);
    }
  }

  std::string x, w, y;
  std::string stored, packing = "outer_dims_perm = [0, "; ///< of a weight with its channels last
};

/// What follows %0 in the region.
inline std::string epilogueText(const ConvCase &c, const std::string &y, const std::string &bias) {
  std::string text, last = "%0";
  if (has(c, "bias")) {
    text += "%1 = tn.add " + last + ", %b : (" + y + ", " + bias + ") -> " + y + "\n";
    last = "%1";
  }
  if (has(c, "residual")) {
    text += "%2 = tn.add " + last + ", %r : (" + y + ", " + y + ") -> " + y + "\n";
    last = "%2";
  }
  for (const char *activation : {"relu", "silu"}) {
    if (has(c, activation)) {
      text += "%3 = tn." + std::string(activation) + " " + last + " : " + y + "\n";
      last = "%3";
    }
  }
  return text + "return " + last + " : " + y;
}

inline std::string convText(ConvCase c) {
  size_t spatial = c.in.size();
  c.strides = c.strides.empty() ? ones(spatial) : c.strides;
  c.dilations = c.dilations.empty() ? ones(spatial) : c.dilations;
  c.pads = c.pads.empty() ? ones(2 * spatial, 0) : c.pads;
  ConvTypes types(c);
  std::string bias = plainTensor({c.outChannels}, c.type), body;
  std::string stored = c.isLaidOut ? types.stored : types.w;
  std::string signature = "(%x: " + types.x + ", " + (c.isLaidOut ? "%p: " : "%w: ") + stored +
                          (c.isConstant ? " {tn.constant}" : "");
  signature += (has(c, "bias") ? ", %b: " + bias : "") + (has(c, "own") ? ", %o: " + bias : "") +
               (has(c, "residual") ? ", %r: " + types.y : "") + ") -> " + types.y;
  if (c.isLaidOut) {
    body = "%w = tn.unpack %p " + types.packing + " : (" + stored + ") -> " + types.w + "\n";
  }
  body += std::string("%0 = tn.conv %x, %w ") + (has(c, "own") ? "bias %o " : "") +
          "{strides = array<i64: " + joined(c.strides) + ">, pads = array<i64: " + joined(c.pads) +
          ">, dilations = array<i64: " + joined(c.dilations) +
          ">, groups = " + std::to_string(c.groups) + " : i64, channelsLast = true} : (" + types.x +
          ", " + types.w + (has(c, "own") ? ", " + bias : "") + ") -> " + types.y + "\n";
  return regionText("contraction", signature, body + epilogueText(c, types.y, bias),
                    c.isDynamic ? "#tn.symbol<\"s0\", 0, 64>, #tn.symbol<\"s1\", 1, " +
                                      std::to_string(c.most) + ">"
                                : "");
}

} // namespace tenon::codegen::cuda
