// Carries the precompiled header shared by every file that uses MLIR; it holds no code.
