# kernels/emu
