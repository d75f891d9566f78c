# The session with real processes that are killed.
gotest session -timeout 10m -skip '^TestBackend$' ./lib/session
