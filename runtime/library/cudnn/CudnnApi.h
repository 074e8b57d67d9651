// The part of cuDNN's backend interface that Tenon calls, declared here so that building needs no
// header of NVIDIA. Names and values are those of cudnn_graph.h of cuDNN 9; they are part of the
// library's binary interface.

#pragma once

#include "runtime/library/Loader.h"

#include <cstddef>
#include <cstdint>

namespace tenon::library::cudnn {

struct Context;
using RawDescriptor = void *;

inline constexpr int kSuccess = 0;
/// Statuses from here to kNotSupportedEnd say that there is no engine for what is asked.
inline constexpr int kNotSupported = 3000;
inline constexpr int kNotSupportedEnd = 4000;

enum class DataType : int { Float = 0, Double = 1, Half = 2, BFloat16 = 9 };

enum class HeuristicMode : int { A = 3, B = 1, Fallback = 2 };

enum class PointwiseMode : int {
  Add = 0,
  Multiply = 1,
  Divide = 6,
  Subtract = 9,
  Exp = 13,
  Log = 15,
  Relu = 100,
  GeluTanh = 107,
};

enum class ReductionMode : int { Sum = 0, Max = 3 };

inline constexpr int kCrossCorrelation = 1;

enum class NumericalNote : int {
  TensorCore = 0,
  DownConvertInputs = 1,
  ReducedPrecisionReduction = 2,
  Nondeterministic = 4,
  WinogradTile6x6 = 7,
  WinogradTile13x13 = 8,
};
inline constexpr int kMaxNotes = 32;

enum class DescriptorType : int {
  Pointwise = 0,
  Convolution = 1,
  Engine = 2,
  EngineConfig = 3,
  EngineHeuristic = 4,
  ExecutionPlan = 5,
  OperationConvolutionForward = 10,
  OperationPointwise = 13,
  OperationGraph = 15,
  VariantPack = 16,
  Tensor = 17,
  Matmul = 18,
  OperationMatmul = 19,
  Reduction = 21,
  OperationReduction = 22,
};

enum class AttributeType : int {
  Handle = 0,
  DataType = 1,
  Boolean = 2,
  Int64 = 3,
  Float = 4,
  VoidPointer = 6,
  ConvolutionMode = 7,
  HeuristicMode = 8,
  NumericalNote = 11,
  PointwiseMode = 14,
  Descriptor = 15,
  ReductionMode = 18,
  Char = 24,
};

enum class Attribute : int {
  PointwiseMode = 0,
  PointwiseMathPrecision = 1,
  ConvolutionComputeType = 100,
  ConvolutionMode = 101,
  ConvolutionDilations = 102,
  ConvolutionStrides = 103,
  ConvolutionPostPaddings = 104,
  ConvolutionPrePaddings = 105,
  ConvolutionSpatialDims = 106,
  HeuristicMode = 200,
  HeuristicOperationGraph = 201,
  HeuristicResults = 202,
  EngineConfigEngine = 300,
  PlanHandle = 400,
  PlanEngineConfig = 401,
  PlanWorkspaceSize = 402,
  PlanJson = 405,
  ForwardAlpha = 700,
  ForwardBeta = 701,
  ForwardConvolution = 702,
  ForwardW = 703,
  ForwardX = 704,
  ForwardY = 705,
  OperationPointwiseDescriptor = 750,
  OperationPointwiseX = 751,
  OperationPointwiseB = 752,
  OperationPointwiseY = 753,
  GraphHandle = 800,
  GraphOperations = 801,
  TensorAlignment = 900,
  TensorDataType = 901,
  TensorDimensions = 902,
  TensorStrides = 903,
  TensorUniqueId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  PackUniqueIds = 1000,
  PackDataPointers = 1001,
  PackWorkspace = 1003,
  EngineGlobalIndex = 1301,
  EngineNumericalNote = 1303,
  MatmulComputeType = 1500,
  OperationMatmulA = 1520,
  OperationMatmulB = 1521,
  OperationMatmulC = 1522,
  OperationMatmulDescriptor = 1523,
  ReductionMode = 1600,
  ReductionComputeType = 1601,
  OperationReductionX = 1610,
  OperationReductionY = 1611,
  OperationReductionDescriptor = 1612,
};

struct Api {
  OpenLibrary library;
  int (*create)(Context **);
  int (*setStream)(Context *, void *stream);
  size_t (*getVersion)();
  const char *(*getErrorString)(int);
  int (*createDescriptor)(int type, RawDescriptor *);
  int (*destroyDescriptor)(RawDescriptor);
  int (*finalize)(RawDescriptor);
  int (*setAttribute)(RawDescriptor, int name, int type, int64_t count, const void *values);
  int (*getAttribute)(RawDescriptor, int name, int type, int64_t room, int64_t *count,
                      void *values);
  int (*execute)(Context *, RawDescriptor plan, RawDescriptor pack);
};

/// Opens the library and finds every function.
Result<Api> openApi(const std::string &folder);

/// "9.19.0".
std::string versionOf(const Api &api);

} // namespace tenon::library::cudnn
