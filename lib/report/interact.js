// The page's part of Interact: what is moved in the box of an id goes to the program.
// Listeners are the document's, so that each view of an output has them, and one more
// when the script runs again changes nothing.
(id, address) => {
  const all = (globalThis.gaiden_controls ??= {});
  if (all[id]) return;
  all[id] = true;
  const listen = (kind, what, done) =>
    document.addEventListener(kind, (event) => {
      const box = event.target.closest?.(`[data-gaiden="${id}"]`);
      if (!box || !event.target.matches(what)) return;
      const values = [...box.querySelectorAll("[data-control]")].map((c) => (c.type === "checkbox" ? String(c.checked) : c.value));
      for (const c of box.querySelectorAll('input[type="range"]')) c.nextElementSibling.value = c.value;
      globalThis.gonb_comm?.send(address, [done, ...values]);
    });
  listen("input", "[data-control]", "");
  listen("click", "button", "done");
}
