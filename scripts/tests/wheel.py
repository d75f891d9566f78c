"""Starts a kernel as Jupyter does and runs cells in it; prints what they write, and
their errors. An argument that begins with $ is a command, run between cells; "restart"
restarts the kernel.

    python wheel.py KERNEL CELL|$COMMAND|restart..."""
import re, subprocess, sys

from jupyter_client.manager import KernelManager

manager = KernelManager(kernel_name=sys.argv[1])
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)


def show(message):
    content = message["content"]
    text = content.get("text") or content.get("data", {}).get("text/plain") or "\n".join(content.get("traceback", []))
    print(re.sub(r"\x1b\[[0-9;]*m", "", text), flush=True)


try:
    for step in sys.argv[2:]:
        if step == "restart":
            manager.restart_kernel()
            client.wait_for_ready(timeout=60)
        elif step.startswith("$"):
            subprocess.run(step[1:], shell=True, check=True)
        else:
            client.execute_interactive(step, timeout=900, output_hook=show, store_history=True)
finally:
    client.stop_channels()
    manager.shutdown_kernel()
