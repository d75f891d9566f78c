"""Writes a wheel without a build backend, byte for byte the same for the same files: a
program, data files, a software bill of materials (PEP 770), and extras. Prints its name."""
import argparse, base64, hashlib, zipfile
from pathlib import Path

TAG = "py3-none-manylinux_2_17_x86_64"
METADATA = """Metadata-Version: 2.4
Name: gaiden
Version: {version}
Summary: A Jupyter kernel and library for deep learning in Go, on CPUs and NVIDIA GPUs
License-Expression: Apache-2.0
License-File: LICENSE
Classifier: Framework :: Jupyter
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.10
{extras}Description-Content-Type: text/markdown

# Gaiden

A Jupyter kernel and library for interactive deep learning in Go, on CPUs and NVIDIA GPUs.
Choose the kernel *Go (Gaiden)*. It needs Go 1.26 or newer in PATH (or the extra `go`) and an
XLA plugin (the extra `cpu` or `cuda`). `gaiden doctor` checks the installation.
"""


def main():
    p = argparse.ArgumentParser()
    for name in "version", "program", "data", "sbom", "license", "out":
        p.add_argument("--" + name, required=True)
    p.add_argument("--extra", action="append", default=[], help="NAME=REQUIREMENT")
    a = p.parse_args()
    extras = [e.split("=", 1) for e in a.extra]
    lines = [f"Provides-Extra: {name}\n" for name in dict.fromkeys(name for name, _ in extras)]
    lines += [f"Requires-Dist: {need} ; extra == '{name}'\n" for name, need in extras]
    info, data = f"gaiden-{a.version}.dist-info", f"gaiden-{a.version}.data"
    files = {f"{data}/scripts/gaiden": Path(a.program).read_bytes()}
    for path in sorted(Path(a.data).rglob("*")):
        if path.is_file():
            files[f"{data}/data/{path.relative_to(a.data)}"] = path.read_bytes()
    files[f"{info}/licenses/LICENSE"] = Path(a.license).read_bytes()
    files[f"{info}/sboms/gaiden.cdx.json"] = Path(a.sbom).read_bytes()
    files[f"{info}/METADATA"] = METADATA.format(version=a.version, extras="".join(lines)).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: gaiden scripts/wheel\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode()
    record = [f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(b).digest()).rstrip(b'=').decode()},{len(b)}\n" for n, b in files.items()]
    files[f"{info}/RECORD"] = "".join(record + [f"{info}/RECORD,,\n"]).encode()
    name = f"gaiden-{a.version}-{TAG}.whl"
    with zipfile.ZipFile(Path(a.out) / name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for n, b in files.items():
            entry = zipfile.ZipInfo(n)  # with the oldest date that an archive can have
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in n else 0o100644) << 16
            z.writestr(entry, b)
    print(name)


main()
