// The terminal measures its font when it starts, so load the font first; then send keys to the terminal.
{
  const begin = window.onload;
  window.onload = null;
  const faces = ["16px 'Roboto Mono'", "bold 16px 'Roboto Mono'", "italic 16px 'Roboto Mono'"];

  const focus = () => document.querySelector(".xterm-helper-textarea")?.focus({ preventScroll: true });

  window.addEventListener("load", async (event) => {
    const terminal = document.getElementById("terminal");
    document.getElementById("again").addEventListener("click", async () => {
      // A login without its key is useless; without a login the page asks for one.
      if (document.body.classList.contains("-refused")) await fetch("/logout", { method: "POST" });
      location.reload();
    });
    new MutationObserver(() => {
      if (terminal.classList.contains("-connected")) focus();
    }).observe(terminal, { attributes: true, attributeFilter: ["class"] });
    new MutationObserver(() => {
      if (document.body.classList.contains("-closed")) document.getElementById("again").focus();
    }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    window.addEventListener("focus", () => {
      if (!document.body.classList.contains("-closed")) focus();
    });
    await Promise.allSettled(faces.map((face) => document.fonts.load(face)));
    begin(event);
  });
}
