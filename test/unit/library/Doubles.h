// What the stand-ins for cuBLASLt and cuDNN were told, and how they are told to refuse. The tests
// read it through the symbol `tenonDoubleState` of the library that was opened.

#pragma once

#include <cstddef>
#include <cstdint>

struct CublasLtState {
  bool refuse = false;       ///< the heuristics have no algorithm
  bool hasSmallTile = false; ///< the last algorithm is 66 with a tile of 128 x 128
  int compute = 0;
  int scale = 0;
  int type = -1;
  uint32_t epilogue = 0;
  uint32_t reductionSchemes = 0;
  uint32_t alignment = 0;
  uintptr_t biasAlignment = 0;
  int algorithm = -1;
  int heuristics = 0; ///< how often algorithms were asked for
  size_t workspace = 0;
  void *stream = nullptr;
};

struct CudnnState {
  bool refuseFused = false; ///< no engine for graphs of a convolution and something else
  bool refuseAll = false;
  bool refuseRestore = false; ///< kept plans are not taken
  int engines = 5;            ///< that the heuristics name
  size_t workspace = 512;     ///< of most engines
  int heuristics = 0;         ///< how often engines were asked for
  int engine = -1;            ///< of the last execution
  int executions = 0;
  int alive = 0; ///< descriptors
  int mathType = -1;
  void *stream = nullptr;
};
