// Reads no more of PTX than its statements, names and parameters. Relies on what compilers write:
// `.version`, `.target`, `.file` and `.loc` have lines of their own, a function ends with its body,
// and names of registers are none of the module's. A parameter of 64 bits holds a narrower one in
// its lowest bytes, so that only its declaration changes.
//
// One file: what is read of PTX and what is written of it name the same parts.
#include "compiler/codegen/cuda/library/UserPtx.h"

#include "compiler/target/RunsCode.h"
#include "support/text/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace tenon::codegen::cuda {
namespace {

constexpr llvm::StringLiteral kPtxBlank = " \t\r\n";

llvm::Error refusal(const llvm::Twine &what) { return llvm::createStringError(what); }

/// Comments become blanks, `.loc` and `.file` lines go.
std::string plainText(llvm::StringRef text) {
  std::string result;
  bool isText = false;
  while (!text.empty()) {
    if (!isText && text.starts_with("//")) {
      text = text.drop_until([](char c) { return c == '\n'; });
    } else if (!isText && text.starts_with("/*")) {
      size_t end = text.find("*/", 2);
      text = end == llvm::StringRef::npos ? llvm::StringRef() : text.drop_front(end + 2);
      result += ' ';
    } else {
      isText ^= text.front() == '"';
      result += text.front();
      text = text.drop_front();
    }
  }
  std::string lines;
  for (llvm::StringRef rest = result; !rest.empty();) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    llvm::StringRef start = line.ltrim(kPtxBlank);
    if (!start.starts_with(".loc") && !start.starts_with(".file") && !start.starts_with("@@")) {
      lines += line.str() + "\n";
    }
  }
  return lines;
}

bool isNameStart(char c) { return llvm::isAlpha(c) || c == '_' || c == '$' || c == '%'; }
bool isNamePart(char c) { return llvm::isAlnum(c) || c == '_' || c == '$'; }

/// Calls `change` for each name, with a special register's dim ("%tid.x") where it has one; texts
/// and directives are left alone.
std::string withNames(llvm::StringRef text,
                      llvm::function_ref<std::string(llvm::StringRef)> change) {
  std::string result;
  bool isText = false;
  while (!text.empty()) {
    char first = text.front();
    bool isName = !isText && isNameStart(first);
    size_t length = 1;
    if (isName) {
      while (length < text.size() && isNamePart(text[length])) {
        ++length;
      }
      bool isSpecial = first == '%' && length + 1 < text.size() && text[length] == '.' &&
                       llvm::StringRef("xyz").contains(text[length + 1]);
      length += isSpecial ? 2 : 0;
    } else if (!isText && (first == '.' || llvm::isDigit(first))) {
      while (length < text.size() && (isNamePart(text[length]) || text[length] == ':')) {
        ++length;
      }
    }
    isText ^= first == '"';
    llvm::StringRef token = text.take_front(length);
    result += isName ? change(token) : token.str();
    text = text.drop_front(length);
  }
  return result;
}

/// Of what opens at the start of the text; npos without its end.
size_t closeOf(llvm::StringRef text, char open, char close) {
  int64_t depth = 0;
  bool isText = false;
  for (auto [i, c] : llvm::enumerate(text)) {
    isText ^= c == '"';
    depth += isText ? 0 : c == open ? 1 : c == close ? -1 : 0;
    if (!isText && c == close && depth == 0) {
      return i;
    }
  }
  return llvm::StringRef::npos;
}

llvm::StringRef firstName(llvm::StringRef text) {
  text = text.drop_until(isNameStart);
  return text.take_while([](char c) { return isNameStart(c) || isNamePart(c); });
}

/// The words of a declaration before its name.
llvm::SmallVector<llvm::StringRef> declaredWords(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> words;
  SplitString(text, words, kPtxBlank);
  return words;
}

std::optional<uint64_t> bytesOfType(llvm::StringRef type) {
  if (type == ".pred" || type.size() < 3 || !llvm::StringRef("busf").contains(type[1])) {
    return std::nullopt;
  }
  uint64_t bits = 0;
  if (type.drop_front(2).getAsInteger(10, bits) || bits % 8 != 0 || bits > 64) {
    return std::nullopt;
  }
  return bits / 8;
}

/// Bytes of a `.shared` array: of its type times the numbers in brackets; 0 for what the launch
/// decides.
int64_t bytesOfShared(llvm::StringRef declaration) {
  int64_t bytes = 0;
  for (llvm::StringRef word :
       declaredWords(declaration.take_until([](char c) { return c == '['; }))) {
    bytes = int64_t(bytesOfType(word).value_or(bytes));
  }
  while (!declaration.empty()) {
    declaration = declaration.split('[').second;
    int64_t count = 0;
    llvm::StringRef digits = declaration.split(']').first.trim(kPtxBlank);
    if (declaration.contains(']')) {
      bytes = digits.getAsInteger(10, count) ? 0 : bytes * count;
    }
  }
  return bytes;
}

