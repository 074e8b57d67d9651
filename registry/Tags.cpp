// Tags: what is said of objects and versions after they were made. They stand in the history alone,
// as signatures do.

#include "registry/Registry.h"

namespace tenon::registry {

Status Registry::tag(const std::string &name, int64_t version, const Json &changes) {
  for (const auto &[key, value] : changes.items()) {
    TENON_TRY(checkRemark("a tag", key));
    TENON_TRY(checkRemark("the value of a tag", value.is_string() ? value.get<std::string>() : ""));
  }
  TENON_ASSIGN(Transaction transaction, beginAs(Role::Push, name));
  TENON_TRY(object(name).takeStatus());
  if (version != 0) {
    TENON_TRY(find({name, version, ""}).takeStatus());
  }
  Event event;
  event.action = "tag";
  event.object = name;
  event.version = version;
  event.detail = {{"tags", changes}};
  TENON_TRY(add(std::move(event)));
  return finish(transaction);
}

Result<std::map<int64_t, Registry::Tags>> Registry::tags(const std::string &name) {
  std::map<int64_t, Tags> tags;
  Query query(*database,
              std::string(kEventColumns) +
                  "WHERE object = $1 AND alias = '' AND action = 'tag' ORDER BY id",
              name);
  while (true) {
    TENON_ASSIGN(bool hasRow, query.next());
    if (!hasRow) {
      return tags;
    }
    Event event = readEvent(query);
    Json changes = event.detail.value("tags", Json::object());
    for (const auto &[key, value] : changes.items()) {
      value.is_string() ? static_cast<void>(tags[event.version][key] = value.get<std::string>())
                        : static_cast<void>(tags[event.version].erase(key));
    }
  }
}

} // namespace tenon::registry
