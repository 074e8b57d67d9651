// Einsum by its definition: sums, over all values of the letters that the result lacks, of products
// of elements. Relies on the reference interpreter for what was imported.
#include "compiler/reference/Interpreter.h"
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

#include <map>

namespace tenon::onnx::test {
namespace {

struct Case {
  std::string equation;
  std::vector<std::vector<int64_t>> shapes;
  std::string plain =
      {}; ///< the equation with a letter for each dim and a result, where that is another
};

class Einsum : public ImportFixture {
protected:
  static std::string modelOf(const Case &c, bool isFree = false) {
    std::vector<Message> infos;
    std::vector<std::string> names;
    for (const std::vector<int64_t> &shape : c.shapes) {
      names.push_back(std::string(1, char('a' + names.size())));
      std::vector<Dim> dims;
      for (size_t i = 0; i < shape.size(); ++i) {
        dims.push_back(isFree ? Dim(names.back() + std::to_string(i)) : Dim(shape[i]));
      }
      infos.push_back(valueInfo(names.back(), kFloat, dims));
    }
    return oneNode(node("Einsum", names, {"y"}, {attrText("equation", c.equation)}), infos);
  }

  Result<std::vector<float>> run(const Case &c, const std::vector<std::vector<float>> &values) {
    TENON_ASSIGN(ImportResult imported, import(modelOf(c)));
    if (!imported.module) {
      return Status::error(ErrorId::InternalError, imported.gaps[0].why);
    }
    std::vector<reference::Tensor> tensors;
    for (size_t i = 0; i < values.size(); ++i) {
      llvm::ArrayRef<char> bytes(reinterpret_cast<const char *>(values[i].data()),
                                 values[i].size() * sizeof(float));
      tensors.push_back(*reference::Tensor::copy(DType::F32, c.shapes[i], bytes));
    }
    reference::Interpreter interpreter(&store);
    TENON_ASSIGN(
        std::vector<reference::Tensor> results,
        interpreter.evaluate(imported.module->lookupSymbol<mlir::func::FuncOp>("main"), tensors));
    const float *first = results[0].as<float>();
    return std::vector<float>(first, first + results[0].count());
  }
};

/// Walks all values of the letters, the last one fastest.
class Letters {
public:
  Letters(const std::string &order, std::map<char, int64_t> sizes)
      : letters(order), counts(std::move(sizes)) {}

  template <typename Body> void walk(size_t depth, const Body &body) {
    if (depth == letters.size()) {
      return body();
    }
    for (at[letters[depth]] = 0; at[letters[depth]] < counts[letters[depth]];
         ++at[letters[depth]]) {
      walk(depth + 1, body);
    }
  }
  /// Where an element lies; a dim of 1 has the same element for all.
  size_t place(const std::string &term, const std::vector<int64_t> &shape) {
    int64_t offset = 0;
    for (size_t i = 0; i < term.size(); ++i) {
      offset = offset * shape[i] + (shape[i] == 1 ? 0 : at[term[i]]);
    }
    return size_t(offset);
  }

private:
  std::string letters;
  std::map<char, int64_t> counts, at;
};

std::vector<float> expected(const Case &c, const std::vector<std::vector<float>> &values) {
  std::string plain = c.plain.empty() ? c.equation : c.plain;
  std::string result = plain.substr(plain.find("->") + 2), order = result;
  std::vector<std::string> terms(1);
  for (char letter : plain.substr(0, plain.find("->"))) {
    letter == ',' ? (void)terms.emplace_back() : terms.back().push_back(letter);
  }
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t d = 0; d < terms[i].size(); ++d) {
      sizes[terms[i][d]] = std::max(sizes[terms[i][d]], c.shapes[i][d]);
    }
  }
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (char letter : result) {
    dims.push_back(sizes[letter]);
    count *= sizes[letter];
  }
  for (auto [letter, size] : sizes) {
    order += result.find(letter) == std::string::npos ? std::string(1, letter) : "";
  }
  std::vector<float> sums(static_cast<size_t>(count));
  Letters letters(order, sizes);
  letters.walk(0, [&] {
    float product = 1;
    for (size_t i = 0; i < terms.size(); ++i) {
      product *= values[i][letters.place(terms[i], c.shapes[i])];
    }
    sums[letters.place(result, dims)] += product;
  });
  return sums;
}

