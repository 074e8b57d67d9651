// Walks the opcodes of Python's module pickletools, with the sizes of their arguments as it
// documents them.

#include "registry/Pickle.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace tenon::registry {
namespace {

/// What tensors, and containers of them, are made by.
constexpr std::string_view kHarmless[] = {
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    "torch.Size",
    "torch.device",
    "torch.FloatStorage",
    "torch.DoubleStorage",
    "torch.HalfStorage",
    "torch.BFloat16Storage",
    "torch.LongStorage",
    "torch.IntStorage",
    "torch.ShortStorage",
    "torch.CharStorage",
    "torch.ByteStorage",
    "torch.BoolStorage",
    "torch.ComplexFloatStorage",
    "torch.ComplexDoubleStorage",
};

enum Opcode : unsigned char {
  kProto = 0x80,
  kStop = '.',
  kGlobal = 'c',
  kInst = 'i',
  kStackGlobal = 0x93,
  kExt1 = 0x82,
  kExt4 = 0x84,
};

class Walker {
public:
  explicit Walker(Bytes bytes) : text(reinterpret_cast<const char *>(bytes.data()), bytes.size()) {}

  bool walk();
  std::vector<std::string> imports;

private:
  bool step(unsigned char opcode);
  bool skip(uint64_t size) {
    bool isThere = size <= text.size();
    text.remove_prefix(isThere ? size : 0);
    return isThere;
  }
  /// The bytes behind a length of so many bytes, little-endian.
  bool counted(size_t width, std::string_view &content);
  bool line(std::string_view &content);
  void importTop();

  std::string_view text;
  std::vector<std::string_view> strings; ///< that were put on the stack last, in a row
};

bool Walker::counted(size_t width, std::string_view &content) {
  uint64_t size = 0;
  for (size_t i = 0; i < width && i < text.size(); ++i) {
    size |= uint64_t(static_cast<unsigned char>(text[i])) << (8 * i);
  }
  if (!skip(width) || size > text.size()) {
    return false;
  }
  content = text.substr(0, size);
  return skip(size);
}

bool Walker::line(std::string_view &content) {
  size_t end = text.find('\n');
  content = text.substr(0, end);
  return end != text.npos && skip(end + 1);
}

void Walker::importTop() {
  bool isKnown = strings.size() >= 2;
  imports.push_back(
      isKnown ? std::string(strings[strings.size() - 2]) + "." + std::string(strings.back()) : "?");
}

bool Walker::step(unsigned char opcode) {
  std::string_view content, second;
  constexpr std::string_view kStrings1 = "U\x8c", kStrings4 = "TX", kStrings8 = "\x8d";
  bool is1 = kStrings1.find(static_cast<char>(opcode)) != kStrings1.npos,
       is4 = kStrings4.find(static_cast<char>(opcode)) != kStrings4.npos;
  if (is1 || is4 || kStrings8[0] == static_cast<char>(opcode)) {
    bool isWhole = counted(is1 ? 1 : is4 ? 4 : 8, content);
    strings.push_back(content);
    return isWhole;
  }
  switch (opcode) {
  case 'q':
  case 'h':
  case 0x94:
  case 'r':
  case 'j': // into the memo and out of it
    if (opcode == 'h' || opcode == 'j') {
      strings.clear(); // what comes from there is not followed
    }
    return skip(opcode == 0x94 ? 0 : opcode == 'q' || opcode == 'h' ? 1 : 4);
  case kStackGlobal:
    importTop();
    strings.clear();
    return true;
  default:
    strings.clear();
  }
  switch (opcode) {
  case kProto:
  case 'K':
  case kExt1:
    imports.insert(imports.end(), opcode == kExt1, "?");
    return skip(1);
  case 'M':
  case 0x83:
    imports.insert(imports.end(), opcode == 0x83, "?");
    return skip(2);
  case 'J':
  case kExt4:
    imports.insert(imports.end(), opcode == kExt4, "?");
    return skip(4);
  case 'G':
  case 0x95: // a float, a frame
    return skip(8);
  case 'C':
  case 0x8a:
    return counted(1, content);
  case 'B':
  case 0x8b:
    return counted(4, content);
  case 0x8e:
  case 0x96:
    return counted(8, content);
  case 'I':
  case 'L':
  case 'F':
  case 'S':
  case 'V':
  case 'P':
  case 'g':
  case 'p':
    return line(content);
  case kGlobal:
  case kInst:
    if (!line(content) || !line(second)) {
      return false;
    }
    imports.push_back(std::string(content) + "." + std::string(second));
    return true;
  default: {
    constexpr std::string_view kBare =
        "().012N]}QRabdelostu\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x97\x98";
    return kBare.find(static_cast<char>(opcode)) != kBare.npos;
  }
  }
}

bool Walker::walk() {
  while (!text.empty()) {
    unsigned char opcode = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    if (opcode == kStop) {
      return true; // what follows is not read
    }
    if (!step(opcode)) {
      return false;
    }
  }
  return false;
}

} // namespace

bool beginsPickle(Bytes bytes) {
  return bytes.size() > 2 && bytes[0] == std::byte(kProto) && bytes[1] >= std::byte(2) &&
         bytes[1] <= std::byte(5);
}

std::optional<std::vector<std::string>> importsOfPickle(Bytes bytes) {
  Walker walker(bytes);
  // One that breaks off may have run what it imported before.
  bool isPickle = beginsPickle(bytes) && (walker.walk() || !walker.imports.empty());
  return isPickle ? std::optional(std::move(walker.imports)) : std::nullopt;
}

bool isUnsafePickle(Bytes bytes) {
  std::optional<std::vector<std::string>> imports = importsOfPickle(bytes);
  return imports && !std::ranges::all_of(*imports, [](const std::string &name) {
           return std::ranges::find(kHarmless, name) != std::end(kHarmless);
         });
}

} // namespace tenon::registry
