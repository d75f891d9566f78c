# Everything that go test finds, but what the other groups run.
gotest unit -timeout 20m $(cd "$root" && go list ./... | grep -v '^gaiden/lib/session$')
(cd "$root" && go vet ./...) || failed=$((failed + 1))
