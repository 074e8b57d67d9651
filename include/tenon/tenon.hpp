// A thin C++ layer over tenon.h: the same calls with ownership and exceptions. Header-only, so it
// adds nothing to the binary interface; tenon.h documents threads and lifetimes.
//
// Example (examples/cpp_api.cpp):
//
//     #include <cstdio>
//     #include <tenon/tenon.hpp>
//
//     int main(int argc, char **argv) try {
//       tenon::Engine engine(argc > 1 ? argv[1] : "model.tenon");
//       tenon::Session session(engine);
//       std::vector<float> data(4 * 8), result(4 * 3);
//       data[0] = 1, data[1] = 2, data[2] = 3;
//       std::vector<tenon::Input> inputs = {{data.data(), {4, 8}}};
//       std::vector<tenon::Output> outputs = {{result.data(), result.size() * sizeof(float)}};
//       session.run(inputs, outputs);
//       std::printf("%g %g %g\n", result[0], result[1], result[2]);
//       return 0;
//     } catch (const tenon::Error &error) {
//       std::fprintf(stderr, "%s\n", error.what());
//       return error.code();
//     }

#ifndef TENON_TENON_HPP
#define TENON_TENON_HPP

#include <tenon/tenon.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tenon {

/// What every call below throws on error.
class Error : public std::runtime_error {
public:
  /// Takes the status over.
  explicit Error(tenon_status *status)
      : std::runtime_error(tenon_status_text(status)), errorCode(tenon_status_code(status)),
        errorId(tenon_status_id(status)) {
    tenon_status_destroy(status);
  }
  tenon_code code() const { return errorCode; }
  /// "TN0603".
  const std::string &id() const { return errorId; }

private:
  tenon_code errorCode;
  std::string errorId;
};

namespace detail {
inline void check(tenon_status *status) {
  if (status) {
    throw Error(status);
  }
}

/// A struct of the C interface with its size set and the rest zero.
template <typename T> T sized() {
  T value = {};
  value.struct_size = sizeof(T);
  return value;
}
} // namespace detail

/// An opened engine; may be shared between threads.
class Engine {
public:
  explicit Engine(const std::string &path,
                  const tenon_engine_options &options = detail::sized<tenon_engine_options>()) {
    tenon_engine *opened = nullptr;
    detail::check(tenon_engine_open(path.c_str(), &options, &opened));
    handle.reset(opened);
  }

  std::string variant() const { return tenon_engine_variant(get()); }
  /// Number of the GPU in use; -1 on a CPU.
  int gpu() const { return tenon_engine_gpu(get()); }
  std::vector<tenon_port_info> inputs() const {
    std::vector<tenon_port_info> ports(tenon_engine_input_count(get()),
                                       detail::sized<tenon_port_info>());
    for (size_t i = 0; i < ports.size(); ++i) {
      detail::check(tenon_engine_input(get(), i, &ports[i]));
    }
    return ports;
  }
  std::vector<tenon_port_info> outputs() const {
    std::vector<tenon_port_info> ports(tenon_engine_output_count(get()),
                                       detail::sized<tenon_port_info>());
    for (size_t i = 0; i < ports.size(); ++i) {
      detail::check(tenon_engine_output(get(), i, &ports[i]));
    }
    return ports;
  }
  tenon_engine *get() const { return handle.get(); }

private:
  struct Destroy {
    void operator()(tenon_engine *engine) const { tenon_engine_destroy(engine); }
  };
  std::unique_ptr<tenon_engine, Destroy> handle;
};

struct Input {
  const void *data;
  std::vector<int64_t> dims;
};

/// A null pointer keeps the output in the session.
struct Output {
  void *data = nullptr;
  size_t bytes = 0;
};

/// Runs an engine; used by one thread at a time, and a second one is told so (TN0614).
class Session {
public:
  explicit Session(const Engine &engine,
                   const tenon_session_options &options = detail::sized<tenon_session_options>()) {
    tenon_session *created = nullptr;
    detail::check(tenon_session_create(engine.get(), &options, &created));
    handle.reset(created);
  }

  void prepare(const std::vector<Input> &inputs) {
    std::vector<tenon_input> bound = bind(inputs);
    detail::check(tenon_session_prepare(get(), bound.data(), bound.size()));
  }
  std::vector<int64_t> outputDims(size_t index) const {
    const int64_t *dims = nullptr;
    size_t rank = 0;
    detail::check(tenon_session_output_shape(get(), index, &dims, &rank, nullptr));
    return std::vector<int64_t>(dims, dims + rank);
  }
  void run(const std::vector<Input> &inputs, const std::vector<Output> &outputs) {
    std::vector<tenon_input> boundInputs = bind(inputs);
    std::vector<tenon_output> boundOutputs;
    for (const Output &output : outputs) {
      boundOutputs.push_back({output.data, output.bytes});
    }
    detail::check(tenon_session_run(get(), boundInputs.data(), boundInputs.size(),
                                    boundOutputs.data(), boundOutputs.size()));
  }
  /// Tensors on the host or on the engine's GPU; with a stream, the run is only put on it.
  void run(const std::vector<const tenon_tensor *> &inputs,
           const std::vector<const tenon_tensor *> &outputs, void *stream = nullptr) {
    tenon_run_options options = detail::sized<tenon_run_options>();
    options.stream = stream;
    detail::check(tenon_session_run_tensors(get(), inputs.data(), inputs.size(), outputs.data(),
                                            outputs.size(), &options));
  }
  tenon_memory_use memory() const {
    tenon_memory_use use = detail::sized<tenon_memory_use>();
    detail::check(tenon_session_memory(get(), &use));
    return use;
  }
  tenon_run_facts facts() const {
    tenon_run_facts facts = detail::sized<tenon_run_facts>();
    detail::check(tenon_session_facts(get(), &facts));
    return facts;
  }
  const void *outputData(size_t index) const { return tenon_session_output_data(get(), index); }
  void resetState() { detail::check(tenon_session_reset_state(get())); }
  tenon_session *get() const { return handle.get(); }

private:
  static std::vector<tenon_input> bind(const std::vector<Input> &inputs) {
    std::vector<tenon_input> bound;
    for (const Input &input : inputs) {
      bound.push_back({input.data, input.dims.data(), input.dims.size()});
    }
    return bound;
  }

  struct Destroy {
    void operator()(tenon_session *session) const { tenon_session_destroy(session); }
  };
  std::unique_ptr<tenon_session, Destroy> handle;
};

} // namespace tenon

#endif
