// The door of ONNX models: all of the importer where it is built, else the readers below it.
#pragma once

#include "support/Status.h"

#include <string>

namespace tenon::test {

Status importDoor(const std::string &path);

} // namespace tenon::test
