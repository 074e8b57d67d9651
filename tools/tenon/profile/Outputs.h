// The files of a profile for other programs and for browsers. Each gives the whole text.

#pragma once

#include "tools/tenon/profile/Profile.h"

#include <string>

namespace tenon::tool {

/// One page that needs no network: roofline, table by operator, kind, module and source line.
std::string pageOf(const Profile &profile);
/// Chrome's trace events, as Perfetto reads them: steps in a row at their mean times, and the
/// operators inside of each.
std::string traceOf(const Profile &profile);
/// The layers in the form of `trtexec --exportLayerInfo`, and their times in that of
/// `--exportProfile`, which tools for TensorRT's engines read (trex).
std::string layersOf(const Profile &profile);
std::string layerTimesOf(const Profile &profile);

} // namespace tenon::tool
