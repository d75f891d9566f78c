
// A button that copies the code of a cell. The page needs none of this.
for (const cell of document.querySelectorAll("details.code")) {
  const code = cell.querySelector("pre"), button = document.createElement("button");
  const say = (text) => { button.textContent = text; setTimeout(() => button.textContent = "copy", 1500); };
  button.type = "button";
  button.textContent = "copy";
  button.onclick = (event) => {
    event.preventDefault(); // the cell stays unfolded
    (navigator.clipboard?.writeText(code.textContent) ?? Promise.reject()).then( // a page that is not secure has no clipboard
      () => say("copied"), () => {
      getSelection().selectAllChildren(code);
      say(document.execCommand("copy") ? "copied" : "press Ctrl+C");
    });
  };
  cell.querySelector("summary").append(button);
}
