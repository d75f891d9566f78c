# GoMLX's compliance suite for backends, over a real socket to a real worker.
gotest backend -timeout 10m -run '^TestBackend$' ./lib/session
