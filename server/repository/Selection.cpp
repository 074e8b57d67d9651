#include "server/repository/Selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace tenon::server {
namespace {

Status parseTags(const std::string &select, Selection &selection) {
  for (size_t begin = 0; begin < select.size();) {
    size_t end = std::min(select.find(',', begin), select.size());
    Result<registry::Tag> tag =
        registry::parseTag(std::string_view(select).substr(begin, end - begin));
    if (!tag.isOk()) {
      return tag.takeStatus().prefix("--select");
    }
    selection.tags.push_back(std::move(*tag));
    begin = end + 1;
  }
  return Status::ok();
}

} // namespace

std::string Selection::text() const {
  std::vector<std::string> texts;
  for (const registry::Reference &each : named) {
    texts.push_back(each.text());
  }
  if (!everywhere.empty()) {
    texts.push_back(space + "@" + everywhere);
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

std::vector<registry::Reference> Selection::of(const std::string &model) const {
  // The server may call its only model as it likes.
  std::string name = only() ? named.front().name : model;
  std::vector<registry::Reference> followed;
  std::ranges::copy_if(named, std::back_inserter(followed),
                       [&](const registry::Reference &each) { return each.name == name; });
  if (followed.empty() && !everywhere.empty() && model.starts_with(space)) {
    followed.push_back({model, 0, everywhere});
  }
  return followed;
}

std::optional<registry::Reference> Selection::only() const {
  bool isOne = everywhere.empty() && !named.empty() &&
               std::ranges::all_of(named, [&](const registry::Reference &each) {
                 return each.name == named.front().name;
               });
  return isOne ? std::optional(named.front()) : std::nullopt;
}

Result<Selection> parseSelection(std::span<const std::string> models, const std::string &select) {
  Selection selection;
  for (const std::string &each : models) {
    if (!each.starts_with(kRegistryScheme)) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("'{}' is not in a registry, and only models of one registry "
                                       "can be served together by name",
                                       each),
                           "put the engines in one folder, and serve that");
    }
    std::string what = each.substr(kRegistryScheme.size());
    size_t mark = what.find('@');
    if (mark == 0 || (mark != what.npos && what[mark - 1] == '/')) {
      if (mark != 0) {
        TENON_ASSIGN(selection.space, registry::parseNamespace(what.substr(0, mark)));
      }
      TENON_TRY(registry::checkAlias(what.substr(mark + 1)));
      if (!selection.everywhere.empty()) {
        return Status::error(ErrorId::BadArgument,
                             "only one alias can be followed for all models, not two",
                             "give the others as registry:NAME@ALIAS");
      }
      selection.everywhere = what.substr(mark + 1);
      continue;
    }
    TENON_ASSIGN(registry::Reference reference, registry::parseReference(what));
    if (reference.alias.empty()) {
      return Status::error(ErrorId::BadObjectName, fmt::format("'{}' does not name an alias", what),
                           "serve registry:NAME@ALIAS, which follows the alias, or "
                           "registry:@ALIAS, which follows it for all models");
    }
    selection.named.push_back(std::move(reference));
  }
  TENON_TRY(parseTags(select, selection));
  if (!selection.tags.empty() && selection.everywhere.empty()) {
    return Status::error(ErrorId::BadArgument, "--select chooses among the engines with an alias",
                         "serve registry:@ALIAS");
  }
  return selection;
}

} // namespace tenon::server
