# µs a step of 1, 31 and 100 donated arrays under jax.jit: one JSON line a case.
import json, time
try:
    import jax, jax.numpy as jnp
except ImportError:
    raise SystemExit(0)

for n in (1, 31, 100):
    step = jax.jit(lambda s: [x + 1 for x in s], donate_argnums=0)
    state = [jnp.zeros(16, jnp.float32) for _ in range(n)]
    state = step(state)
    jax.block_until_ready(state)
    for mode in ("pipelined", "awaited"):
        samples = []
        for _ in range(25):
            loops = 200
            t = time.perf_counter()
            for _ in range(loops):
                state = step(state)
                if mode == "awaited":
                    jax.block_until_ready(state)
            jax.block_until_ready(state)
            samples.append((time.perf_counter() - t) / loops * 1e6)
        print(json.dumps({"Case": f"n{n}-{mode}", "Subject": "JAX jit " + jax.__version__, "Unit": "µs", "Samples": samples}), flush=True)
