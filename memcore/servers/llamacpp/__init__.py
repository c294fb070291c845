"""llama.cpp: GGUF files, its graphs and its buffers."""
