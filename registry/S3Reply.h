// What S3 answers: XML of one level, and errors in it. For S3Client and S3Parts.

#pragma once

#include "support/Result.h"
#include "support/web/WebClient.h"

#include <ctime>
#include <string>
#include <string_view>

namespace tenon::registry {

inline constexpr int kOk = 200, kNoContent = 204, kPartialContent = 206, kNotFound = 404,
                     kTooManyRequests = 429, kServerError = 500;

/// What is between <tag> and </tag> behind `from`, which goes behind it; empty where there is none.
std::string_view element(std::string_view xml, std::string_view tag, size_t &from);
std::string_view element(std::string_view xml, std::string_view tag);

/// Text as it stands in a URL, and in XML.
std::string percent(std::string_view text);
std::string escaped(std::string_view text);

/// Seconds since 1970 of "2026-11-27T12:00:00.000Z"; now where it is none.
std::time_t secondsOf(const std::string &text);

/// TN1013 with what the server said.
Status storeFailed(const WebReply &reply, const std::string &name);

/// The MD5 of a body, which S3 asks for besides stronger ones: in hexadecimal digits as ETags have
/// it, and in base64 as Content-MD5 has it.
std::string md5Digits(std::string_view bytes);
std::string md5Base64(std::string_view bytes);

} // namespace tenon::registry
