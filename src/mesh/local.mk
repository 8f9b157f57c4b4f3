# src/mesh
