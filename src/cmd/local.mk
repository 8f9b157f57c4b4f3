# src/cmd
