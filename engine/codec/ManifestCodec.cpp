// Manifest to FlatBuffer and back. The offsets of weights are not stored: they follow from sizes.

#include "engine/codec/FlatRead.h"
#include "engine/codec/PlanCodec.h"
#include "engine/manifest_generated.h"

namespace tenon::engine {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

Status manifestError(const char *message) {
  return Status::error(ErrorId::EngineBadManifest, message, "compile the model again");
}

VariantEntry decodeVariant(const fb::Variant &variant, CopyBudget &budget) {
  VariantEntry entry;
  entry.level = copyString(variant.level(), budget);
  for (flatbuffers::uoffset_t k = 0; variant.kernels() && k < variant.kernels()->size(); ++k) {
    // The stored offset is counted too, or shared empty names would be free.
    if (!budget.take(sizeof(flatbuffers::uoffset_t))) {
      break;
    }
    entry.kernels.push_back(copyString(variant.kernels()->Get(k), budget));
  }
  entry.planSection = variant.plan();
  entry.codeSection = variant.code();
  entry.cubinSection = variant.cubin();
  entry.cubinBy = copyString(variant.cubin_by(), budget);
  entry.architecture = static_cast<Architecture>(variant.architecture());
  entry.features = variant.features();
  return entry;
}

} // namespace

std::optional<uint64_t> layOutWeights(std::vector<Weight> &weights) {
  constexpr uint64_t alignment = kBufferAlignment;
  uint64_t end = 0;
  for (Weight &weight : weights) {
    weight.offset = (end + alignment - 1) / alignment * alignment;
    bool isPossible = weight.ranks >= 1 && weight.ranks <= kMaxPlanRanks &&
                      weight.bytes <= INT64_MAX / (kMaxPlanRanks + 1);
    if (!isPossible || weight.offset > INT64_MAX - weight.bytesOfAll()) {
      return std::nullopt;
    }
    end = weight.offset + weight.bytesOfAll();
  }
  return end;
}

std::vector<std::byte> encodeManifest(const Manifest &manifest) {
  FlatBufferBuilder builder;
  std::vector<Offset<fb::Weight>> weights;
  for (const Weight &weight : manifest.weights) {
    weights.push_back(
        fb::CreateWeight(builder, builder.CreateString(weight.name), weight.bytes, weight.ranks));
  }
  std::vector<Offset<fb::Variant>> variants;
  for (const VariantEntry &variant : manifest.variants) {
    Offset<flatbuffers::String> level = builder.CreateString(variant.level);
    Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> kernels =
        builder.CreateVectorOfStrings(variant.kernels);
    Offset<flatbuffers::String> cubinBy;
    if (!variant.cubinBy.empty()) {
      cubinBy = builder.CreateString(variant.cubinBy);
    }
    variants.push_back(fb::CreateVariant(
        builder, level, kernels, variant.planSection, variant.codeSection, variant.cubinSection,
        cubinBy, static_cast<uint8_t>(variant.architecture), variant.features));
  }
  std::vector<Offset<fb::Record>> records;
  for (const RecordEntry &record : manifest.records) {
    records.push_back(fb::CreateRecord(builder, builder.CreateString(record.name), record.section));
  }
  Offset<flatbuffers::Vector<Offset<fb::Weight>>> weightsAt = builder.CreateVector(weights);
  Offset<flatbuffers::Vector<Offset<fb::Variant>>> variantsAt = builder.CreateVector(variants);
  Offset<flatbuffers::Vector<Offset<fb::Record>>> recordsAt = builder.CreateVector(records);
  Offset<flatbuffers::String> compiler = builder.CreateString(manifest.provenance.compiler);
  Offset<flatbuffers::String> model = builder.CreateString(manifest.provenance.model);
  Offset<flatbuffers::String> options = builder.CreateString(manifest.provenance.options);
  builder.Finish(
      fb::CreateManifest(builder, weightsAt, variantsAt, recordsAt, compiler, model, options));
  const std::byte *data = reinterpret_cast<const std::byte *>(builder.GetBufferPointer());
  return std::vector<std::byte>(data, data + builder.GetSize());
}

Result<Manifest> decodeManifest(Bytes bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  if (!fb::VerifyManifestBuffer(verifier)) {
    return manifestError("the manifest is not a well-formed FlatBuffer");
  }
  const fb::Manifest &from = *fb::GetManifest(bytes.data());
  CopyBudget budget(bytes.size());
  Manifest manifest;
  forEach(from.weights(), budget, [&](const fb::Weight &weight) {
    manifest.weights.push_back(
        {copyString(weight.name(), budget), weight.bytes(), 0, weight.ranks()});
  });
  forEach(from.variants(), budget, [&](const fb::Variant &variant) {
    manifest.variants.push_back(decodeVariant(variant, budget));
  });
  forEach(from.records(), budget, [&](const fb::Record &record) {
    manifest.records.push_back({copyString(record.name(), budget), record.section()});
  });
  manifest.provenance = {copyString(from.compiler(), budget), copyString(from.model(), budget),
                         copyString(from.options(), budget)};
  if (budget.isExceeded()) {
    return manifestError("the manifest's tables share their contents");
  }
  return manifest;
}

} // namespace tenon::engine