/// Of all `.shared` arrays in statements of this text.
int64_t ownSharedBytes(llvm::StringRef text) {
  int64_t bytes = 0;
  llvm::SmallVector<llvm::StringRef> statements;
  SplitString(text, statements, ";{}");
  for (llvm::StringRef statement : statements) {
    if (llvm::is_contained(declaredWords(statement), ".shared") && !statement.contains("ld.") &&
        !statement.contains("st.")) {
      bytes += bytesOfShared(statement);
    }
  }
  return bytes;
}

/// The product of the numbers behind a directive in the head of an entry; 0 without it.
int64_t statedThreads(llvm::StringRef head, llvm::StringRef directive) {
  size_t start = head.find(directive);
  if (start == llvm::StringRef::npos) {
    return 0;
  }
  llvm::StringRef numbers = head.drop_front(start + directive.size()).split('.').first;
  llvm::SmallVector<llvm::StringRef> parts;
  SplitString(numbers, parts, " \t\r\n,");
  int64_t threads = 1;
  for (llvm::StringRef part : parts) {
    int64_t count = 1;
    threads *= part.getAsInteger(10, count) ? 1 : count;
  }
  return threads;
}

/// A head without what states threads.
std::string withoutThreads(llvm::StringRef head) {
  std::string result;
  llvm::SmallVector<llvm::StringRef> words = declaredWords(head);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != ".reqntid" && words[i] != ".maxntid") {
      result += words[i].str() + " ";
      continue;
    }
    while (i + 1 < words.size() && !words[i + 1].starts_with(".")) {
      ++i;
    }
  }
  return result;
}

struct EntryParts {
  llvm::StringRef parameters; ///< without the brackets
  llvm::StringRef head;       ///< between them and the body
  llvm::StringRef body;       ///< without the braces
};

EntryParts entryParts(llvm::StringRef entry) {
  llvm::StringRef rest = entry.drop_front(entry.find(".entry") + 6);
  size_t open = rest.find_first_of("({");
  EntryParts parts;
  if (open != llvm::StringRef::npos && rest[open] == '(') {
    rest = rest.drop_front(open);
    size_t close = closeOf(rest, '(', ')');
    parts.parameters = rest.slice(1, close);
    rest = rest.drop_front(close == llvm::StringRef::npos ? rest.size() : close + 1);
  }
  std::tie(parts.head, parts.body) = rest.split('{');
  parts.body = parts.body.rtrim(kPtxBlank).drop_back();
  return parts;
}

int64_t launchedThreads(const PtxKernel &kernel) {
  return kernel.block[0] * kernel.block[1] * kernel.block[2];
}

/// All of 64 bits; behind them the sizes of a grid of several dimensions.
std::string parametersOf(const PtxEntry &entry, const PtxKernel &kernel) {
  llvm::SmallVector<std::string> names;
  for (unsigned number : kernel.order) {
    names.push_back(entry.parameters[number].name);
  }
  if (kernel.gridDims > 1) {
    names.append({"tenon_grid_x", "tenon_grid_y", "tenon_grid_z"});
  }
  return names.empty() ? "" : "  .param .u64 " + llvm::join(names, ",\n  .param .u64 ") + "\n";
}

/// Registers in place of those that say where a thread is, for blocks and grids of several
/// dimensions, which are started in one: x = linear % X, y = linear / X % Y, z = linear / X / Y.
class ThreadPlaces {
public:
  explicit ThreadPlaces(const PtxKernel &kernel)
      : block(kernel.block), inBlock(block[1] * block[2] > 1), inGrid(kernel.gridDims > 1) {}

  bool areRead() const { return readsBlock || readsGrid; }

  std::string nameOf(llvm::StringRef name) {
    auto [what, dim] = name.rsplit('.');
    bool isBlock = inBlock && (what == "%tid" || what == "%ntid");
    bool isGrid = inGrid && (what == "%ctaid" || what == "%nctaid");
    readsBlock |= isBlock;
    readsGrid |= isGrid;
    return isBlock || isGrid ? ("%tenon_" + what.drop_front() + "_" + dim).str() : name.str();
  }

