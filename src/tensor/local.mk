# src/tensor
