"""Judges the files in docker/ without an engine: the Dockerfiles by hadolint and
by what they must and must not do, the YAML by its keys, the scripts by bash.
Prints "passed failed skipped"."""
import os, re, subprocess, sys
from pathlib import Path

import kubernetes_validate
import yaml

root = Path(__file__).resolve().parents[2]
docker = root / "docker"
good = bad = 0


def case(name, problems):
    global good, bad
    for p in problems:
        print(f"docker: {name}: {p}", file=sys.stderr)
    good, bad = good + (not problems), bad + bool(problems)


def run(*command, **kw):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, **kw)


def wants(text, patterns):
    return [f"no {p!r}" for p in patterns if not re.search(p, text, re.M)]


for name, setup in ("Dockerfile.cpu", "scripts/run setup"), ("Dockerfile.cuda", "scripts/run cuda anyway"):
    text = (docker / name).read_text()
    r = run(Path(sys.executable).parent / "hadolint", docker / name)
    case(f"{name}: hadolint", (r.stdout + r.stderr).splitlines() if r.returncode or r.stdout else [])
    user = text.find("\nUSER ")
    case(name, wants(text, [r"^USER 1000$", "^HEALTHCHECK ", "^ENTRYPOINT .*tini", f"^RUN {setup}"])
         + [f"{image} is not pinned by its digest" for image in re.findall(r"^FROM (\S+)", text, re.M) if not re.search(r"@sha256:[0-9a-f]{64}$", image)]
         + [f"root runs {c!r}" for c in re.findall(r"^RUN (.*)", text[:user], re.M) if not c.startswith(("apt-get", "useradd"))]
         + [f"{f} is copied or run but not there" for f in re.findall(r"docker/[a-z.]+", text) if "Dockerfile" not in f and not (root / f).exists()])

for name in "start", "healthy":
    r = run("bash", "-n", docker / name)
    case(name, r.stderr.splitlines() + ([] if os.access(docker / name, os.X_OK) else ["cannot be run"]))

# An empty token would mean none: start must not hand it on.
fake = Path(os.environ.get("TMPDIR", "/tmp")) / f"gaiden-docker-{os.getpid()}"
(fake / ".venv/bin").mkdir(parents=True)
(fake / "docker").mkdir()
(fake / "notebooks").mkdir()
(fake / "docker/start").write_text((docker / "start").read_text())
for program in "jupyter", "jupyterhub-singleuser":
    (fake / ".venv/bin" / program).write_text(f'#!/bin/sh\necho "{program} token=${{JUPYTER_TOKEN-unset}} $*"\n')
    (fake / ".venv/bin" / program).chmod(0o755)
for env, want in ({"JUPYTER_TOKEN": ""}, "jupyter token=unset lab"), ({"JUPYTER_TOKEN": "x"}, "jupyter token=x lab"), ({"JUPYTERHUB_API_TOKEN": "h"}, "jupyterhub-singleuser token=unset --ServerApp"):
    r = run("bash", fake / "docker/start", env={"PATH": os.environ["PATH"], "HOME": str(fake / "home"), **env})
    case(f"start with {env}", [] if r.stdout.startswith(want) else [f"got {r.stdout + r.stderr!r}, want {want!r}"])
run("rm", "-rf", fake)

compose = yaml.safe_load((docker / "compose.yaml").read_text())
for name, s in compose["services"].items():
    problems = [] if (docker / s["build"]["context"] / s["build"]["dockerfile"]).exists() else ["its Dockerfile is not there"]
    problems += [f"port {p} is open to all" for p in s["ports"] if not p.startswith("127.0.0.1:")]
    problems += [] if ":?" in s["environment"]["JUPYTER_TOKEN"] else ["runs without a token"]
    problems += [f"no volume {v}" for v in (m.split(":")[0] for m in s["volumes"]) if v not in compose["volumes"]]
    case(f"compose.yaml: {name}", problems)

