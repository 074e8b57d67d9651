// The operator table against ONNX's own schemas (test/data/onnx-signatures.txt), and what becomes
// of attributes and inputs that an operator does not have, or that are not read.
#include "compiler/frontend/onnx/OpTable.h"
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

#include <fstream>
#include <map>
#include <sstream>

namespace tenon::onnx::test {
namespace {

/// An operator from an opset on, as a line of the file has it.
struct Signature {
  int64_t since = 0;
  std::string counts;
  std::map<std::string, std::string> attributes; ///< name to type, with '!' if required
};

std::map<std::string, std::vector<Signature>> readSchemas() {
  std::ifstream file(TENON_SOURCE_DIR "/test/data/onnx-signatures.txt");
  std::map<std::string, std::vector<Signature>> schemas;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, least, most, outputs;
    Signature signature;
    words >> name >> signature.since >> least >> most >> outputs;
    signature.counts = least + " " + most + " " + outputs;
    for (std::string word; words >> word;) {
      size_t colon = word.find(':');
      signature.attributes[word.substr(0, colon)] = word.substr(colon + 1);
    }
    // Every operator of the first opsets had it; it is not in the rows.
    signature.attributes.erase("consumed_inputs");
    schemas[name].push_back(std::move(signature));
  }
  return schemas;
}

const Signature *signatureIn(const std::vector<Signature> &versions, int64_t opset) {
  const Signature *newest = nullptr;
  for (const Signature &version : versions) {
    newest = version.since <= opset ? &version : newest;
  }
  return newest;
}

const char *nameOfType(AttributeType type) {
  switch (type) {
  case AttributeType::Float:
    return "float";
  case AttributeType::Int:
    return "int";
  case AttributeType::String:
    return "string";
  case AttributeType::Tensor:
    return "tensor";
  case AttributeType::Graph:
    return "graph";
  case AttributeType::Floats:
    return "floats";
  case AttributeType::Ints:
    return "ints";
  case AttributeType::Strings:
    return "strings";
  case AttributeType::SparseTensor:
    return "sparse_tensor";
  case AttributeType::Type:
    return "type_proto";
  default:
    return "?";
  }
}

std::string count(unsigned number) { return number == kMany ? "*" : std::to_string(number); }

/// What the table says of an operator in an opset.
Signature signatureOf(const OpRow &row, int64_t opset) {
  std::string optional;
  for (unsigned i = 0; i < row.minInputs; ++i) {
    optional += (row.optional >> i & 1) != 0 ? "?" + std::to_string(i) : "";
  }
  Signature signature{row.since,
                      count(row.minInputs) + optional + " " + count(row.maxInputs) + " " +
                          count(row.maxOutputs),
                      {}};
  for (const AttributeRow &attribute : row.attributes) {
    if (attribute.isIn(opset)) {
      signature.attributes[attribute.name] =
          std::string(nameOfType(attribute.type)) + (attribute.required ? "!" : "");
    }
  }
  return signature;
}

/// Calls visit(name, row, opset) for each operator in each opset of its domain.
template <typename Visit> void forEachRow(const Visit &visit) {
  OpTable table;
  for (const auto &entry : table.operators()) {
    OpRows rows = entry.second;
    std::string domain = rows.front()->domain;
    std::string name = (domain.empty() ? "" : domain + ":") + rows.front()->name;
    int64_t newest = domain.empty() ? kNewestOpset : domain == "ai.onnx.ml" ? 5 : 1;
    for (int64_t opset = rows.front()->since; opset <= newest; ++opset) {
      visit(name, *rowOf(rows, opset), opset);
    }
  }
}

class Signatures : public ImportFixture {
protected:
  /// What an import of the operator says of a node with this attribute.
  std::string messageOf(const OpRow &row, int64_t opset, const Message &attribute) {
    std::vector<std::string> inputs(row.minInputs, "x");
    bool other = *row.domain != 0;
    std::string text = oneNode(node(row.name, inputs, {"y"}, {attribute}, row.domain),
                               {valueInfo("x", kFloat, {2, 3})}, other ? 17 : opset);
    text += other ? Message().add(8, onnx::test::opset(opset, row.domain)).str() : "";
    Result<ImportResult> result = import(text);
    return result ? "no error" : result.status().toString();
  }
  void expectRefused(const OpRow &row, int64_t opset, const std::string &name) {
    std::string message = messageOf(row, opset, attrInt(name, 1));
    EXPECT_HAS(message, "TN0219");
    EXPECT_HAS(message, "has no attribute '" + name + "' in this opset");
    EXPECT_HAS(message, "opset " + std::to_string(opset));
  }
};

TEST_F(Signatures, AreThoseOfOnnxInEveryOpset) {
  std::map<std::string, std::vector<Signature>> schemas = readSchemas();
  ASSERT_FALSE(schemas.empty());
  forEachRow([&](const std::string &name, const OpRow &row, int64_t opset) {
    const Signature *wanted = signatureIn(schemas[name], opset);
    ASSERT_TRUE(wanted) << name << " is not in opset " << opset;
    Signature found = signatureOf(row, opset);
    EXPECT_EQ(found.counts, wanted->counts) << name << ", opset " << opset;
    EXPECT_EQ(found.attributes, wanted->attributes) << name << ", opset " << opset;
  });
}

TEST_F(Signatures, AnAttributeThatNoOpsetHasIsRefused) {
  forEachRow([&](const std::string &, const OpRow &row, int64_t opset) {
    if (opset == row.since) {
      expectRefused(row, opset, "unheard_of");
    }
  });
}

TEST_F(Signatures, AnAttributeOfAnotherOpsetIsRefused) {
  std::map<std::string, std::vector<Signature>> schemas = readSchemas();
  unsigned tried = 0;
  forEachRow([&](const std::string &name, const OpRow &row, int64_t opset) {
    const Signature *own = signatureIn(schemas[name], opset);
    for (const Signature &other : schemas[name]) {
      for (const auto &[attribute, type] : other.attributes) {
        // Where it is new, and in the last opset that lacks it.
        const Signature *next = signatureIn(schemas[name], opset + 1);
        bool border = own->since == opset || own->since != next->since;
        if (border && !own->attributes.count(attribute)) {
          expectRefused(row, opset, attribute);
          ++tried;
        }
      }
    }
  });
  EXPECT_GT(tried, 100u);
}

TEST_F(Signatures, AnAttributeOfAnotherTypeIsRefused) {
  forEachRow([&](const std::string &, const OpRow &row, int64_t opset) {
    for (const AttributeRow &attribute : row.attributes) {
      if (opset == std::max(row.since, attribute.since) && attribute.isIn(opset)) {
        std::string name = attribute.name;
        std::string message = messageOf(row, opset,
                                        attribute.type == AttributeType::Int ? attrText(name, "1")
                                                                             : attrInt(name, 1));
        EXPECT_HAS(message, "TN0219");
        // Another attribute may be missing as well.
        bool named = message.find("'" + name + "' has another type") != std::string::npos;
        EXPECT_TRUE(named || message.find("is missing") != std::string::npos) << message;
      }
    }
  });
}

TEST_F(Signatures, ARequiredAttributeThatIsMissingIsNamed) {
  forEachRow([&](const std::string &, const OpRow &row, int64_t opset) {
    for (const AttributeRow &attribute : row.attributes) {
      if (attribute.required && opset == std::max(row.since, attribute.since)) {
        std::string message = messageOf(row, opset, attrInt("__mark", 1));
        EXPECT_HAS(message, "TN0219");
        EXPECT_HAS(message, "is missing");
      }
    }
  });
}

const Message kSignatureModel = valueInfo("x", kFloat, {2, 3});

TEST_F(Signatures, ErrorsNameOpsetsAndTheNearestName) {
  EXPECT_HAS(moduleOf(oneNode(node("ReduceMean", {"x"}, {"y"}, {attrInts("axes", {1})}),
                              {kSignatureModel}, 18)),
             "node 'n_y' (ReduceMean, opset 18): the operator has no attribute 'axes' in this "
             "opset; it has one only in opsets 1 to 17");
  EXPECT_HAS(
      moduleOf(oneNode(node("Shape", {"x"}, {"y"}, {attrInt("start", 1)}), {kSignatureModel}, 13)),
      "it has one only from opset 15 on");
  EXPECT_HAS(moduleOf(oneNode(node("Gemm", {"x", "x"}, {"y"}, {attrInt("trans_a", 1)}),
                              {kSignatureModel})),
             "the nearest one is 'transA'");
}

TEST_F(Signatures, MarksOfToolsAndHintsOfTheFirstOpsetsMeanNothing) {
  for (const auto &[attribute, opset] :
       {std::pair(attrText("__layer", "3"), 17), std::pair(attrInts("consumed_inputs", {0}), 5)}) {
    EXPECT_HAS(moduleOf(oneNode(node("Relu", {"x"}, {"y"}, {attribute}), {kSignatureModel}, opset)),
               "tn.relu");
  }
}

TEST_F(Signatures, InputsOfAnotherOpsetAreRefused) {
  auto arityOf = [&](const std::string &op, std::vector<std::string> inputs, int64_t opset) {
    return errorOf(
        oneNode(node(op, inputs, {"y"}), {kSignatureModel}, opset, {int64s("axes", {1})}));
  };
  EXPECT_EQ(arityOf("ReduceMean", {"x", "axes"}, 17), ErrorId::OnnxBadArity);
  EXPECT_EQ(arityOf("ReduceMean", {"x", "axes"}, 18), ErrorId::None);
  EXPECT_EQ(arityOf("Gemm", {"x", "x"}, 10), ErrorId::OnnxBadArity);
  EXPECT_EQ(arityOf("Reshape", {"x"}, 13), ErrorId::OnnxBadArity);
  EXPECT_EQ(arityOf("Clip", {"x", "x"}, 10), ErrorId::OnnxBadArity);
}

TEST_F(Signatures, AnInputThatIsNotReadIsAGap) {
  EXPECT_HAS(
      moduleOf(oneNode(node("Split", {"x", "s"}, {"y"}), {kSignatureModel}, 1, {int64s("s", {2})})),
      "gap: Split: its input 1 ('s') is not supported");
  const Message heads = valueInfo("x", kFloat, {2, 3, 4, 8});
  EXPECT_HAS(moduleOf(oneNode(node("Attention", {"x", "x", "x", "", "x"}, {"y"}), {heads}, 23)),
             "gap: Attention: its input 4 ('x') is not supported");
}

TEST_F(Signatures, AnAttributeThatIsNotReadIsAGap) {
  Message both =
      node("Constant", {}, {"y"}, {attrInt("value_int", 1), attrFloat("value_float", 1)});
  EXPECT_HAS(moduleOf(oneNode(both, {})), "gap: Constant: its attribute 'value_float'");
}

TEST_F(Signatures, AFunctionTakesTheAttributesThatItDeclares) {
  auto called = [&](const std::string &attribute) {
    Message body = node("LeakyRelu", {"a"}, {"r"}, {Message().text(1, "alpha").text(21, "slope")});
    Message function = Message().text(1, "F").text(4, "a").text(5, "r").text(6, "slope");
    function.add(7, body).add(9, opset(17)).text(10, "local");
    return moduleOf(
        oneNode(node("F", {"x"}, {"y"}, {attrFloat(attribute, 0.5f)}, "local"), {kSignatureModel}) +
        Message().add(8, opset(1, "local")).add(25, function).str());
  };
  EXPECT_HAS(called("slope"), "alpha = 5.000000e-01");
  EXPECT_HAS(called("slop"), "has no attribute 'slop'");
}

} // namespace
} // namespace tenon::onnx::test
