// Whether the file of a picture is all there. The decoder checks neither a PNG's checksums nor that
// the others end: damage would be another picture.

#pragma once

#include "support/memory/ByteSpan.h"

namespace tenon {

/// A PNG, JPEG, PPM or PGM (of 8 bits) from its first to its last byte.
bool isWholePicture(Bytes bytes);

} // namespace tenon
