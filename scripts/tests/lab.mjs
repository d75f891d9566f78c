// JupyterLab for scripts that drive it in a browser.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";

// startLab starts JupyterLab (--lab) in a directory of its own below --work and returns its address.
export async function startLab(args) {
  const home = path.join(args.work, "lab");
  const setting = (extension, name, text) => {
    const dir = path.join(home, "settings", "@jupyterlab", extension);
    fs.mkdirSync(dir, { recursive: true });
    fs.writeFileSync(path.join(dir, `${name}.jupyterlab-settings`), text);
  };
  fs.mkdirSync(path.join(home, "notebooks"), { recursive: true });
  // No news and no updates: nothing is to be fetched. Saving asks nothing.
  setting("apputils-extension", "notification", '{"fetchNews": "false", "checkForUpdates": false}');
  setting("docmanager-extension", "plugin", '{"renameUntitledFileOnSave": false}');
  const token = randomBytes(16).toString("hex");
  const lab = spawn(args.lab, ["lab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", `--IdentityProvider.token=${token}`,
    `--ServerApp.root_dir=${path.join(home, "notebooks")}`, "--LabApp.extension_manager=readonly"], {
    env: { ...process.env, JUPYTER_CONFIG_DIR: path.join(home, "config"), JUPYTER_RUNTIME_DIR: path.join(home, "runtime"),
      JUPYTERLAB_SETTINGS_DIR: path.join(home, "settings"), JUPYTERLAB_WORKSPACES_DIR: path.join(home, "workspaces") },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const log = fs.createWriteStream(path.join(args.work, "lab.log"));
  const address = await new Promise((found, failed) => {
    let text = "";
    lab.stderr.on("data", (data) => {
      log.write(data);
      text += data;
      const at = text.match(/http:\/\/127\.0\.0\.1:(\d+)\/lab/);
      if (at && at[1] !== "0") found(`http://127.0.0.1:${at[1]}`);
    });
    lab.on("exit", (code) => failed(new Error(`JupyterLab ended with status ${code}: ${text.slice(-500)}`)));
    setTimeout(() => failed(new Error(`JupyterLab does not start: ${text.slice(-500)}`)), 60_000).unref();
  });
  return { lab, token, ...(await between(Number(new URL(address).port))) };
}

// between is an address that leads to a port, and cut, which drops all its connections.
async function between(port) {
  const open = new Set();
  const proxy = net.createServer((near) => {
    const far = net.connect(port, "127.0.0.1");
    for (const [one, other] of [[near, far], [far, near]]) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => { open.delete(one); other.destroy(); });
    }
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  proxy.unref();
  const cut = () => open.forEach((socket) => socket.destroy());
  return { address: `http://127.0.0.1:${proxy.address().port}`, cut };
}
