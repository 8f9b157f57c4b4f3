# kernels/cuda
