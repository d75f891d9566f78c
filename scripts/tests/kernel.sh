# The kernel as Jupyter starts it: a real binary, real sockets, the public
# conformance suite, and the checks that it lacks.
setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
isolated_install
began=$SECONDS
counts=$(cd "$isolated" && isolated "$venv/bin/python" "$root/scripts/tests/conformance.py") || counts="0 1 0"
isolated "$bin" session stop >&2 || true
add_counts kernel "$began" $counts
