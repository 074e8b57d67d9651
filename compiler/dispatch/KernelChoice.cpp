// The three forms of a choice: text, attribute, members of a configuration. Relies on parameters
// being integers or short lists of them.
#include "compiler/dispatch/KernelChoice.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

llvm::Error malformed(llvm::StringRef text) {
  return llvm::createStringError("'" + text +
                                 "' is not of the form family{name=number,tile=numberxnumber}");
}

bool readNumbers(llvm::StringRef text, KernelChoice::Numbers &numbers) {
  SmallVector<StringRef> parts;
  text.split(parts, 'x');
  for (StringRef part : parts) {
    int64_t number = 0;
    if (part.trim().getAsInteger(10, number)) {
      return false;
    }
    numbers.push_back(number);
  }
  return true;
}

bool isName(StringRef text) {
  return !text.empty() && llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

} // namespace

std::string KernelChoice::text() const {
  if (parameters.empty()) {
    return family;
  }
  std::string text = family + "{";
  llvm::raw_string_ostream stream(text);
  StringRef before;
  for (const auto &[name, numbers] : parameters) {
    stream << before << name << '=';
    llvm::interleave(numbers, stream, "x");
    before = ",";
  }
  return text + "}";
}

llvm::Expected<KernelChoice> KernelChoice::parse(StringRef text) {
  auto [family, rest] = text.split('{');
  KernelChoice choice{family.trim().str(), {}};
  bool hasParameters = family.size() != text.size();
  if (!isName(choice.family) || (hasParameters && !rest.consume_back("}"))) {
    return malformed(text);
  }
  SmallVector<StringRef> parts;
  rest.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [name, value] = part.split('=');
    Numbers numbers;
    if (!isName(name.trim()) || !readNumbers(value, numbers) ||
        !choice.parameters.try_emplace(name.trim().str(), numbers).second) {
      return malformed(text);
    }
  }
  return choice;
}

DictionaryAttr KernelChoice::toAttribute(MLIRContext *context) const {
  Builder builder(context);
  NamedAttrList members;
  for (const auto &[name, numbers] : parameters) {
    members.append(name, numbers.size() == 1 ? Attribute(builder.getI64IntegerAttr(numbers.front()))
                                             : builder.getI64ArrayAttr(numbers));
  }
  NamedAttrList whole;
  whole.append(family, members.getDictionary(context));
  return whole.getDictionary(context);
}

llvm::Expected<KernelChoice> KernelChoice::fromAttribute(Attribute attribute) {
  DictionaryAttr whole = dyn_cast_or_null<DictionaryAttr>(attribute);
  DictionaryAttr members =
      whole && whole.size() == 1 ? dyn_cast<DictionaryAttr>(whole.begin()->getValue()) : nullptr;
  if (!members) {
    return llvm::createStringError("tn.kernel does not name one family with its parameters");
  }
  KernelChoice choice{whole.begin()->getName().str(), {}};
  for (NamedAttribute member : members) {
    Numbers numbers;
    Attribute single = member.getValue();
    ArrayAttr list = dyn_cast<ArrayAttr>(single);
    for (Attribute value : list ? list.getValue() : ArrayRef(single)) {
      IntegerAttr number = dyn_cast<IntegerAttr>(value);
      if (!number) {
        return llvm::createStringError("the parameter '" + member.getName().str() +
                                       "' of tn.kernel is not made of integers");
      }
      numbers.push_back(number.getInt());
    }
    choice.parameters[member.getName().str()] = numbers;
  }
  return choice;
}

const KernelChoice::Numbers *ParameterReader::find(StringRef name, size_t count) {
  known.push_back(name.str());
  auto found = choice.parameters.find(name.str());
  if (found == choice.parameters.end() || found->second.size() != count) {
    problem = problem.empty() ? ("the parameter '" + name + "' of '" + choice.family + "' needs " +
                                 llvm::Twine(count) + " number" + (count == 1 ? "" : "s"))
                                    .str()
                              : problem;
    return nullptr;
  }
  ++read;
  return &found->second;
}

llvm::Error ParameterReader::finish() const {
  if (!problem.empty()) {
    return llvm::createStringError(problem);
  }
  if (read != choice.parameters.size()) {
    return llvm::createStringError("'" + choice.family + "' has no other parameters than " +
                                   (known.empty() ? "none" : llvm::join(known, ", ")));
  }
  return llvm::Error::success();
}

} // namespace tenon::dispatch
