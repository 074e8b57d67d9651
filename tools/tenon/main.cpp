// The command `tenon`: see Tool.cpp.

#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/Tool.h"

int main(int argc, char **argv) {
  tenon::tool::containCrashes();
  return tenon::tool::runTool(argc, argv);
}
