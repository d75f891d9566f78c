"""Writes npy.json: arrays as NumPy saves them, in base64, with their values.

Run with a Python that has NumPy: python npy.py
"""
import base64, io, json
import numpy as np

def saved(save, *a, **k):
    f = io.BytesIO()
    save(f, *a, **k)
    return base64.b64encode(f.getvalue()).decode()

x = np.arange(6).reshape(2, 3)
cases = {}
for kind in ["<f4", ">f4", "<f8", "|u1", "|i1", "<u2", "<i2", ">i4", "<i8", "|b1"]:
    cases[kind] = saved(np.save, x.astype(kind))
cases["scalar"] = saved(np.save, np.float32(3))
cases["fortran"] = saved(np.save, np.asfortranarray(x.astype("<f4")))
cases["fortran3"] = saved(np.save, np.asfortranarray(np.arange(12).reshape(2, 3, 2).astype("<i4")))
cases["half"] = saved(np.save, np.array([0.5, -2, np.inf, 2.0**-24], np.float16))
cases["objects"] = saved(np.save, np.array([[1], [1, 2]], dtype=object))
cases["complex"] = saved(np.save, x.astype("<c8"))
cases["strings"] = saved(np.save, np.array(["a"]))
cases["npz"] = saved(np.savez_compressed, x=x.astype("<f4"), y=np.array([1, 0]))
json.dump(cases, open("npy.json", "w"), indent=1)
