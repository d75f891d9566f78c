# The linker that loads packages ahead, with the Go that is installed, the newest release
# and the one before: it has to be known, and to make what theirs makes. With another
# Go, cells are linked by its own linker, which group unit tests.
gotest linker -count 1 ./kernels/internal/linker
for version in go1.26.11 go1.27.4; do
  GOTOOLCHAIN=$version gotest "linker-$version" -count 1 ./kernels/internal/linker
done
