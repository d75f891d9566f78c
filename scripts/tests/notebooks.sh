# Notebooks from a clean kernel, at the sizes that they choose for this device, and the
# pages show everything without JavaScript. One of each kind of net runs twice: all
# numbers that no clock has a part in are the same.
setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
isolated_install
began=$SECONDS notebooks=("$root/notebooks/01-gaiden.ipynb") # it runs through Jupyter's client
for n in "$root"/notebooks/*.ipynb; do
  case $n in */01-*) ;; *) notebooks+=("$n") ;; esac
done
counts=$(isolated "$venv/bin/python" "$root/scripts/tests/notebooks.py" --gaiden "$bin" --out "$isolated/out" "${notebooks[@]}" --alone 02-bottleneck \
  --twice 01-gaiden 05-lstm 07-peaks 10-gpt 12-vae 14-table 15-gan 17-streams) || counts="0 1 0"
add_counts notebooks "$began" $counts

# What the magics of notebook 02 say, and how they and their kind show it.
began=$SECONDS
counts=$(isolated "$venv/bin/python" "$root/scripts/tests/bottleneck.py" "$isolated/out/02-bottleneck.ipynb") || counts="0 1 0"
isolated "$bin" session stop >&2 || true
add_counts bottleneck "$began" $counts
