// The page's end of a line to a kernel. GoNB's widgets know it as the object
// globalThis.gonb_comm, with send, subscribe, unsubscribe and newSyncedVariable.
// kernel is the kernel's id at the Jupyter server, life is another one after each
// of its restarts.
(kernel, life) => {
  // JupyterLab takes the arrow keys to choose a cell, also from a slider that has the
  // focus. What moves a slider, a list or a switch is theirs: it is kept from all listeners.
  globalThis.gaiden_keys ??= (window.addEventListener("keydown", (e) => {
    if (e.target?.matches?.('input[type="range"], [data-gaiden] *') && !e.ctrlKey && !e.metaKey && !e.altKey && /^(Arrow|Home|End|Page| |Enter)/.test(e.key)) e.stopImmediatePropagation();
  }, true), true);

  const lines = (globalThis.gaiden_lines ??= {});
  const old = lines[kernel];
  if (old?.life === life && old.open()) {
    globalThis.gonb_comm = old;
    old.send("#gaiden/here", true);
    return;
  }
  old?.close();

  const config = document.getElementById("jupyter-config-data")?.textContent;
  const base = config ? JSON.parse(config).baseUrl : document.body?.dataset.baseUrl;
  if (!base) return; // no Jupyter server stands behind this page

  // crypto.randomUUID is for secure pages only.
  const newID = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
  const session = newID(), comm = newID();
  const address = new URL(`api/kernels/${kernel}/channels?session_id=${session}`, new URL(base, document.location.href));
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address);

  const waiting = []; // messages, until the socket is open
  const listeners = new Map(); // address: Map of symbol: callback
  const variables = new Map(); // address: Variable

  const post = (type, content) => {
    const header = { msg_id: newID(), msg_type: type, username: "", session, date: new Date().toISOString(), version: "5.4" };
    const text = JSON.stringify({ channel: "shell", header, parent_header: {}, metadata: {}, content: { comm_id: comm, ...content }, buffers: [] });
    if (socket.readyState === WebSocket.OPEN) socket.send(text);
    else waiting.push(text);
  };

  class Line {
    life = life;

    open() {
      return socket.readyState <= WebSocket.OPEN;
    }

    send(address, value) {
      post("comm_msg", { data: { address, value } });
    }

    // subscribe calls callback(address, value) for what programs send; what it
    // returns is for unsubscribe.
    subscribe(address, callback) {
      const id = Symbol(address);
      if (!listeners.has(address)) listeners.set(address, new Map());
      listeners.get(address).set(id, callback);
      return id;
    }

    unsubscribe(id) {
      listeners.get(id.description)?.delete(id);
    }

    // newSyncedVariable returns the variable of an address, set to value. The
    // kernel hears of it also when it has that value already: a program that is
    // run again waits for it.
    newSyncedVariable(address, value) {
      if (!variables.has(address)) variables.set(address, new Variable(this, address));
      const v = variables.get(address);
      v.take(value);
      if (value !== null && value !== undefined) this.send(address, value);
      return v;
    }

    close() {
      if (socket.readyState === WebSocket.OPEN) post("comm_close", { data: {} });
      socket.close();
      if (lines[kernel] === this) delete lines[kernel];
      if (globalThis.gonb_comm === this) delete globalThis.gonb_comm;
    }
  }

  // A Variable has the same value here and in the program.
  class Variable {
    #line;
    #address;
    #value = null;
    #callbacks = new Map();

    constructor(line, address) {
      this.#line = line;
      this.#address = address;
      line.subscribe(address, (_, value) => this.take(value));
    }

    get() {
      return this.#value;
    }

    set(value) {
      if (value === this.#value) return;
      this.take(value);
      this.#line.send(this.#address, value);
    }

    // take is set for a value that the program knows.
    take(value) {
      if (value === this.#value) return;
      this.#value = value;
      for (const callback of [...this.#callbacks.values()]) callback(value);
    }

    subscribe(callback) {
      const id = Symbol(this.#address);
      this.#callbacks.set(id, callback);
      return id;
    }

    unsubscribe(id) {
      this.#callbacks.delete(id);
    }
  }

  const line = new Line();
  lines[kernel] = globalThis.gonb_comm = line;

  socket.onopen = () => {
    for (const text of waiting.splice(0)) socket.send(text);
  };
  socket.onclose = () => line.close();
  socket.onmessage = (event) => {
    if (typeof event.data !== "string") return;
    const { header, content } = JSON.parse(event.data);
    if (content?.comm_id !== comm) return;
    if (header.msg_type === "comm_close") line.close();
    if (header.msg_type !== "comm_msg") return;
    const { address, value, read_request } = content.data;
    if (read_request) {
      const v = variables.get(address)?.get();
      if (v !== null && v !== undefined) line.send(address, v);
      return;
    }
    for (const callback of [...(listeners.get(address)?.values() ?? [])]) callback(address, value);
  };
  globalThis.addEventListener("pagehide", () => line.close(), { once: true });
  post("comm_open", { target_name: "gonb_comm", data: {} });
}
