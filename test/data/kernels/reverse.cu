// Turns the floats of each block round in the memory that the launch gives, times numbers of a table.
__constant__ float table[4] = {1,2,3,4};
__device__ __noinline__ float helper(float x) { return x * table[int(x) & 3]; }
extern "C" __global__ void __launch_bounds__(256) reverse(const float *x, float *y, long long n) {
  extern __shared__ float memory[];
  memory[threadIdx.x] = helper(x[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
}
// What an engine takes of a module is one kernel.
extern "C" __global__ void first(float *x) { x[0] = table[0]; }
