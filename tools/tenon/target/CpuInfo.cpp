#include "tools/tenon/target/CpuInfo.h"

#include <fstream>

namespace tenon::tool {

std::string cpuInfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

} // namespace tenon::tool
