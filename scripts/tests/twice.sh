# Notebooks from a clean kernel, twice: all numbers that no clock has a part in are
# the same.
execute_notebooks twice --twice
isolated "$bin" session stop >&2 || true
