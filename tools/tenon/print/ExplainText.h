// The texts of `tenon explain`: a record as a first screen that ends in what to do next, or whole.
// They rely on names having been made visible.

#pragma once

#include "support/json/Json.h"

#include <string>

namespace tenon::tool {

/// How much of a record is said.
enum class Extent {
  Screen, ///< at most 40 lines
  All,    ///< every region, neighbour or buffer
  Chosen, ///< the record holds what a node has to do with: all of it
};

/// What a text is of.
struct Explained {
  const Json &record;
  std::string engine; ///< as the user named it, for commands
  Extent extent = Extent::Screen;
};

std::string fusionText(const Explained &what);
std::string kernelsText(const Explained &what);
std::string memoryText(const Explained &what);
std::string placementText(const Explained &what);
std::string precisionText(const Explained &what);
std::string passesText(const Explained &what);

/// The first lines of a text that is longer than a screen, and how to see the rest.
std::string firstScreen(const std::string &text, const std::string &topic,
                        const std::string &engine);

} // namespace tenon::tool
