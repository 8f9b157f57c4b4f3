# src/convert
