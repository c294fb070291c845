"""ggml without data: graphs of tensors, which backend computes which of their nodes, and what their buffers take."""
