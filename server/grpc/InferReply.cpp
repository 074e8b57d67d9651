// Everything but the elements is made first, so that the lengths in front are known; the elements
// stay where they are.

#include "server/grpc/Framing.h"
#include "server/grpc/Infer.h"

#include <protozero/pbf_writer.hpp>

#include <utility>

namespace tenon::server {
namespace {

using Wire = protozero::pbf_wire_type;

/// Tag and length of a field that holds `bytes`.
std::string fieldHead(uint32_t tag, uint64_t bytes) {
  std::string head;
  protozero::add_varint_to_buffer(&head, uint64_t(tag) << 3 | uint64_t(Wire::length_delimited));
  protozero::add_varint_to_buffer(&head, bytes);
  return head;
}

constexpr uint32_t kErrorMessage = 1, kInferResponse = 2;

} // namespace

std::vector<Piece> writeGrpcInfer(std::string_view model, std::string_view version,
                                  std::string_view id, const std::vector<GrpcOutput> &outputs,
                                  bool isStream, std::shared_ptr<const void> owner) {
  std::string head;
  protozero::pbf_writer writer(head);
  writer.add_string(1, model.data(), model.size());
  writer.add_string(2, version.data(), version.size());
  writer.add_string(3, id.data(), id.size());
  if (isStream) {
    // Clients of streams look for the last of a request's replies by it.
    protozero::pbf_writer entry(writer, 4);
    entry.add_string(1, "triton_final_response");
    protozero::pbf_writer(entry, 2).add_bool(1, true);
  }
  for (const GrpcOutput &output : outputs) {
    protozero::pbf_writer each(writer, 5);
    each.add_string(1, output.name.data(), output.name.size());
    each.add_string(2, output.datatype.data(), output.datatype.size());
    each.add_packed_int64(3, output.dims.begin(), output.dims.end());
  }
  constexpr uint32_t kRaw = 6;
  uint64_t bytes = head.size();
  for (const GrpcOutput &output : outputs) {
    bytes += fieldHead(kRaw, output.bytes.size()).size() + output.bytes.size();
  }
  std::string outer = isStream ? fieldHead(kInferResponse, bytes) : std::string();
  std::string text = messagePrefix(outer.size() + bytes) + outer + head;
  std::vector<Piece> pieces;
  for (const GrpcOutput &output : outputs) {
    text += fieldHead(kRaw, output.bytes.size());
    pieces.push_back({std::exchange(text, {}), {}, nullptr});
    pieces.push_back({{}, output.bytes, owner});
  }
  if (!text.empty()) {
    pieces.push_back({std::move(text), {}, nullptr});
  }
  return pieces;
}

std::vector<Piece> writeGrpcInferError(const Status &status, std::string_view id) {
  std::string message;
  protozero::pbf_writer writer(message);
  writer.add_string(kErrorMessage, status.toString());
  protozero::pbf_writer(writer, kInferResponse).add_string(3, id.data(), id.size());
  return {{messagePrefix(message.size()) + message, {}, nullptr}};
}

} // namespace tenon::server
