# What group race tests, and group unit therefore does not. Not under the detector,
# since they have one goroutine: arithmetic and text (lib/models, lib/fused,
# lib/engine/golden, hlo, triton/..., pjrt/xspace, lib/timing/stats
# and units, lib/engine/files), cells as text and Go's linker (kernels/internal/magic, linker,
# webpage). lib/engine/pjrt calls C without cgo, and with cgo, which the detector needs,
# in another way.
raced='./lib/session ./kernels/internal/notebook ./kernels/internal/cell/... ./kernels/internal/jupyter/... ./kernels/internal/runner
  ./kernels/internal/widget ./kernels/internal/toolserver ./kernels/internal/debugger ./kernels/gaiden ./lib/profile ./lib/fused/tiling ./lib/report ./lib/datasets
  ./lib/timing ./lib/sysinfo ./lib/engine/wire ./lib/engine/device/... ./lib/engine/safetensors ./lib/engine/sealed
  ./lib/portable ./kernels/internal/serve'
raced_fit='Job|Stop|PhasesUpdate|OutOfMemory|Restore|Load'
too_large='^TestFlood$|^TestHugeCell$'
