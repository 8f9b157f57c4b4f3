# src/conf
