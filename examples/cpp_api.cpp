// Runs an engine that takes x[4, 8] and gives y[4, 3], through the C++ interface.
#include <cstdio>
#include <tenon/tenon.hpp>

int main(int argc, char **argv) try {
  tenon::Engine engine(argc > 1 ? argv[1] : "model.tenon");
  tenon::Session session(engine);
  std::vector<float> data(4 * 8), result(4 * 3);
  data[0] = 1, data[1] = 2, data[2] = 3;
  std::vector<tenon::Input> inputs = {{data.data(), {4, 8}}};
  std::vector<tenon::Output> outputs = {{result.data(), result.size() * sizeof(float)}};
  session.run(inputs, outputs);
  std::printf("%g %g %g\n", result[0], result[1], result[2]);
  return 0;
} catch (const tenon::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.code();
}
