// Pooling over regions of a map whose borders the data decides: RoiAlign.
#pragma once

#include "compiler/frontend/common/Emitter.h"

namespace tenon::frontend {

struct RegionPooling {
  int64_t height, width; ///< bins of a region
  int64_t samples;       ///< along each dim of a bin
  bool halfPixel;        ///< pixels have their centres at halves, and a region any size
  bool isMax;            ///< the largest weighted pixel instead of the mean of samples
  double scale;          ///< from the boxes' coordinates to pixels
};

/// The map [images, channels, rows, columns] pooled in each of the boxes [regions, 4] (x1, y1, x2,
/// y2) of the images with these numbers [regions]: [regions, channels, height, width]. Null after a
/// failure.
mlir::Value alignRegions(Emitter &c, mlir::Value map, mlir::Value boxes, mlir::Value images,
                         const RegionPooling &pooling);

} // namespace tenon::frontend
