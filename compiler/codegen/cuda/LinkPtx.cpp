// Joins the PTX of regions. Relies on their names being different, which begin with the regions'
// symbols, and on all being for one architecture; the version is the newest, which has what older
// ones have.
#include "compiler/codegen/cuda/CudaCodegen.h"

namespace tenon::codegen::cuda {
namespace {

constexpr llvm::StringLiteral kVersion = ".version", kTarget = ".target",
                              kAddresses = ".address_size";

/// Of "9.0" more than of "8.7".
std::pair<unsigned, unsigned> orderOf(llvm::StringRef version) {
  auto [major, minor] = version.split('.');
  std::pair<unsigned, unsigned> numbers;
  major.getAsInteger(10, numbers.first);
  minor.getAsInteger(10, numbers.second);
  return numbers;
}

} // namespace

llvm::Expected<std::string> linkPtx(llvm::ArrayRef<llvm::StringRef> modules) {
  std::string code;
  llvm::StringRef version, target;
  for (llvm::StringRef rest : modules) {
    while (!rest.empty()) {
      llvm::StringRef line;
      std::tie(line, rest) = rest.split('\n');
      if (llvm::StringRef own = line; own.consume_front(kVersion)) {
        own = own.trim();
        version = orderOf(own) > orderOf(version) ? own : version;
      } else if (own.consume_front(kTarget)) {
        own = own.trim();
        if (!target.empty() && own != target) {
          return llvm::createStringError("the PTX of one engine is for several architectures");
        }
        target = own;
      } else if (!line.empty() && !line.starts_with(kAddresses)) {
        code += (line + "\n").str();
      }
    }
  }
  std::string result = (kVersion + " " + version + "\n" + kTarget + " " + target + "\n" +
                        kAddresses + " 64\n" + code)
                           .str();
  result.push_back('\0');
  return result;
}

} // namespace tenon::codegen::cuda
