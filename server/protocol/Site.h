// Whether a browser sent a request for a page of another site, which has the rights of whoever sits
// before that browser.

#pragma once

#include "support/Status.h"

#include <string_view>

namespace tenon::server {

/// Fields of a request's header that the server looks at; empty where missing.
struct HttpHead {
  std::string_view method, target, host, origin, fetchSite, userAgent, acceptLanguage,
      authorization, inferenceHeaderLength, traceparent;
};

/// TN0822 for a request other than GET that a browser sent for a page of another origin than the
/// server's (`Origin`, and `Sec-Fetch-Site`). With `onlyLocalNames`, for servers of this machine
/// alone that ask for no token, also for any request of a browser to a name that is not this
/// machine's own: a page of another site may have its own name lead here (DNS rebinding). Programs
/// that send neither of these fields, no `Accept-Language` and no `User-Agent` of a browser are
/// never refused.
Status checkSite(const HttpHead &head, bool onlyLocalNames);

} // namespace tenon::server
