# src/format
