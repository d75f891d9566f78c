# GoMLX's compliance suite for backends and its training loop, over a real socket to a
# real worker.
gotest backend -timeout 10m -run '^(TestBackend|TestGoMLXLoop)$' ./lib/session
