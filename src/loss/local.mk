# src/loss
