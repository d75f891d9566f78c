# A product of square float32 matrices in JAX: blocks of calls, the device idle
# at both ends of the clock. One JSON line.   python product_jax.py N NAME
import json, sys, time
try:
    import jax, jax.numpy as jnp
except ImportError:
    raise SystemExit(0)

n, name = int(sys.argv[1]), sys.argv[2]
x = jax.random.uniform(jax.random.PRNGKey(1), (n, n), jnp.float32)
product = jax.jit(lambda x: x @ x)
product(x).block_until_ready()
began = time.perf_counter()
product(x).block_until_ready()
calls = max(1, round(0.15 / (time.perf_counter() - began)))
samples = []
for _ in range(15):
    began = time.perf_counter()
    for _ in range(calls):
        y = product(x)
    y.block_until_ready()
    samples.append(1e6 * (time.perf_counter() - began) / calls)
print(json.dumps({"Case": name, "Subject": "JAX %s" % jax.__version__, "Unit": "µs", "Samples": samples}))
