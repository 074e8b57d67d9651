// JSON of clients and requests for inferences over HTTP. The first byte is the share of the body
// that is said to be JSON.
#include "server/protocol/Json.h"
#include "server/protocol/InferRequest.h"
#include "server/protocol/Routes.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <vector>

using namespace tenon;
using namespace tenon::server;

namespace {

/// Elements that were kept beside the tree are as many as their count says, whatever type they are
/// asked for.
void storeAll(const InferRequest &request) {
  for (const RequestInput &input : request.inputs) {
    if (!input.list) {
      continue;
    }
    std::vector<std::byte> elements(input.bytes);
    (void)storeNumbers(request.lists[*input.list], input.dtype, elements, input.name).isOk();
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  std::string_view text = fuzz::textOf(data + 1, size - 1);
  Json value;
  bool isJson = Json::accept(text);
  if (parseJson(text).is_discarded() == isJson ||
      (parseRequestJson(text, value).isOk() && !isJson)) {
    std::abort(); // only what is JSON
  }
  std::vector<NumberList> lists;
  (void)parseRequestJson(text, value, &lists).isOk();
  std::optional<uint64_t> jsonBytes;
  if (data[0] < 255) {
    jsonBytes = text.size() * data[0] / 254;
  }
  if (Result<InferRequest> request = parseInferRequest(text, jsonBytes)) {
    storeAll(*request);
  }
  (void)matchRoute("POST", text).isOk();
  return 0;
}
