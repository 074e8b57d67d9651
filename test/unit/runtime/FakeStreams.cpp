// Streams, events and graphs. Streams do their work at once, unless they capture; what was captured
// runs in an order that shows where an edge is missing.

#include "test/unit/runtime/FakeDriver.h"
#include "test/unit/runtime/FakePlan.h"

#include <algorithm>

using namespace tenon::runtime::cuda;

namespace tenon::test {

int submit(StreamHandle stream, std::unique_ptr<CudaNodeObject> node) {
  if (stream && stream->capture) {
    std::vector<std::unique_ptr<CudaNodeObject>> &nodes = stream->capture->graph.nodes;
    node->index = nodes.size();
    for (const CudaNodeObject *before : stream->last) {
      node->after.push_back(before->index);
    }
    stream->last = {node.get()};
    nodes.push_back(std::move(node));
    return kSuccess;
  }
  return node->function ? runKernel(*node->function, node->call) : node->work();
}

int submitWork(StreamHandle stream, std::function<int()> work) {
  std::unique_ptr<CudaNodeObject> node = std::make_unique<CudaNodeObject>();
  node->work = std::move(work);
  return submit(stream, std::move(node));
}

namespace {

void copyNodes(const CudaGraphObject &from, CudaGraphExecObject &to) {
  std::vector<std::unique_ptr<CudaNodeObject>> nodes;
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    nodes.push_back(std::make_unique<CudaNodeObject>(*from.nodes[i]));
    // An update keeps the nodes by which the executable graph is known.
    nodes.back()->origin = to.nodes.empty() ? from.nodes[i].get() : to.nodes[i]->origin;
  }
  to.nodes = std::move(nodes);
}

/// Nodes that `node` follows, directly or not, and itself.
void addEarlier(const CudaGraphObject &graph, size_t node, std::vector<bool> &earlier) {
  if (!earlier[node]) {
    earlier[node] = true;
    for (size_t before : graph.nodes[node]->after) {
      addEarlier(graph, before, earlier);
    }
  }
}

/// Whether all that the streams of a capture did is followed by the next node of the first.
bool isJoined(const Capture &capture) {
  std::vector<bool> earlier(capture.graph.nodes.size());
  for (const CudaNodeObject *node : capture.streams[0]->last) {
    addEarlier(capture.graph, node->index, earlier);
  }
  return std::ranges::find(earlier, false) == earlier.end();
}

void describeGraph(const CudaGraphObject &graph) {
  driver().captured.clear();
  for (const std::unique_ptr<CudaNodeObject> &node : graph.nodes) {
    driver().captured.push_back(
        {node->function ? node->function->info->name : "", node->after, node->isEarly});
  }
}

/// Runs nodes as late as their edges allow those before them: of those that may run, the last.
int runNodes(const std::vector<std::unique_ptr<CudaNodeObject>> &nodes) {
  std::vector<bool> done(nodes.size());
  for (size_t count = 0; count < nodes.size(); ++count) {
    size_t next = nodes.size();
    for (size_t i = 0; i < nodes.size(); ++i) {
      bool isReady = !done[i] && std::ranges::all_of(nodes[i]->after,
                                                     [&](size_t before) { return done[before]; });
      next = isReady ? i : next;
    }
    done[next] = true;
    const CudaNodeObject &node = *nodes[next];
    if (int code = node.function ? runKernel(*node.function, node.call) : node.work()) {
      return code;
    }
  }
  return kSuccess;
}

bool haveEqualEdges(const CudaGraphObject &graph, const CudaGraphExecObject &exec) {
  return std::ranges::equal(
      graph.nodes, exec.nodes,
      [](const std::unique_ptr<CudaNodeObject> &a, const std::unique_ptr<CudaNodeObject> &b) {
        return a->after == b->after && a->isEarly == b->isEarly;
      });
}

} // namespace
} // namespace tenon::test

using namespace tenon::test;

EXPORT int cuStreamCreate(StreamHandle *stream, unsigned) {
  FAKE_IN_CONTEXT(cuStreamCreate)
  *stream = new CudaStreamObject();
  return kSuccess;
}

EXPORT int cuStreamDestroy_v2(StreamHandle stream) {
  FAKE_IN_CONTEXT(cuStreamDestroy_v2)
  delete stream;
  return kSuccess;
}

EXPORT int cuStreamSynchronize(StreamHandle) {
  FAKE_IN_CONTEXT(cuStreamSynchronize)
  return driver().isCapturing() ? kCaptureUnsupported : kSuccess;
}

EXPORT int cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  FAKE_IN_CONTEXT(cuStreamWaitEvent)
  if (!event->capture) {
    return kSuccess;
  }
  if (!stream->capture) {
    stream->capture = event->capture;
    stream->capture->streams.push_back(stream);
    stream->last.clear();
  }
  for (NodeHandle node : event->last) {
    if (std::ranges::find(stream->last, node) == stream->last.end()) {
      stream->last.push_back(node);
    }
  }
  return kSuccess;
}

