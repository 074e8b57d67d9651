// Uploads in parts, for files beyond what S3 takes in one request. S3 keeps what came of an upload
// until it is ended or aborted: so one that fails is aborted, one of a killed process is gone on
// with by the next push of the same file, and gc aborts those that nobody went on with.

#include "registry/S3Client.h"
#include "registry/S3Reply.h"
#include "registry/Sha256.h"
#include "support/files/MappedFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

namespace tenon::registry {
namespace {

constexpr uint64_t kMaxPartsOfUpload = 10'000;
constexpr int kUploadTries = 2; ///< where another process ended the one that was gone on with

/// The ETag of a part as it stands in XML and headers, without its quotes.
std::string tagOf(std::string_view text) {
  std::string tag(text);
  for (std::string_view quote : {"&quot;", "&#34;", "\""}) {
    for (size_t at = tag.find(quote); at != tag.npos; at = tag.find(quote)) {
      tag.erase(at, quote.size());
    }
  }
  return tag;
}

} // namespace

Status S3Client::put(const std::string &key, const std::string &file, const std::string &hash,
                     uint64_t partBytes) const {
  TENON_ASSIGN(FileReader reader, FileReader::open(file));
  uint64_t bytes = reader.size();
  return bytes <= partBytes ? putWhole(key, file, hash) : putParts(key, file, bytes, partBytes);
}

Result<std::vector<S3Client::Upload>> S3Client::uploads(const std::string &key) const {
  WebRequest list = request("GET", "");
  list.url =
      fmt::format("{}/{}?prefix={}&uploads=", settings.endpoint, bucket, percent(prefix + key));
  TENON_ASSIGN(WebReply reply, perform(list, nameOf(key)));
  if (reply.status == kNotFound && element(reply.body, "Code") == "NoSuchUpload") {
    return std::vector<Upload>(); // as rclone says it of none
  }
  if (reply.status != kOk) {
    return storeFailed(reply, nameOf(key));
  }
  std::vector<Upload> found;
  size_t from = 0;
  for (std::string_view row = element(reply.body, "Upload", from); from != reply.body.npos;
       row = element(reply.body, "Upload", from)) {
    std::string_view name = element(row, "Key");
    if (name.starts_with(prefix)) {
      found.push_back({std::string(name.substr(prefix.size())),
                       std::string(element(row, "UploadId")),
                       std::string(element(row, "Initiated"))});
    }
  }
  return found;
}

Result<std::map<uint64_t, std::string>> S3Client::partsOf(const Upload &upload) const {
  std::map<uint64_t, std::string> parts;
  for (bool isMore = true; isMore;) {
    WebRequest list = request("GET", upload.key);
    uint64_t last = parts.empty() ? 0 : parts.rbegin()->first;
    list.url += fmt::format("?part-number-marker={}&uploadId={}", last, percent(upload.id));
    TENON_ASSIGN(WebReply reply, perform(list, nameOf(upload.key)));
    if (reply.status != kOk) {
      return storeFailed(reply, nameOf(upload.key));
    }
    size_t from = 0, before = parts.size();
    for (std::string_view row = element(reply.body, "Part", from); from != reply.body.npos;
         row = element(reply.body, "Part", from)) {
      std::string_view text = element(row, "PartNumber");
      uint64_t number = 0;
      std::from_chars(text.data(), text.data() + text.size(), number);
      parts[number] = tagOf(element(row, "ETag"));
    }
    isMore = element(reply.body, "IsTruncated") == "true" && parts.size() > before;
  }
  return parts;
}

Result<S3Client::Upload> S3Client::beginUpload(const std::string &key) const {
  WebRequest begin = request("POST", key);
  begin.url += "?uploads=";
  TENON_ASSIGN(WebReply reply, performText(std::move(begin), "", nameOf(key)));
  std::string id(element(reply.body, "UploadId"));
  return id.empty() ? Result<Upload>(storeFailed(reply, nameOf(key))) : Upload{key, id, ""};
}

Result<std::string> S3Client::putPart(const Upload &upload, uint64_t number,
                                      const std::string &file, uint64_t from,
                                      std::string_view bytes) const {
  WebRequest put = request("PUT", upload.key);
  put.url += fmt::format("?partNumber={}&uploadId={}", number, percent(upload.id));
  put.uploadPath = file;
  put.uploadFrom = from;
  put.uploadBytes = bytes.size();
  put.headers.push_back("x-amz-content-sha256: " + sha256Of(bytes));
  TENON_ASSIGN(WebReply reply, perform(put, nameOf(upload.key)));
  std::string tag = tagOf(reply.headers["etag"]);
  return reply.status == kOk && !tag.empty() ? Result<std::string>(std::move(tag))
                                             : storeFailed(reply, nameOf(upload.key));
}

Status S3Client::endUpload(const Upload &upload,
                           const std::map<uint64_t, std::string> &tags) const {
  std::string body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const auto &[number, tag] : tags) {
    body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>\"{}\"</ETag></Part>", number,
                        escaped(tag));
  }
  body += "</CompleteMultipartUpload>";
  WebRequest end = request("POST", upload.key);
  end.url += "?uploadId=" + percent(upload.id);
  end.headers.push_back("Content-Type: application/xml");
  return performText(std::move(end), std::move(body), nameOf(upload.key)).takeStatus();
}

