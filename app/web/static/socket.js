// Replaces the terminal's WebSocket: it proves the login's key first, and reconnects when the connection is
// lost. Keys typed while it is lost are dropped, so that they cannot decide later what nobody saw.
import { sign } from "./key.js";

const Plain = window.WebSocket;
const ENDED = 1000;
const REFUSED = 1008;
const LOST = 1006;
const BEAT = 4000;
const MISSED = 3; // Unanswered pings after which the connection counts as lost.
const SOON = 500;
const LATE = 15000;
// The console sends its title, which counts waiting requests, as a separate message; the terminal ignores it.
const TITLE = /^\x1b\](?:0|2);([^\x07\x1b]*)/;

window.WebSocket = class extends EventTarget {
  #url;
  #socket = null;
  #ready = false;
  #missed = 0;
  #pause = SOON;
  #again = null;

  constructor(url) {
    super();
    this.#url = url;
    setInterval(() => this.#beat(), BEAT);
    for (const woken of ["online", "focus", "pageshow"]) window.addEventListener(woken, () => this.#hurry());
    document.addEventListener("visibilitychange", () => this.#hurry());
    this.#open();
  }

  send(data) {
    if (this.#ready) this.#socket.send(data);
  }

  #open() {
    this.#again = null;
    this.#missed = 0;
    const socket = new Plain(this.#url);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#take(socket, data));
    socket.addEventListener("close", ({ code, reason }) => this.#lose(socket, code, reason));
    this.#socket = socket;
  }

  #take(socket, data) {
    if (socket !== this.#socket) return;
    this.#missed = 0;
    if (data instanceof ArrayBuffer) {
      this.#paint(data);
      return;
    }
    const [kind, challenge] = JSON.parse(data);
    if (kind === "challenge") this.#show(socket, challenge);
  }

  async #show(socket, challenge) {
    const signature = await sign(challenge);
    if (socket !== this.#socket) return;
    if (signature === null) {
      socket.close();
      this.#lose(socket, REFUSED);
      return;
    }
    socket.send(JSON.stringify(["proof", signature]));
    this.#ready = true;
    this.dispatchEvent(new Event("open"));
    // A terminal that already has the focus does not report it to a new console.
    if (document.hasFocus() && document.activeElement.closest(".xterm")) this.send(JSON.stringify(["focus"]));
  }

  #paint(data) {
    if (document.body.classList.contains("-lost")) {
      document.body.classList.remove("-lost");
      document.title = "Interlock";
    }
    this.#pause = SOON;
    if (new Uint8Array(data)[0] === 0x1b) {
      const found = TITLE.exec(new TextDecoder().decode(data.slice(0, 256)));
      if (found) document.title = found[1];
    }
    this.dispatchEvent(new MessageEvent("message", { data }));
  }

  #beat() {
    if (this.#socket === null) return;
    if (this.#missed === MISSED) {
      this.#socket.close();
      this.#lose(this.#socket, LOST);
      return;
    }
    this.#missed += 1;
    this.send(JSON.stringify(["ping", ""]));
  }

  async #lose(socket, code, reason) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    this.#ready = false;
    document.title = "Interlock (disconnected)";
    if (code === ENDED) {
      this.#end("This console has ended. The server and its sessions continue.");
      return;
    }
    document.getElementById("lost").textContent =
      reason || "Disconnected: the console opens again by itself.";
    document.body.classList.add("-lost");
    const signal = AbortSignal.timeout(LATE);
    const login = await fetch("/login/state", { signal }).catch(() => null);
    if (login?.status === 401) {
      this.#end("Your login has ended.");
    } else if (login?.ok && code === REFUSED) {
      document.body.classList.add("-refused");
      this.#end("This browser does not have the key of its login: log in again with a new link.");
    } else {
      this.#again = setTimeout(() => this.#open(), this.#pause);
      this.#pause = Math.min(2 * this.#pause, LATE);
    }
  }

  #hurry() {
    if (this.#again === null || document.hidden) return;
    clearTimeout(this.#again);
    this.#open();
  }

  #end(why) {
    document.body.classList.remove("-lost");
    document.getElementById("why").textContent = why;
    this.dispatchEvent(new CloseEvent("close"));
  }
};
