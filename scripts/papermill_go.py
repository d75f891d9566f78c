#!/usr/bin/env python3
"""Papermill for Go notebooks: papermill's own command line, which learns here how
to write a cell of parameters in Go.

    .venv/bin/python scripts/papermill_go.py in.ipynb out.ipynb -p rate 0.01 -p name mnist

It needs papermill in that Python (pip install papermill). As everywhere, the
cell with the tag "parameters" holds the defaults:

    rate := 0.1
    name := "fashion"

A number that is to be a float64 is written with its point: -p rate 1.0.
"""
import json, math, re, sys

from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators


class Go(Translator):
    @classmethod
    def translate_none(cls, val):
        return "any(nil)"

    @classmethod
    def translate_str(cls, val):
        return json.dumps(val, ensure_ascii=False)

    @classmethod
    def translate_bool(cls, val):
        return "true" if val else "false"

    @classmethod
    def translate_int(cls, val):
        return str(val)

    @classmethod
    def translate_float(cls, val):
        if math.isfinite(val):
            return repr(val)
        return "math.NaN()" if math.isnan(val) else f"math.Inf({1 if val > 0 else -1})"

    @classmethod
    def translate_list(cls, val):
        kinds = {type(v) for v in val}
        kind = {bool: "bool", int: "int", float: "float64", str: "string"}.get(kinds.pop(), "any") if len(kinds) == 1 else "any"
        return "[]" + kind + "{" + ", ".join(cls.translate(v) for v in val) + "}"

    translate_tuple = translate_list

    @classmethod
    def translate_dict(cls, val):
        return "map[string]any{" + ", ".join(f"{cls.translate_str(str(k))}: {cls.translate(v)}" for k, v in val.items()) + "}"

    @classmethod
    def comment(cls, text):
        return f"// {text}".strip()

    @classmethod
    def assign(cls, name, text):
        return f"{name} := {text}"

    @classmethod
    def inspect(cls, cell):
        """The parameters of the cell with the defaults: name := value, name, name := value, value and var name type = value."""
        found = re.finditer(r"^(?:var\s+)?(\w+(?:\s*,\s*\w+)*)\s*([\w.\[\]*]*)\s*:?=\s*(.*?)\s*(?://\s*(.*))?$", cell["source"], re.M)
        return [Parameter(name, kind or "None", default, note or "") for names, kind, default, note in (m.groups() for m in found) for name in re.split(r"\s*,\s*", names)]


papermill_translators.register("go", Go)

if __name__ == "__main__":
    from papermill.cli import papermill

    sys.exit(papermill())