Status S3Client::abortUpload(const Upload &upload) const {
  WebRequest abort = request("DELETE", upload.key);
  abort.url += "?uploadId=" + percent(upload.id);
  TENON_ASSIGN(WebReply reply, perform(abort, nameOf(upload.key)));
  bool isGone = reply.status == kNoContent || reply.status == kOk || reply.status == kNotFound;
  return isGone ? Status::ok() : storeFailed(reply, nameOf(upload.key));
}

Status S3Client::putParts(const std::string &key, const std::string &file, uint64_t bytes,
                          uint64_t partBytes) const {
  partBytes = std::max(partBytes, (bytes + kMaxPartsOfUpload - 1) / kMaxPartsOfUpload);
  TENON_ASSIGN(MappedFile mapped, MappedFile::open(file));
  std::string_view content(reinterpret_cast<const char *>(mapped.bytes().data()), bytes);
  Status status;
  for (int attempt = 0; attempt < kUploadTries; ++attempt) {
    // Where the list cannot be had there is nothing to go on with.
    Result<std::vector<Upload>> begun =
        attempt == 0 ? uploads(key) : Result<std::vector<Upload>>(std::vector<Upload>());
    Upload upload;
    std::map<uint64_t, std::string> sent, tags;
    for (const Upload &each : begun.isOk() ? *begun : std::vector<Upload>()) {
      Result<std::map<uint64_t, std::string>> parts = partsOf(each);
      if (each.key == key && parts.isOk() && parts->size() >= sent.size()) {
        upload = each;
        sent = std::move(*parts);
      }
    }
    if (upload.id.empty()) {
      TENON_ASSIGN(upload, beginUpload(key));
    }
    status = Status::ok();
    for (uint64_t from = 0, number = 1; from < bytes && status.isOk();
         from += partBytes, ++number) {
      std::string_view part = content.substr(from, partBytes);
      if (sent.contains(number) && sent[number] == md5Digits(part)) {
        tags[number] = sent[number];
        continue;
      }
      Result<std::string> tag = putPart(upload, number, file, from, part);
      status = tag.isOk() ? Status::ok() : tag.takeStatus();
      tags[number] = tag.isOk() ? *tag : "";
    }
    status = status.isOk() ? endUpload(upload, tags) : std::move(status);
    // Also where the answer to the end was lost, or another process that sent the same ended it.
    Result<std::optional<uint64_t>> there = std::optional<uint64_t>();
    if (!status.isOk() && !sent.empty()) {
      there = sizeOf(key);
    }
    if (status.isOk() || (there.isOk() && *there == bytes)) {
      return Status::ok();
    }
    static_cast<void>(abortUpload(upload)); // what cannot be reached now is aborted by gc
    if (sent.empty()) {
      return status;
    }
  }
  return status;
}

Status S3Client::abortUploads(std::chrono::hours age) const {
  TENON_ASSIGN(std::vector<Upload> begun, uploads(""));
  std::time_t limit = std::time(nullptr) - std::chrono::seconds(age).count();
  for (const Upload &each : begun) {
    if (secondsOf(each.begun) < limit) {
      TENON_TRY(abortUpload(each));
    }
  }
  return Status::ok();
}

} // namespace tenon::registry
