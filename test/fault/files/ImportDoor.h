// The doors of models: all of the importer where it is built, else the readers below it.
#pragma once

#include "support/Status.h"

#include <string>

namespace tenon::test {

Status importDoor(const std::string &path);
Status pt2Door(const std::string &path);

} // namespace tenon::test
