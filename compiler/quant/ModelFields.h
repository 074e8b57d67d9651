// Field numbers of onnx.proto and the types of its attributes, as far as models are changed.
#pragma once

#include <cstdint>

namespace tenon::quant {

inline constexpr unsigned kModelIr = 1, kModelGraph = 7, kModelOpset = 8, kModelMetadata = 14;
inline constexpr unsigned kOpsetDomain = 1, kOpsetVersion = 2;
inline constexpr unsigned kGraphNode = 1, kGraphInitializer = 5, kGraphInput = 11, kGraphValue = 13,
                          kGraphSparse = 15;
inline constexpr unsigned kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOp = 4,
                          kNodeAttribute = 5, kNodeDomain = 7;
inline constexpr unsigned kAttributeName = 1, kAttributeReal = 2, kAttributeInteger = 3,
                          kAttributeText = 4, kAttributeGraph = 6, kAttributeIntegers = 8,
                          kAttributeType = 20;
inline constexpr unsigned kRealType = 1, kIntegerType = 2, kTextType = 3, kGraphType = 5,
                          kIntegersType = 7;

} // namespace tenon::quant
