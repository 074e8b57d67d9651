// Source: the Fetch standard on `Origin`, and Fetch Metadata Request Headers on `Sec-Fetch-Site`.
// Browsers send the latter to addresses of this machine and over TLS only, and `Origin` not with
// every GET, so they are told by more than these two.

#include "server/protocol/Site.h"

#include <fmt/format.h>

namespace tenon::server {
namespace {

/// Of "name:port", "[::1]:port" or either without a port.
std::string_view withoutPort(std::string_view host) {
  size_t colon = host.find(':', host.starts_with('[') ? host.find(']') : 0);
  return host.substr(0, colon);
}

/// No name server decides where these lead to.
bool isLocalName(std::string_view host) {
  std::string_view name = withoutPort(host);
  bool isNumber = !name.empty() && name.find_first_not_of("0123456789.") == std::string_view::npos;
  return isNumber || name.starts_with('[') || name == "localhost" || name.ends_with(".localhost");
}

bool isOfBrowser(const HttpHead &head) {
  return !head.origin.empty() || !head.fetchSite.empty() || !head.acceptLanguage.empty() ||
         head.userAgent.starts_with("Mozilla/");
}

} // namespace

Status checkSite(const HttpHead &head, bool onlyLocalNames) {
  size_t scheme = head.origin.find("://"); // none in "null"
  bool isOwnOrigin = !head.host.empty() && scheme != std::string_view::npos &&
                     head.origin.substr(scheme + 3) == head.host;
  bool isOtherOrigin = !head.origin.empty() && !isOwnOrigin;
  if (head.method != "GET" && head.method != "HEAD" &&
      (isOtherOrigin || head.fetchSite == "cross-site" || head.fetchSite == "same-site")) {
    return Status::error(ErrorId::CrossSiteRequest, "a page on another site sent the request",
                         "browsers may send requests only from the server's own pages");
  }
  if (onlyLocalNames && isOfBrowser(head) && !isLocalName(head.host)) {
    return Status::error(
        ErrorId::CrossSiteRequest,
        fmt::format("a browser used the name '{}', and the server requires no token",
                    withoutPort(head.host).substr(0, 64)),
        "open it as localhost, or give --token-file");
  }
  return Status::ok();
}

} // namespace tenon::server
