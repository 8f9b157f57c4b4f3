# src/boot
