# The session with real processes that are killed.
gotest session -timeout 10m -skip '^TestBackend$' ./lib/session
# Kernels that are malformed, or end the worker.
gotest session-kernels -timeout 5m -run '^TestFaults$' ./lib/fused/tiling
