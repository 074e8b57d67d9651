// Joins the PTX of regions. Relies on their names being different, which begin with the regions'
// symbols, and on all being for one architecture.
#include "compiler/codegen/cuda/CudaCodegen.h"

namespace tenon::codegen::cuda {
namespace {

constexpr llvm::StringLiteral kHeader[] = {".version", ".target", ".address_size"};

bool isHeader(llvm::StringRef line) {
  return llvm::any_of(kHeader, [&](llvm::StringRef word) { return line.starts_with(word); });
}

} // namespace

llvm::Expected<std::string> linkPtx(llvm::ArrayRef<llvm::StringRef> modules) {
  std::string header, code;
  for (llvm::StringRef rest : modules) {
    std::string own;
    while (!rest.empty()) {
      llvm::StringRef line;
      std::tie(line, rest) = rest.split('\n');
      if (!line.empty()) {
        (isHeader(line) ? own : code) += (line + "\n").str();
      }
    }
    if (!header.empty() && !own.empty() && own != header) {
      return llvm::createStringError("the PTX of one engine is for several architectures");
    }
    header = own.empty() ? header : own;
  }
  std::string result = header + code;
  result.push_back('\0');
  return result;
}

} // namespace tenon::codegen::cuda
