# GoNB's own notebooks, from the module that go.mod pins, in this kernel.
setup_venv "$root/scripts/requirements.txt" "$root/scripts/requirements-test.txt"
isolated_install
began=$SECONDS
gonb=$(cd "$root" && go list -m -f '{{.Dir}}' github.com/janpfeifer/gonb)
counts=$(cd "$isolated" && isolated "$venv/bin/python" -I "$root/scripts/tests/nbtests.py" "$gonb") || counts="0 1 0"
add_counts nbtests "$began" $counts
