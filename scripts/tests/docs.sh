# The documents: every snippet runs, every link inside the repository leads
# somewhere.
setup_venv "$root/scripts/requirements.txt"
isolated_install
began=$SECONDS
counts=$(isolated "$venv/bin/python" "$root/scripts/tests/docs.py" --gaiden "$isolated/data/gaiden/bin/gaiden" --work "$work/docs") || counts=${counts:-0 1 0}
isolated "$bin" session stop >&2 || true
add_counts docs "$began" $counts
