# src/text
