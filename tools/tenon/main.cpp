// The command `tenon`: see Tool.cpp.

#include "tools/tenon/Tool.h"
#include "tools/tenon/model/CompilerBridge.h"

int main(int argc, char **argv) {
  tenon::tool::containCrashes();
  return tenon::tool::runTool(argc, argv);
}
