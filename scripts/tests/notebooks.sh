# Notebooks from a clean kernel, at the sizes that they choose for this device, and
# what their pages show without JavaScript.
execute_notebooks notebooks --alone 02-bottleneck

# What the magics of notebook 02 say, and how they and their kind show it.
began=$SECONDS
counts=$(isolated "$venv/bin/python" "$root/scripts/tests/bottleneck.py" "$isolated/out/02-bottleneck.ipynb") || counts="0 1 0"
isolated "$bin" session stop >&2 || true
add_counts bottleneck "$began" $counts
