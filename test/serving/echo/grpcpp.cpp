// A bare echo of gRPC messages over grpc++, as bytes, by one completion queue and one thread. The
// first line on stdout is its port.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>

namespace {

/// A call: created, read, written, then done.
class Call {
public:
  Call(grpc::AsyncGenericService &service, grpc::ServerCompletionQueue &queue)
      : service(service), queue(queue), stream(&context) {
    service.RequestCall(&context, &stream, &queue, &queue, this);
  }

  void proceed(bool isOk) {
    if (!isOk || step == Step::Done) {
      delete this;
      return;
    }
    if (step == Step::Called) {
      new Call(service, queue);
      step = Step::Read;
      stream.Read(&message, this);
    } else {
      step = Step::Done;
      stream.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, this);
    }
  }

private:
  enum class Step { Called, Read, Done };
  grpc::AsyncGenericService &service;
  grpc::ServerCompletionQueue &queue;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream;
  grpc::ByteBuffer message;
  Step step = Step::Called;
};

} // namespace

int main() {
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  printf("%d\n", port);
  fflush(stdout);
  for (int i = 0; i < 256; ++i) {
    new Call(service, *queue);
  }
  void *tag = nullptr;
  bool isOk = false;
  while (queue->Next(&tag, &isOk)) {
    static_cast<Call *>(tag)->proceed(isOk);
  }
}