TEST_F(Einsum, IsTheSumOfProducts) {
  const Case cases[] = {
      {"ij,jk->ik", {{2, 3}, {3, 4}}},
      {" i j , j k -> i k ", {{2, 3}, {3, 4}}, "ij,jk->ik"},
      {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
      {"bhqd,bhkd->bhqk", {{2, 3, 4, 5}, {2, 3, 2, 5}}},
      {"bqhd,bkhd->bhqk", {{2, 4, 3, 5}, {2, 2, 3, 5}}},
      {"bijk,cjkd->bdic", {{2, 3, 4, 2}, {3, 4, 2, 5}}},
      {"ba", {{3, 2}}, "ba->ab"},
      {"ij,jk", {{2, 3}, {3, 4}}, "ij,jk->ik"},
      {"Ba,aB", {{3, 2}, {2, 3}}, "Ba,aB->"},
      {"ij,ij->", {{2, 3}, {2, 3}}},
      {"bi,bi->bi", {{2, 3}, {2, 3}}},
      {"i,j,k->kij", {{2}, {3}, {4}}},
      {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 2}}},
      {"ij,kj,jl->j", {{2, 3}, {4, 3}, {3, 2}}},
      {",i->i", {{}, {3}}},
      {"ij->", {{2, 3}}},
      // Diagonals.
      {"ii->i", {{3, 3}}},
      {"ii", {{3, 3}}, "ii->"},
      {"iij->ji", {{3, 3, 2}}},
      {"ijijj->ji", {{2, 3, 2, 3, 3}}},
      {"iii->i", {{3, 3, 3}}},
      {"ii,ij->j", {{3, 3}, {3, 2}}},
      {"ij,jj->i", {{2, 3}, {3, 3}}},
      {"bii,bij->bj", {{2, 3, 3}, {2, 3, 2}}},
      // An ellipsis.
      {"...ij,...jk->...ik", {{2, 3, 4, 2}, {2, 3, 2, 5}}, "abij,abjk->abik"},
      {"...ij,...jk", {{2, 1, 4, 2}, {5, 2, 3}}, "abij,bjk->abik"},
      {"i...,i...", {{3, 2, 4}, {3, 4}}, "iab,ib->ab"},
      {"...i->i...", {{2, 3, 4}}, "abi->iab"},
      {"b...i,...ij->b...j", {{2, 3, 4}, {1, 4, 5}}, "bai,aij->baj"},
      {"...ii->...i", {{2, 3, 3}}, "aii->ai"},
      {"...i,...i->", {{2, 3}, {2, 3}}, "ai,ai->"},
      {"...", {{2, 3}}, "ab->ab"},
      // Dims of 1 spread.
      {"ij,ij->ij", {{1, 3}, {2, 3}}},
      {"ij,jk->ik", {{2, 1}, {3, 4}}},
      {"bij,bjk->bik", {{1, 3, 4}, {2, 4, 5}}},
  };
  for (const Case &c : cases) {
    std::vector<std::vector<float>> values;
    int number = 0;
    for (const std::vector<int64_t> &shape : c.shapes) {
      int64_t count = 1;
      for (int64_t dim : shape) {
        count *= dim;
      }
      values.emplace_back();
      for (int64_t i = 0; i < count; ++i) {
        values.back().push_back(float((++number * 7) % 11 - 5)); // whole: sums are exact
      }
    }
    Result<std::vector<float>> result = run(c, values);
    ASSERT_TRUE(result) << c.equation << ": " << result.status().toString();
    EXPECT_EQ(*result, expected(c, values)) << c.equation;
  }
}

TEST_F(Einsum, EquationsThatDoNotFitAreRefused) {
  for (const Case &c : std::initializer_list<Case>{{"ij,jk->ik", {{2, 3}}},
                                                   {"ij->ij", {{2, 3, 4}}},
                                                   {"ijk->ij", {{2, 3}}},
                                                   {"ij->iz", {{2, 3}}},
                                                   {"ij->ii", {{2, 3}}},
                                                   {"i.j->i", {{2, 3}}},
                                                   {"......i->i", {{2, 3}}},
                                                   {"i1->i", {{2, 3}}}}) {
    EXPECT_EQ(errorOf(modelOf(c)), ErrorId::OnnxBadAttribute) << c.equation;
  }
  EXPECT_EQ(errorOf(modelOf({"ii->i", {{2, 3}}})), ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(modelOf({"ii->i", {{1, 3}}})), ErrorId::OnnxBadNode);
  EXPECT_EQ(errorOf(modelOf({"ij,jk->ik", {{2, 3}, {4, 2}}})), ErrorId::OnnxBadNode);
}

TEST_F(Einsum, ADiagonalMakesItsDimsEqual) {
  std::string text = moduleOf(modelOf({"bii->bi", {{2, 3, 3}}}, /*isFree=*/true));
  EXPECT_HAS(text, "#tn.constraint<equal, ()[s0, s1, s2] -> (s2, s1), \"n_y\">");
}

TEST_F(Einsum, BatchDimsStayApart) {
  // As the compiler knows attention by.
  EXPECT_HAS_NOT(
      moduleOf(modelOf({"bhqd,bhdk->bhqk", {{2, 3, 4, 5}, {2, 3, 5, 6}}}, /*isFree=*/true)),
      "tn.reshape");
}

} // namespace
} // namespace tenon::onnx::test
