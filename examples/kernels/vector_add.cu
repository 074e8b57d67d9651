// c = a + alpha * b over n elements: one thread an element.
extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n, float alpha) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    c[i] = a[i] + alpha * b[i];
  }
}
