# What containers are made from, as far as it can be judged without an engine.
began=$SECONDS
setup_venv "$root/scripts/requirements.txt" "$root/scripts/tests/requirements-docker.txt"
counts=$("$venv/bin/python" "$root/scripts/tests/docker.py") || counts=${counts:-0 1 0}
add_counts docker "$began" $counts