  /// Sets the registers.
  std::string prologue() const {
    std::string code;
    for (auto [dim, count] : llvm::zip(llvm::StringRef("xyz"), block)) {
      code += readsBlock ? strCat("  .reg .b32 %tenon_ntid_", dim, ";\n  mov.u32 %tenon_ntid_", dim,
                                  ", ", count, ";\n")
                         : "";
    }
    for (char dim : llvm::StringRef("xyz")) {
      code += readsGrid
                  ? strCat("  .reg .b32 %tenon_nctaid_", dim, ";\n  ld.param.u32 %tenon_nctaid_",
                           dim, ", [tenon_grid_", dim, "];\n")
                  : "";
    }
    return code + (readsBlock ? unflattened("tid") : "") + (readsGrid ? unflattened("ctaid") : "");
  }

private:
  static std::string unflattened(std::string_view what) {
    std::string own = strCat("%tenon_", what), size = strCat("%tenon_n", what);
    return strCat("  .reg .b32 ", own, "_x, ", own, "_y, ", own, "_z, ", own, "_rest;\n",
                  "  mov.u32 ", own, "_rest, %", what, ".x;\n",                //
                  "  rem.u32 ", own, "_x, ", own, "_rest, ", size, "_x;\n",    //
                  "  div.u32 ", own, "_rest, ", own, "_rest, ", size, "_x;\n", //
                  "  rem.u32 ", own, "_y, ", own, "_rest, ", size, "_y;\n",    //
                  "  div.u32 ", own, "_z, ", own, "_rest, ", size, "_y;\n");
  }

  std::array<int64_t, 3> block;
  bool inBlock, inGrid;
  bool readsBlock = false, readsGrid = false;
};

} // namespace

llvm::Expected<UserPtx> UserPtx::parse(llvm::StringRef text) {
  UserPtx ptx;
  std::string plain = plainText(text);
  llvm::StringRef rest = llvm::StringRef(plain).trim(" \t\r\n\0");
  if (!rest.starts_with(".version")) {
    return refusal("it does not start with .version, so it is no PTX");
  }
  while (!(rest = rest.ltrim(kPtxBlank)).empty()) {
    size_t length = 0;
    if (rest.starts_with(".version") || rest.starts_with(".target") ||
        rest.starts_with(".address_size")) {
      length = std::min(rest.find('\n'), rest.size());
    } else {
      size_t mark = std::min(rest.find_first_of(";{"), rest.size());
      llvm::StringRef start = rest.take_front(mark);
      bool hasBody =
          rest.substr(mark).starts_with("{") &&
          (start.contains(".entry") || start.contains(".func") || start.starts_with(".section"));
      size_t body = hasBody ? closeOf(rest.drop_front(mark), '{', '}') : llvm::StringRef::npos;
      size_t end = !hasBody                        ? rest.find(';', mark)
                   : body == llvm::StringRef::npos ? body
                                                   : mark + body;
      if (end >= rest.size()) {
        return refusal("'" + start.split('\n').first.trim(kPtxBlank) + "' has no end");
      }
      length = end + 1;
    }
    if (llvm::Error error = ptx.add(rest.take_front(length))) {
      return std::move(error);
    }
    rest = rest.drop_front(length);
  }
  if (ptx.found.empty()) {
    return refusal("it has no kernel (.entry)");
  }
  return ptx;
}

llvm::Error UserPtx::add(llvm::StringRef text) {
  if (text.consume_front(".version")) {
    auto [major, minor] = text.trim(kPtxBlank).split('.');
    int64_t first = 0, second = 0;
    if (major.getAsInteger(10, first) || minor.getAsInteger(10, second)) {
      return refusal("'.version" + text + "' is not a version");
    }
    version = first * 10 + second;
    return llvm::Error::success();
  }
  if (text.consume_front(".target")) {
    arch = text.split(',').first.trim(kPtxBlank).str();
    return llvm::Error::success();
  }
  if (text.consume_front(".address_size")) {
    return text.trim(kPtxBlank) == "64" ? llvm::Error::success()
                                        : refusal("its addresses are not of 64 bits");
  }
  if (text.starts_with(".section")) {
    return llvm::Error::success(); // for debuggers
  }
  Statement statement{text.str(), "", text.contains(".entry"), false};
  llvm::StringRef head = text.take_until([](char c) { return c == '{'; });
  if (statement.isEntry) {
    return addEntry(std::move(statement));
  }
  size_t function = head.find(".func");
  statement.isFunction = function != llvm::StringRef::npos;
  if (statement.isFunction) {
    llvm::StringRef rest = head.drop_front(function + 5).ltrim(kPtxBlank);
    rest = rest.starts_with("(") ? rest.drop_front(closeOf(rest, '(', ')') + 1) : rest;
    statement.name = firstName(rest).str();
    if (head.contains(".extern")) {
      return refusal("it calls " + statement.name +
                     "(), which is not in it: leave out printf, assert and other modules");
    }
  } else if (head.contains(".texref") || head.contains(".surfref") ||
             head.contains(".samplerref")) {
    return refusal("it has textures or surfaces");
  } else if (head.contains(".extern") && !head.contains(".shared")) {
    return refusal("it has data of another module: '" + text.split('\n').first + "'");
  } else if (text.starts_with(".pragma")) {
    statement.name = "";
  } else {
    llvm::StringRef declared =
        text.take_until([](char c) { return c == '[' || c == '=' || c == ';'; });
    statement.name = firstName(declaredWords(declared).back()).str();
  }
  statements.push_back(std::move(statement));
  return llvm::Error::success();
}

