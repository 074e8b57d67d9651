// y = x transposed, by tiles of 32 x 32 that a block turns round in shared memory.
extern "C" __global__ void transpose(const float *x, float *y, int rows, int columns) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x;
  for (int i = threadIdx.y; i < 32; i += blockDim.y) {
    int row = blockIdx.y * 32 + i;
    if (row < rows && column < columns) {
      tile[i][threadIdx.x] = x[row * columns + column];
    }
  }
  __syncthreads();
  int row = blockIdx.y * 32 + threadIdx.x;
  for (int i = threadIdx.y; i < 32; i += blockDim.y) {
    int from = blockIdx.x * 32 + i;
    if (row < rows && from < columns) {
      y[from * rows + row] = tile[threadIdx.x][i];
    }
  }
}