hub = yaml.safe_load((docker / "jupyterhub.yaml").read_text())["singleuser"]
state = hub["extraEnv"]["XDG_STATE_HOME"]
case("jupyterhub.yaml", ([] if state.startswith(hub["storage"]["homeMountPath"] + "/") else [f"{state} is not on the user's disk"])
     + ([] if any("nvidia.com/gpu" in p.get("kubespawner_override", {}).get("extra_resource_limits", {}) for p in hub["profileList"]) else ["no profile has a GPU"])
     + ([] if hub["cmd"].endswith("/docker/start") and hub["uid"] == 1000 else ["it starts something else, or as another user"]))
hosts = [*yaml.safe_load_all((docker / "hosts.yaml").read_text())]
for d in hosts:
    problems = []
    for version in "1.30", "1.37":
        try:
            kubernetes_validate.validate(d, version, strict=True)
        except kubernetes_validate.ValidationError as e:
            problems.append(f"Kubernetes {version}: {'.'.join(map(str, e.path))}: {e.message}")
    case(f"hosts.yaml: {d['kind']}", problems)
service, job, policy = (next(d for d in hosts if d["kind"] == k) for k in ("Service", "Job", "NetworkPolicy"))
pod = job["spec"]["template"]["spec"]
port = service["spec"]["ports"][0]["port"]
names = [f"{job['metadata']['name']}-{i}.{service['metadata']['name']}:{port}" for i in range(job["spec"]["completions"])]
labels = job["spec"]["template"]["metadata"]["labels"]
case("hosts.yaml: names", wants((docker / "hosts.yaml").read_text(), [f"^#   %hosts add {' '.join(names)} -secret /"])
     + ([] if pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None" else ["the pods have no names"])
     + ([] if service["spec"]["selector"] == labels == policy["spec"]["podSelector"]["matchLabels"] else ["service or policy is for other pods"])
     + ([] if f"-listen :{port} -secret" in pod["containers"][0]["command"][-1] else [f"session join does not listen at {port} with a secret"]))

# The batch script with a cluster of names alone: what it starts where, and what it says.
fake.mkdir()
for program, text in {
    "scontrol": "#!/bin/sh\nprintf 'n1\\nn2\\nn3\\n'\n",
    "srun": '#!/bin/sh\necho "srun $*" >>"$SAID"\n',
    "gaiden": '#!/bin/sh\necho "gaiden $*" >>"$SAID"\n[ "$2" != secret ] || echo x >"$3"\n',
    "notebook": '#!/bin/sh\nsleep 0.2\necho "notebook $*" >>"$SAID"\n',
}.items():
    (fake / program).write_text(text)
    (fake / program).chmod(0o755)
env = {"PATH": f"{fake}:{os.environ['PATH']}", "HOME": str(fake), "TMPDIR": str(fake), "SAID": str(fake / "said"), "SLURM_JOB_ID": "20123", "SLURM_JOB_NODELIST": "n[1-3]"}
r = run("bash", docker / "slurm.sh", "notebook", "a b", env={**env, "SLURM_JOB_NUM_NODES": "3"})
said = (fake / "said").read_text().splitlines()
secret = fake / ".gaiden-hosts-secret"
want = [f"gaiden session secret {secret}", f"srun --nodes=2 --ntasks-per-node=1 --exclude=n1 .* gaiden session join -listen :20123 -secret {secret}", "notebook a b", "gaiden session stop"]
case("slurm.sh", ([] if len(said) == len(want) and all(re.fullmatch(w, g) for w, g in zip(want, said)) else [f"it ran {said}, want {want}"])
     + ([] if r.stdout == f"%hosts add n2:20123 n3:20123 -secret {secret}\n" and r.returncode == 0 else [f"got {r.returncode}, {r.stdout!r}, {r.stderr!r}"]))
r = run("bash", docker / "slurm.sh", env={**env, "SLURM_JOB_NUM_NODES": "1"})
case("slurm.sh on one node", [] if r.returncode == 1 and "want 2 or more" in r.stderr else [f"got {r.returncode}, {r.stderr!r}"])
run("rm", "-rf", fake)
print(good, bad, 0)