EXPORT int cuStreamBeginCapture_v2(StreamHandle stream, int) {
  FAKE_IN_CONTEXT(cuStreamBeginCapture_v2)
  stream->capture = std::make_shared<Capture>();
  stream->capture->streams = {stream};
  stream->last.clear();
  ++driver().capturing;
  return kSuccess;
}

EXPORT int cuStreamEndCapture(StreamHandle stream, GraphHandle *graph) {
  std::lock_guard<std::recursive_mutex> guard(driver().mutex);
  --driver().capturing;
  *graph = nullptr;
  std::shared_ptr<Capture> capture = stream->capture;
  bool isWhole = isJoined(*capture);
  for (StreamHandle member : capture->streams) {
    member->capture.reset();
  }
  if (int failure = driver().begin("cuStreamEndCapture")) {
    return failure;
  }
  if (!isWhole) {
    return kCaptureUnjoined;
  }
  describeGraph(capture->graph);
  *graph = new CudaGraphObject(std::move(capture->graph));
  return kSuccess;
}

EXPORT int cuStreamGetCaptureInfo_v3(StreamHandle stream, int *, uint64_t *, GraphHandle *,
                                     const NodeHandle **nodes, const void **, size_t *count) {
  FAKE_IN_CONTEXT(cuStreamGetCaptureInfo_v3)
  *nodes = stream->last.data();
  *count = stream->last.size();
  return kSuccess;
}

EXPORT int cuEventCreate(EventHandle *event, unsigned flags) {
  FAKE_IN_CONTEXT(cuEventCreate)
  *event = new CudaEventObject();
  (*event)->isTimed = flags == kEventWithTiming;
  return kSuccess;
}

EXPORT int cuEventDestroy_v2(EventHandle event) {
  FAKE_IN_CONTEXT(cuEventDestroy_v2)
  delete event;
  return kSuccess;
}

EXPORT int cuEventRecord(EventHandle event, StreamHandle stream) {
  FAKE_IN_CONTEXT(cuEventRecord)
  event->capture = stream ? stream->capture : nullptr;
  event->last = event->capture ? stream->last : std::vector<NodeHandle>();
  event->time = FakePlan::get() ? FakePlan::get()->now() : std::chrono::steady_clock::now();
  return kSuccess;
}

EXPORT int cuEventSynchronize(EventHandle) {
  FAKE_IN_CONTEXT(cuEventSynchronize)
  return kSuccess;
}

EXPORT int cuEventElapsedTime(float *milliseconds, EventHandle start, EventHandle end) {
  FAKE_IN_CONTEXT(cuEventElapsedTime)
  if (!start->isTimed || !end->isTimed) {
    return kInvalidValue;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return kSuccess;
}

EXPORT int cuGraphInstantiateWithFlags(GraphExecHandle *exec, GraphHandle graph,
                                       unsigned long long) {
  FAKE_IN_CONTEXT(cuGraphInstantiateWithFlags)
  *exec = new CudaGraphExecObject();
  copyNodes(*graph, **exec);
  return kSuccess;
}

EXPORT int cuGraphExecUpdate_v2(GraphExecHandle exec, GraphHandle graph, GraphUpdateInfo *) {
  FAKE_IN_CONTEXT(cuGraphExecUpdate_v2)
  if (!haveEqualEdges(*graph, *exec)) {
    return kGraphUpdateFailed;
  }
  copyNodes(*graph, *exec);
  return kSuccess;
}

EXPORT int cuGraphExecKernelNodeSetParams_v2(GraphExecHandle exec, NodeHandle node,
                                             const KernelNodeParams *params) {
  FAKE_IN_CONTEXT(cuGraphExecKernelNodeSetParams_v2)
  for (std::unique_ptr<CudaNodeObject> &own : exec->nodes) {
    if (own->origin == node && own->function) {
      return readCall(*params->function, params->gridX, params->blockX, params->sharedBytes,
                      params->params, own->call);
    }
  }
  return kInvalidValue;
}

EXPORT int cuGraphLaunch(GraphExecHandle exec, StreamHandle) {
  FAKE_IN_CONTEXT(cuGraphLaunch)
  return runNodes(exec->nodes);
}

EXPORT int cuGraphExecDestroy(GraphExecHandle exec) {
  FAKE_IN_CONTEXT(cuGraphExecDestroy)
  delete exec;
  return kSuccess;
}

EXPORT int cuGraphDestroy(GraphHandle graph) {
  FAKE_IN_CONTEXT(cuGraphDestroy)
  delete graph;
  return kSuccess;
}