llvm::Error UserPtx::addEntry(Statement statement) {
  llvm::StringRef text = statement.text;
  statement.name = firstName(text.drop_front(text.find(".entry") + 6)).str();
  EntryParts parts = entryParts(text);
  PtxEntry entry;
  entry.name = statement.name;
  llvm::SmallVector<llvm::StringRef> parameters;
  parts.parameters.split(parameters, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef parameter : parameters) {
    llvm::SmallVector<llvm::StringRef> words = declaredWords(parameter);
    std::optional<uint64_t> bytes;
    for (llvm::StringRef word : words) {
      bytes = bytes ? bytes : bytesOfType(word);
    }
    if (words.size() < 3 || !bytes || parameter.contains('[')) {
      return refusal(entry.name + "() takes a struct or an array as parameter " +
                     llvm::Twine(entry.parameters.size() + 1) +
                     "; an engine passes pointers and numbers");
    }
    entry.parameters.push_back({words.back().str(), *bytes});
  }
  if (parts.head.contains(".reqnctapercluster") || parts.head.contains(".explicitcluster") ||
      parts.head.contains(".maxclusterrank")) {
    return refusal(entry.name + "() wants clusters of blocks");
  }
  entry.exactThreads = statedThreads(parts.head, ".reqntid");
  entry.mostThreads = statedThreads(parts.head, ".maxntid");
  entry.sharedBytes = ownSharedBytes(parts.body);
  statements.push_back(std::move(statement));
  found.push_back(std::move(entry));
  return llvm::Error::success();
}

const PtxEntry *UserPtx::find(llvm::StringRef name) const {
  auto entry = llvm::find_if(found, [&](const PtxEntry &entry) { return entry.name == name; });
  return entry == found.end() ? nullptr : &*entry;
}

llvm::Error UserPtx::fits(const target::Target &gpu) const {
  return target::runsCodeFor(gpu, arch)
             ? llvm::Error::success()
             : refusal(llvm::Twine("it is for ") + arch + ", the engine for " + gpu.variant());
}

llvm::Expected<std::string> UserPtx::take(const PtxKernel &kernel,
                                          const target::Target &gpu) const {
  const PtxEntry *entry = find(kernel.entry);
  if (!entry) {
    return refusal("it has no kernel '" + kernel.entry + "'");
  }
  if (llvm::Error error = fits(gpu)) {
    return std::move(error);
  }
  llvm::StringMap<std::string> renamed;
  for (const Statement &statement : statements) {
    renamed[statement.name] = (kernel.symbol + "_" + statement.name).str();
  }
  renamed[kernel.entry] = kernel.symbol.str();
  ThreadPlaces places(kernel);
  auto change = [&](llvm::StringRef name) {
    auto other = renamed.find(name);
    return other == renamed.end() ? places.nameOf(name) : other->second;
  };
  int64_t newest = std::max(version, gpu.ptxVersion);
  std::string result = strCat(".version ", newest / 10, '.', newest % 10, "\n.target ",
                              gpu.variant(), "\n.address_size 64\n");
  for (const Statement &statement : statements) {
    if (!statement.isEntry) {
      result += withNames(statement.text, change) + "\n";
      if (places.areRead()) {
        return refusal(statement.name +
                       "(), which is not inlined, asks for the place of its thread: inline it, or "
                       "use grids and blocks of one dimension");
      }
    } else if (statement.name == kernel.entry) {
      EntryParts parts = entryParts(statement.text);
      std::string body = withNames(parts.body, change);
      result += strCat(".visible .entry ", std::string_view(kernel.symbol), "(\n",
                       parametersOf(*entry, kernel), ")\n", withoutThreads(parts.head), ".reqntid ",
                       launchedThreads(kernel), "\n{\n", places.prologue(), body, "}\n");
      places = ThreadPlaces(kernel);
    }
  }
  return result;
}

} // namespace tenon::codegen::cuda
