# src/ckpt
