// Reads models that are split over several files.
#include "compiler/frontend/weights/gguf/Parts.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::gguf {
namespace {

constexpr std::string_view kFirst = "-00001-of-", kEnd = ".gguf";
constexpr size_t kDigits = 5;

int64_t numberOf(const File &file, std::string_view key, int64_t otherwise) {
  const Value *value = file.find(key);
  return value ? value->integer().value_or(-1) : otherwise;
}

std::string digitsOf(size_t number) {
  std::string digits = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

Status misplaced(std::string what) {
  return Status::error(ErrorId::GgufDamaged, std::move(what),
                       "give the first part, and keep all parts in one folder under their names");
}

} // namespace

std::vector<std::string> laterParts(const std::string &path) {
  std::vector<std::string> paths;
  size_t length = kFirst.size() + kDigits + kEnd.size();
  if (path.size() < length) {
    return paths;
  }
  std::string_view end = std::string_view(path).substr(path.size() - length);
  std::string_view count = end.substr(kFirst.size(), kDigits);
  bool isNumber = std::ranges::all_of(count, [](char c) { return c >= '0' && c <= '9'; });
  if (!end.starts_with(kFirst) || !end.ends_with(kEnd) || !isNumber) {
    return paths;
  }
  std::string name = path.substr(0, path.size() - length);
  for (size_t i = 2; i <= std::stoul(std::string(count)); ++i) {
    paths.push_back(strCat(name, '-', digitsOf(i), "-of-", count, kEnd));
  }
  return paths;
}

Result<std::vector<std::shared_ptr<MappedFile>>> readLaterParts(const std::string &path,
                                                                File &first) {
  std::vector<std::shared_ptr<MappedFile>> files;
  int64_t count = numberOf(first, "split.count", 1);
  if (count <= 1) {
    return files;
  }
  if (int64_t number = numberOf(first, "split.no", 0); number != 0) {
    return misplaced(strCat("it is part ", number + 1, " of ", count));
  }
  std::vector<std::string> paths = laterParts(path);
  if (std::ssize(paths) + 1 != count) {
    return misplaced(strCat("it is the first of ", count, " parts, but its name does not end in '",
                            kFirst, digitsOf(static_cast<size_t>(count)), kEnd, "'"));
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    std::string name = strCat("part ", i + 2, " of ", count);
    Result<MappedFile> mapped = MappedFile::open(paths[i]);
    if (!mapped) {
      return mapped.takeStatus().prefix(name);
    }
    files.push_back(std::make_shared<MappedFile>(std::move(*mapped)));
    Result<File> part = gguf::read(files.back()->bytes());
    if (!part) {
      return part.takeStatus().prefix(paths[i]);
    }
    if (numberOf(*part, "split.no", -1) != static_cast<int64_t>(i) + 1 ||
        numberOf(*part, "split.count", -1) != count) {
      return misplaced(strCat("'", paths[i], "' is not ", name));
    }
    first.order.insert(first.order.end(), part->order.begin(), part->order.end());
    for (auto &[tensor, value] : part->tensors) {
      if (!first.tensors.emplace(tensor, std::move(value)).second) {
        return misplaced(strCat("the tensor '", tensor, "' occurs in ", name, " again"));
      }
    }
  }
  int64_t tensors = numberOf(first, "split.tensors.count", std::ssize(first.tensors));
  if (tensors != std::ssize(first.tensors)) {
    return misplaced(strCat("its parts have ", first.tensors.size(), " tensors, not ", tensors));
  }
  return files;
}

} // namespace tenon::gguf
