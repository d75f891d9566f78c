"""Writes tables.json: one table in files of Parquet and Arrow, in base64.

Run with a Python that has pandas and pyarrow: python tables.py
"""
import base64, datetime, decimal, io, json
import numpy as np, pandas as pd, pyarrow as pa, pyarrow.feather as feather, pyarrow.ipc as ipc, pyarrow.parquet as pq

t = pa.table({
    "i8": pa.array([1, None, -3], pa.int8()), "u32": pa.array([1, 2, 4294967295], pa.uint32()), "i64": pa.array([1, None, 9007199254740993], pa.int64()),
    "u64": pa.array([1, 2, 18446744073709551615], pa.uint64()), "f16": pa.array(np.array([0.5, 1, -2], np.float16)), "f32": pa.array([0.5, None, 3], pa.float32()),
    "f64": pa.array([0.1, float("nan"), 1e300]), "bool": pa.array([True, None, False]), "text": pa.array(["ß", "", None]),
    "large": pa.array(["a", "b", "a"], pa.large_string()), "category": pa.array(["x", "y", "x"]).dictionary_encode(),
    "date": pa.array([datetime.date(1969, 12, 31), None, datetime.date(2024, 2, 29)]),
    "ms": pa.array([-1, 0, 1500], pa.timestamp("ms")), "ns": pa.array([1, 2, 1700000000000000000], pa.timestamp("ns", "UTC")),
    "decimal": pa.array([decimal.Decimal("-1.25"), None, decimal.Decimal("3.50")], pa.decimal128(20, 2)), "none": pa.array([None, None, None], pa.float64()),
})
files = {}

def save(name, write):
    f = io.BytesIO()
    write(f)
    files[name] = base64.b64encode(f.getvalue()).decode()

for how in "none", "snappy", "gzip", "brotli", "zstd", "lz4":
    save("parquet " + how, lambda f: pq.write_table(t, f, compression=how))
second = dict(version="2.6", data_page_version="2.0", use_dictionary=False)
encodings = {"i8": "DELTA_BINARY_PACKED", "text": "DELTA_LENGTH_BYTE_ARRAY", "large": "DELTA_BYTE_ARRAY", "f64": "BYTE_STREAM_SPLIT"}
save("parquet runs", lambda f: pq.write_table(t, f, column_encoding=encodings, **second))
save("parquet v2", lambda f: pq.write_table(t, f, column_encoding=encodings | {"bool": "PLAIN"}, **second))
save("parquet null", lambda f: pq.write_table(pa.table({"n": pa.nulls(2), "x": [1, 2]}), f))
save("parquet groups", lambda f: pq.write_table(t, f, row_group_size=1))
save("parquet int96", lambda f: pq.write_table(t.select(["ns"]), f, use_deprecated_int96_timestamps=True))
save("parquet pandas", lambda f: pd.DataFrame({"x": [3.0, 1.0]}, index=[7, 5]).to_parquet(f))
save("parquet struct", lambda f: pq.write_table(pa.table({"p": [{"x": 1, "y": "a"}, {"x": 2, "y": None}]}), f))
save("parquet list", lambda f: pq.write_table(pa.table({"l": [[1, 2], [3]]}), f))
save("parquet bytes", lambda f: pq.write_table(pa.table({"b": [b"\xff\xfe"]}), f))
save("parquet empty", lambda f: pq.write_table(t.slice(0, 0), f))
for how in "uncompressed", "lz4", "zstd":
    save("arrow " + how, lambda f: feather.write_feather(t, f, compression=how))

def stream(f):
    with ipc.new_stream(f, t.schema) as w:
        w.write_table(t, max_chunksize=2)

save("arrow stream", stream)
save("arrow list", lambda f: feather.write_feather(pa.table({"l": [[1, 2], [3]]}), f))
save("arrow empty", lambda f: feather.write_feather(t.slice(0, 0), f))
save("arrow version 1", lambda f: feather.write_feather(pa.table({"x": [1.0]}), f, version=1))
json.dump(files, open("tables.json", "w"), indent=1)
