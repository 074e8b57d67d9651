// libcurl's easy interface behind fetch: its functions are looked up once, and the library stays
// open to the end of the process.

#include "support/web/WebClient.h"

#include "support/SharedLibrary.h"
#include "support/text/Text.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

namespace tenon {
namespace {

struct Curl {
  decltype(&::curl_global_init) globalInit;
  decltype(&::curl_easy_init) init;
  decltype(&::curl_easy_setopt) set;
  decltype(&::curl_easy_perform) perform;
  decltype(&::curl_easy_getinfo) info;
  decltype(&::curl_easy_cleanup) cleanup;
  decltype(&::curl_easy_strerror) describe;
  decltype(&::curl_slist_append) append;
  decltype(&::curl_slist_free_all) freeList;
  Status problem;
};

Curl openCurl() {
  Curl curl{};
  constexpr const char *kName = "libcurl.so.4";
  SharedLibrary library(kName);
  library.find(curl.globalInit, "curl_global_init");
  library.find(curl.init, "curl_easy_init");
  library.find(curl.set, "curl_easy_setopt");
  library.find(curl.perform, "curl_easy_perform");
  library.find(curl.info, "curl_easy_getinfo");
  library.find(curl.cleanup, "curl_easy_cleanup");
  library.find(curl.describe, "curl_easy_strerror");
  library.find(curl.append, "curl_slist_append");
  library.find(curl.freeList, "curl_slist_free_all");
  if (!library.isWhole() || curl.globalInit(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    curl.problem = Status::error(ErrorId::LibraryMissing,
                                 strCat("HTTP requests need ", kName, ", which cannot be opened"),
                                 "install libcurl (Debian: libcurl4)");
  }
  return curl;
}

const Curl &theCurl() {
  static const Curl curl = openCurl();
  return curl;
}

using File = std::unique_ptr<std::FILE, decltype([](std::FILE *file) { std::fclose(file); })>;

/// What a transfer reads and fills.
struct Transfer {
  uintmax_t kept = 0; ///< bytes that the download's file has, where the rest is asked for
  CURL *handle;
  const WebRequest &request;
  WebReply reply;
  size_t sent = 0;          ///< of the body or the file
  uint64_t uploadBytes = 0; ///< of the file, to send
  File upload, download;
  bool isTooLarge = false;
  int writeError = 0;

  int status() const {
    long code = 0;
    theCurl().info(handle, CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  }
};

size_t sendPiece(char *to, size_t size, size_t count, void *context) {
  auto &transfer = *static_cast<Transfer *>(context);
  if (transfer.upload) {
    size_t most = std::min<uint64_t>(size * count, transfer.uploadBytes - transfer.sent);
    size_t read = std::fread(to, 1, most, transfer.upload.get());
    transfer.sent += read;
    return std::ferror(transfer.upload.get()) ? CURL_READFUNC_ABORT : read;
  }
  size_t piece = std::min(size * count, transfer.request.body.size() - transfer.sent);
  transfer.request.body.copy(to, piece, transfer.sent);
  transfer.sent += piece;
  return piece;
}

/// libcurl goes back to the start where a connection that it kept turns out to be closed.
int seekBody(void *context, curl_off_t offset, int origin) {
  auto &transfer = *static_cast<Transfer *>(context);
  if (origin != SEEK_SET) {
    return CURL_SEEKFUNC_CANTSEEK;
  }
  if (transfer.upload) {
    transfer.sent = static_cast<size_t>(offset);
    curl_off_t at = static_cast<curl_off_t>(transfer.request.uploadFrom) + offset;
    return fseeko(transfer.upload.get(), at, SEEK_SET) == 0 ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
  }
  transfer.sent = std::min(static_cast<size_t>(offset), transfer.request.body.size());
  return CURL_SEEKFUNC_OK;
}

size_t takePiece(char *from, size_t size, size_t count, void *context) {
  auto &transfer = *static_cast<Transfer *>(context);
  size_t bytes = size * count;
  int status = transfer.status();
  if (!transfer.request.downloadPath.empty() && (status == 200 || status == 206)) {
    if (!transfer.download) {
      // Some say 200 to a range: what counts is where the bytes begin.
      std::string range = strCat("bytes ", transfer.kept, "-");
      bool isRest = transfer.kept > 0 && transfer.reply.headers["content-range"].starts_with(range);
      transfer.download.reset(
          std::fopen(transfer.request.downloadPath.c_str(), isRest ? "abe" : "wbe"));
    }
    size_t written = transfer.download ? std::fwrite(from, 1, bytes, transfer.download.get()) : 0;
    transfer.writeError = written < bytes ? errno : 0;
    return written;
  }
  if (transfer.reply.body.size() + bytes > transfer.request.mostBytes) {
    transfer.isTooLarge = true;
    return 0;
  }
  transfer.reply.body.append(from, bytes);
  return bytes;
}

size_t takeHeader(char *from, size_t size, size_t count, void *context) {
  auto &transfer = *static_cast<Transfer *>(context);
  std::string_view line(from, size * count);
  size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    transfer.reply.headers.clear();
  } else if (colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    for (char &c : name) {
      c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
    }
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    transfer.reply.headers[name] = value.substr(0, value.find_last_not_of("\r\n \t") + 1);
  }
  return size * count;
}

int askWhetherCancelled(void *context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer *>(context)->request.isCancelled() ? 1 : 0;
}

uintmax_t keptBytes(const WebRequest &request) {
  std::error_code none;
  uintmax_t bytes =
      request.resumes ? std::filesystem::file_size(request.downloadPath, none) : uintmax_t(0);
  return none ? 0 : bytes;
}

Status prepareBody(const Curl &curl, Transfer &transfer) {
  const WebRequest &request = transfer.request;
  curl_off_t bytes = static_cast<curl_off_t>(request.body.size());
  if (!request.uploadPath.empty()) {
    transfer.upload.reset(std::fopen(request.uploadPath.c_str(), "rbe"));
    if (!transfer.upload || fseeko(transfer.upload.get(), 0, SEEK_END) != 0) {
      return Status::error(ErrorId::FileReadFailed,
                           strCat("'", request.uploadPath, "' cannot be read"),
                           "check its permissions");
    }
    curl_off_t from = static_cast<curl_off_t>(request.uploadFrom);
    bytes = std::max<curl_off_t>(ftello(transfer.upload.get()) - from, 0);
    bytes = request.uploadBytes == 0
                ? bytes
                : std::min(bytes, static_cast<curl_off_t>(request.uploadBytes));
    transfer.uploadBytes = static_cast<uint64_t>(bytes);
    fseeko(transfer.upload.get(), from, SEEK_SET);
  } else if (request.body.empty() && request.method != "PUT" && request.method != "POST") {
    return {};
  }
  curl.set(transfer.handle, CURLOPT_UPLOAD, 1L);
  curl.set(transfer.handle, CURLOPT_INFILESIZE_LARGE, bytes);
  curl.set(transfer.handle, CURLOPT_READFUNCTION, &sendPiece);
  curl.set(transfer.handle, CURLOPT_READDATA, &transfer);
  curl.set(transfer.handle, CURLOPT_SEEKFUNCTION, &seekBody);
  curl.set(transfer.handle, CURLOPT_SEEKDATA, &transfer);
  return {};
}

Status failed(const Curl &curl, const Transfer &transfer, CURLcode code, const char *detail) {
  const WebRequest &request = transfer.request;
  if (transfer.isTooLarge) {
    return Status::error(ErrorId::WebFailed,
                         strCat(request.url, " sends more than ", request.mostBytes, " bytes"),
                         "ask for less");
  }
  if (code == CURLE_WRITE_ERROR && transfer.writeError) {
    return Status::error(ErrorId::FileWriteFailed,
                         strCat("'", request.downloadPath,
                                "' cannot be written: ", std::strerror(transfer.writeError)),
                         "free space on the disk, or choose another folder");
  }
  return Status::error(ErrorId::WebFailed,
                       strCat(request.method, " ", request.url, ": ",
                              *detail ? std::string_view(detail) : curl.describe(code)),
                       "check that the server is running and can be reached from here");
}

} // namespace

Result<WebReply> fetch(const WebRequest &request) {
  const Curl &curl = theCurl();
  if (!curl.problem.isOk()) {
    return curl.problem;
  }
  std::unique_ptr<CURL, decltype(curl.cleanup)> handle(curl.init(), curl.cleanup);
  if (!handle) {
    return Status::error(ErrorId::OutOfMemory, "libcurl is out of memory for a request",
                         "close other programs");
  }
  Transfer transfer{.kept = keptBytes(request),
                    .handle = handle.get(),
                    .request = request,
                    .reply = {},
                    .upload = {},
                    .download = {}};
  TENON_TRY(prepareBody(curl, transfer));
  char detail[CURL_ERROR_SIZE] = "";
  std::unique_ptr<curl_slist, decltype(curl.freeList)> headers(nullptr, curl.freeList);
  auto addHeader = [&](const char *header) {
    headers.reset(curl.append(headers.release(), header));
  };
  // Without "Expect", which would wait for servers that do not know it. S3 knows it, and libcurl
  // would sign the line that it leaves out.
  if (request.signature.service.empty()) {
    addHeader("Expect:");
  }
  for (const std::string &header : request.headers) {
    addHeader(header.c_str());
  }
  if (transfer.kept > 0) {
    addHeader(strCat("Range: bytes=", transfer.kept, "-").c_str());
  }
  std::string credentials = strCat(request.signature.keyId, ":", request.signature.secret);
  std::string scope = strCat("aws:amz:", request.signature.region, ":", request.signature.service);
  auto set = [&](CURLoption option, auto value) { curl.set(handle.get(), option, value); };
  set(CURLOPT_ERRORBUFFER, detail);
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_CUSTOMREQUEST, request.method == "HEAD" ? nullptr : request.method.c_str());
  set(CURLOPT_NOBODY, request.method == "HEAD" ? 1L : 0L);
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_WRITEFUNCTION, &takePiece);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_HEADERFUNCTION, &takeHeader);
  set(CURLOPT_HEADERDATA, &transfer);
  // Other threads run: no signals. A transfer that moves nothing for that long is given up.
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.patience.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME,
      static_cast<long>(std::max<int64_t>(1, request.patience.count() / 1000)));
  if (request.isCancelled) {
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &askWhetherCancelled);
    set(CURLOPT_XFERINFODATA, &transfer);
  }
  if (!request.certificates.empty()) {
    set(CURLOPT_CAINFO, request.certificates.c_str());
  }
  if (!request.signature.service.empty()) {
    set(CURLOPT_AWS_SIGV4, scope.c_str());
    set(CURLOPT_USERPWD, credentials.c_str());
  }
  CURLcode code = curl.perform(handle.get());
  if (code != CURLE_OK) {
    return failed(curl, transfer, code, detail);
  }
  transfer.reply.status = transfer.status();
  if (transfer.download && std::fflush(transfer.download.get()) != 0) {
    transfer.writeError = errno;
    return failed(curl, transfer, CURLE_WRITE_ERROR, detail);
  }
  return std::move(transfer.reply);
}

} // namespace tenon
