module gaiden

go 1.26.5

require (
	github.com/apache/arrow-go/v18 v18.5.2 // reads Arrow and Feather; its Parquet brings gRPC, 28 MB in a cell
	github.com/dlclark/regexp2 v1.11.5 // expressions of tokenizers, which have lookahead
	github.com/ebitengine/purego v0.10.0 // C libraries (PJRT) without a C compiler
	github.com/go-zeromq/zmq4 v0.17.0 // front ends of tests and benchmarks, by other hands than the kernel; not linked into gaiden
	github.com/gomlx/compute v0.1.2 // shapes, data types and the interface of a backend
	github.com/gomlx/go-huggingface v0.4.0 // downloads of models, into Hugging Face's cache
	github.com/gomlx/go-xla v0.4.1 // no package of ours: cells name GoMLX's default backend, which imports it
	github.com/gomlx/gomlx v0.28.2 // graphs, gradients and layers
	github.com/gomlx/onnx-gomlx v0.5.2 // reads ONNX; versions before it do not compile with GoMLX v0.28.2, later ones want a newer one
	github.com/janpfeifer/gonb v0.11.4 // what cells show and ask: protocol and widgets
	github.com/microcosm-cc/bluemonday v1.0.27 // what of a notebook's HTML a page may hold: an allow-list that others keep
	github.com/modelcontextprotocol/go-sdk v1.8.0 // gaiden mcp: the protocol of tools for language models; linked into gaiden, not into cells
	github.com/parquet-go/parquet-go v0.32.0 // reads Parquet, in less than half of the size of arrow-go
	github.com/pkg/errors v0.9.1 // stacks of errors, as GoMLX's have them
	github.com/rivo/uniseg v0.4.7 // graphemes, by which SentencePiece's character maps are applied
	github.com/yuin/goldmark v1.8.7 // text cells are Markdown as GitHub and JupyterLab have it
	golang.org/x/image v0.43.0 // images resized; plots as PNG: fonts and an area rasterizer of the Go project
	golang.org/x/mod v0.36.0 // go.mod and go.work read as the go command reads them
	golang.org/x/net v0.54.0 // HTML read as browsers read it
	golang.org/x/sys v0.47.0 // system calls that package syscall lacks
	golang.org/x/text v0.38.0 // normal forms of Unicode, for tokenizers
	google.golang.org/protobuf v1.36.11 // its wire format, for event files of TensorBoard
)

require (
	github.com/andybalholm/brotli v1.2.0 // indirect
	github.com/aymerick/douceur v0.2.0 // indirect
	github.com/fatih/color v1.18.0 // indirect
	github.com/fsnotify/fsnotify v1.8.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-zeromq/goczmq/v4 v4.2.2 // indirect
	github.com/goccy/go-json v0.10.5 // indirect
	github.com/gofrs/flock v0.13.0 // indirect
	github.com/gofrs/uuid v4.4.0+incompatible // indirect
	github.com/gomlx/exceptions v0.0.3 // indirect
	github.com/google/flatbuffers v25.12.19+incompatible // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/gorilla/css v1.0.1 // indirect
	github.com/gx-org/backend v0.3.0 // indirect
	github.com/gx-org/gx v0.6.1 // indirect
	github.com/janpfeifer/must v0.2.0 // indirect
	github.com/klauspost/compress v1.18.5 // indirect
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	github.com/parquet-go/jsonlite v1.5.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.26 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/twpayne/go-geom v1.6.1 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.lsp.dev/jsonrpc2 v0.10.0 // indirect
	go.lsp.dev/pkg v0.0.0-20210717090340-384b27a52fb2 // indirect
	go.lsp.dev/protocol v0.12.0 // indirect
	go.lsp.dev/uri v0.3.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	golang.org/x/tools v0.45.0 // indirect
	golang.org/x/xerrors v0.0.0-20240903120638-7835f813f4da // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
)
