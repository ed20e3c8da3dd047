// The page for phones. The server renders its content. This script proves the login's key, keeps one event
// stream open, and disables the buttons that decide until all of a request was on screen for a moment.
import { sign } from "./key.js";
import { make, signWith, trouble } from "./passkey.js";

const TAB = "X-Interlock-Tab";
const ASLEEP = 400; // Milliseconds during which buttons are inert after something new is shown, or has moved.
const SILENCE = 40000; // Milliseconds without a heartbeat after which the stream counts as lost.
const SOON = 500;
const LATE = 15000;
const NO_KEY = "This browser does not have the key of its login: log in again with a new link.";

const at = (id) => document.getElementById(id);
const main = at("main");
const bar = at("bar");
const header = document.querySelector("header");

// The tab and its requests

let tab = "";
let challenge = document.body.dataset.challenge;
let moment = "";
let skew = 0;
let over = false;

class Ended extends Error {}

async function fetched(path, options) {
  const answer = await fetch(path, { cache: "no-store", ...options });
  // The cookie may have been renewed during this request.
  if (answer.status === 401 && (await fetch("/login/state")).status === 401) throw new Ended("Your login has ended.");
  const date = Date.parse(answer.headers.get("Date"));
  if (!Number.isNaN(date)) skew = date - Date.now();
  return answer;
}

async function showKey(view) {
  for (const last of [false, true]) {
    if (challenge === null) challenge = (await (await fetched("/m/challenge", { method: "POST" })).json()).challenge;
    const signature = await sign(challenge, "phone");
    if (signature === null) throw new Ended(NO_KEY);
    const body = JSON.stringify({ challenge, signature, view });
    challenge = null;
    const answer = await fetched("/m/tab", { method: "POST", body });
    tab = answer.headers.get(TAB) ?? tab;
    if (answer.status !== 403) return answer;
    if (last) throw new Ended(NO_KEY);
  }
}

async function ask(path, options = {}) {
  const send = () => fetched(path, { ...options, headers: { [TAB]: tab } });
  const answer = await send();
  if (answer.headers.get(TAB) !== "unknown") return answer;
  const shown = await showKey(null); // The server was restarted.
  return shown.ok ? send() : shown;
}

function end(error) {
  over = true;
  connected(error.message);
  const again = document.createElement("button");
  again.textContent = "Log in again";
  again.addEventListener("click", async () => {
    await fetch("/logout", { method: "POST" });
    location.reload();
  });
  at("link").append(" ", again);
}

function connected(trouble) {
  at("link").textContent = trouble ?? "";
  document.body.classList.toggle("lost", trouble !== null);
  title();
  refresh();
}

function broken(outage) {
  const since = outage && new Date(outage.since).toLocaleTimeString();
  at("outage").textContent = outage ? `✗ ${outage.what} since ${since}. ${outage.means}` : "";
}

function say(text) {
  at("said").textContent = text;
}

// Content

let current = null; // The article of the view
let active = null; // The same, or a panel over it
const source = new WeakMap();
const known = new Set();
let begun = false;
const PAST = /\d+ (?:s|min|h) ago|just now/g;

const plain = (element) => element.outerHTML.replace(PAST, "");

function remember(root) {
  for (const each of [root, ...root.querySelectorAll("[data-key]")]) source.set(each, plain(each));
}

function patch(now, next) {
  const kept = new Map([...now.children].map((each) => [each.dataset.key, each]));
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name)) now.removeAttribute(name);
  for (const { name, value } of next.attributes) now.setAttribute(name, value);
  let place = now.firstElementChild;
  for (const each of [...next.children]) {
    const old = kept.get(each.dataset.key);
    kept.delete(each.dataset.key);
    let put = each;
    if (old && source.get(old) === plain(each)) put = old;
    else if (old?.matches(".rows")) {
      patch(old, each);
      put = old;
    } else {
      remember(each);
      if (old && old === place) place = place.nextElementSibling;
      old?.remove();
    }
    if (put === place) place = place.nextElementSibling;
    else now.insertBefore(put, place);
  }
  for (const each of kept.values()) each.remove();
}

function view(html, { focus = false } = {}) {
  const box = document.createElement("template");
  box.innerHTML = html;
  const [next, panel] = box.content.children;
  const { view: kind, id, digest } = next.dataset;
  const same = current && ["view", "id", "digest"].every((each) => current.dataset[each] === next.dataset[each]);
  if (same) {
    if (current.dataset.state !== next.dataset.state) sleep();
    const concealed = current.hasAttribute("data-concealed");
    patch(current, next);
    if (active !== current) current.hidden = true;
    if (concealed !== current.hasAttribute("data-concealed")) sleep();
  } else {
    if (current?.dataset.id && current.dataset.id === id) {
      say(kind === "over" ? "This request is over." : "The request has changed: look at it again.");
    }
    main.replaceChildren(next, ...(panel ? [panel] : []));
    remember(next);
    current = active = next;
    scrollTo(0, 0);
    sleep();
    if (focus) current.querySelector("h1")?.focus({ preventScroll: true });
  }
  if (kind === "queue") news();
  watch();
  tick();
  title();
  refresh();
}

function news() {
  const rows = [...current.querySelectorAll("[data-news]")];
  const fresh = rows.filter((each) => !known.has(each.dataset.key));
  if (begun) {
    if (fresh.length === 1) say(`New: ${fresh[0].dataset.news}`);
    else if (fresh.length) say(`${fresh.length} new requests`);
  }
  begun = true;
  for (const each of fresh) known.add(each.dataset.key);
}

let loading = Promise.resolve();
let wanted = 0;

function load(options = {}) {
  const own = ++wanted;
  loading = loading.then(async () => {
    if (own !== wanted && !options.focus) return; // A later load shows all of it.
    const path = location.pathname;
    try {
      await take(await ask(`/m/part?view=${encodeURIComponent(path)}`), path, options);
    } catch (error) {
      if (error instanceof Ended) end(error);
      else connected("Disconnected: trying again.");
    }
  });
  return loading;
}

async function take(answer, path, options) {
  const text = await answer.text();
  if (path !== location.pathname) return;
  if (!answer.ok) {
    say(text);
    return;
  }
  moment = answer.headers.get("X-Interlock-Moment");
  count(answer.headers.get("X-Interlock-Waiting"));
  view(text, options);
}

function go(path, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", path);
  return load({ focus: true });
}

let waiting = "";

function count(number) {
  waiting = number;
  at("waiting").textContent = `(${number})`;
  title();
}

function title() {
  const lost = document.body.classList.contains("lost") ? " (disconnected)" : "";
  const what = active?.dataset.title ? `${active.dataset.title} · ` : "";
  document.title = `${what}Interlock${lost || (waiting ? ` (${waiting} waiting)` : "")}`;
  for (const each of document.querySelectorAll("nav a")) {
    if (each.getAttribute("href") === location.pathname) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
}

function age(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours >= 24) return `${Math.floor(hours / 24)}d ${hours % 24}:${two(minutes)}`;
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

function tick() {
  const now = Date.now() + skew;
  for (const each of main.querySelectorAll("[data-since]")) each.textContent = age(now - each.dataset.since);
  for (const each of main.querySelectorAll("[data-until]")) {
    const left = each.dataset.until - now;
    each.textContent = left > 0 ? `${left < 60000 ? "! " : ""}${age(left + 999)} left` : "! time is up";
    each.classList.toggle("late", left < 60000);
  }
}

// Tracking of what was on screen

const seen = new WeakSet();
let reached = new WeakMap(); // Pixels of a long part that were shown from its top without a gap.
const near = new Set();
const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) near[isIntersecting ? "add" : "delete"](target);
  look();
});

function watch() {
  observer.disconnect();
  near.clear();
  for (const each of active.querySelectorAll("[data-must]")) if (!seen.has(each)) observer.observe(each);
}

function look() {
  if (document.hidden || document.body.classList.contains("lost")) return;
  const top = header.getBoundingClientRect().bottom;
  const bottom = bar.hidden ? innerHeight : bar.getBoundingClientRect().top;
  for (const each of near) {
    const box = each.getBoundingClientRect();
    const from = Math.max(0, top - box.top);
    const to = Math.min(box.height, bottom - box.top);
    const before = reached.get(each) ?? 0;
    if (to <= from || from > before + 2) continue;
    reached.set(each, Math.max(before, to));
    if (to < box.height - 2) continue;
    seen.add(each);
    near.delete(each);
    observer.unobserve(each);
  }
  refresh();
}

const unseen = () => [...active.querySelectorAll("[data-must]")].filter((each) => !seen.has(each));

function showNext() {
  const [each] = unseen();
  if (!each) return;
  for (let fold = each.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    if (each.tagName !== "SUMMARY" || fold !== each.parentElement) fold.open = true;
  }
  const from = reached.get(each) ?? 0;
  const top = header.getBoundingClientRect().bottom + 8;
  scrollBy({ top: each.getBoundingClientRect().top + Math.max(0, from - 40) - top });
  look();
}

// Buttons that decide

let painted = Infinity;
let moved = 0;
let pressed = false;
let sending = false;
let complete = false;

function sleep() {
  painted = Infinity;
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      painted = performance.now();
      setTimeout(refresh, ASLEEP + 20);
    }),
  );
  refresh();
}

const rests = () => performance.now() - Math.max(painted, moved) >= ASLEEP;
const awake = () => rests() && !document.hidden && !sending && !document.body.classList.contains("lost");
const ready = (side) => awake() && (side === "left" || complete);

function refresh() {
  const decides = active?.dataset.right && !active.hasAttribute("data-refused");
  bar.hidden = !decides;
  if (!decides) return;
  const left = unseen().length;
  const concealed = active.hasAttribute("data-concealed");
  const keyless = active.dataset.keyless ?? (active.hasAttribute("data-passkey") ? trouble() : null);
  const uncounted = active.querySelector("[data-unapproved]")?.dataset.unapproved;
  complete = left === 0 && !concealed && !keyless && !uncounted;
  for (const side of ["left", "right"]) {
    const button = at(side);
    if (button.textContent !== active.dataset[side]) button.textContent = active.dataset[side];
    button.setAttribute("aria-disabled", String(!ready(side)));
  }
  at("next").hidden = left === 0;
  let why = "All of it was shown.";
  if (sending) why = "Sending…";
  else if (document.body.classList.contains("lost")) why = "Disconnected: nothing can be decided.";
  else if (uncounted) why = uncounted;
  else if (left) why = `Read to the end to approve: ${left === 1 ? "1 part" : `${left} parts`} left.`;
  else if (concealed) why = "Show what is masked to approve.";
  else if (keyless) why = keyless;
  if (at("wake").textContent !== why) at("wake").textContent = why;
}

function back() {
  if (active === current) return;
  if (active.dataset.panel === "review") active.remove();
  else active.hidden = true;
  current.hidden = false;
  active = current;
  shownAnew();
}

function cover(panel) {
  current.hidden = true;
  panel.hidden = false;
  active = panel;
  shownAnew();
}

function shownAnew() {
  scrollTo(0, 0);
  sleep();
  watch();
  title();
  active.querySelector("h1").focus({ preventScroll: true });
}

const field = (form, name) => form.elements.namedItem(name);

function texts(form, all) {
  const editors = [...form.elements].filter((each) => each.name);
  const differs = (each) =>
    each.tagName === "SELECT" ? !each.selectedOptions[0]?.defaultSelected : each.value !== each.defaultValue;
  return Object.fromEntries(editors.filter((each) => all || differs(each)).map((each) => [each.name, each.value]));
}

function decide(side) {
  if (side === "left") {
    if (active === current) cover(main.querySelector("[data-panel=deny]"));
    else back();
    return;
  }
  const { panel, review } = active.dataset;
  if (panel === "deny") {
    const form = active.querySelector("form");
    send("decide", { approved: false, reason: field(form, "reason").value, stop: field(form, "stop").checked });
  } else if (panel === "review") send("decide", { approved: true, review });
  else {
    const form = current.querySelector("[data-form=answer]");
    const body = { approved: true, ...(form ? { texts: texts(form, true) } : {}) };
    if (current.hasAttribute("data-passkey")) withKey((passkey) => send("decide", { ...body, passkey }, form));
    else send("decide", body, form);
  }
}

for (const side of ["left", "right"]) {
  at(side).addEventListener("pointerdown", () => {
    pressed = ready(side);
  });
  at(side).addEventListener("keydown", (event) => {
    if (event.repeat) event.preventDefault();
  });
  at(side).addEventListener("click", (event) => {
    // A press that began too early was meant for something else, and restarts the wait.
    const meant = event.detail === 0 || pressed;
    pressed = false;
    if (side === "left" && active !== current) back();
    else if (meant && ready(side)) decide(side);
    else if (!rests()) sleep();
  });
}

function send(act, body, form) {
  const { id, digest } = current.dataset;
  return post(act, `/m/a/${id}/${act}`, { digest, ...body }, form);
}

async function post(act, path, body, form) {
  if (sending) return;
  sending = true;
  refresh();
  try {
    const answer = await posted(path, body);
    const type = answer.headers.get("Content-Type") ?? "";
    if (type.startsWith("text/html")) review(await answer.text());
    else if (type.startsWith("application/json")) await told(act, await answer.json(), form);
    else say(await answer.text());
  } catch (error) {
    if (error instanceof Ended) end(error);
    else say("The answer may not have arrived: look before you try again.");
  } finally {
    sending = false;
    sleep();
  }
}

// Passkeys

const posted = (path, body) => ask(path, { method: "POST", body: JSON.stringify(body) });

async function key(path, body) {
  const answer = await posted(path, body);
  if (!(answer.headers.get("Content-Type") ?? "").startsWith("application/json")) throw new Refused(await answer.text());
  const found = await answer.json();
  if (!found.ok) throw new Refused(found.message);
  return found;
}

class Refused extends Error {}

// Runs one action with a key at a time; an error is shown, and nothing is decided.
async function keyed(act) {
  if (sending) return;
  sending = true;
  refresh();
  try {
    await act();
  } catch (error) {
    if (error instanceof Ended) end(error);
    else if (error instanceof Refused) say(error.message);
    else if (error instanceof DOMException) say(`The passkey signed nothing: ${error.message}`);
    else say("The server cannot be reached: look before you try again.");
  } finally {
    sending = false;
    sleep();
  }
}

async function withKey(act) {
  const { id, digest } = current.dataset;
  let signed = null;
  await keyed(async () => {
    const asked = await key(`/m/a/${id}/challenge`, { digest });
    say("Use your passkey to approve.");
    signed = { id: asked.id, ...(await signWith(asked.options)) };
    say("");
  });
  if (signed && current.dataset.id === id && current.dataset.digest === digest) act(signed);
}

let unconfirmed = "";

function addKey(form) {
  const problem = trouble();
  if (problem) {
    say(problem);
    return;
  }
  keyed(async () => {
    const begun = await key("/m/keys/begin", {});
    const made = await make(begun.options);
    const asked = await key("/m/keys/register", { id: begun.id, name: field(form, "name").value, ...made });
    say(asked.message);
    if (asked.options) await confirmKey({ id: asked.id, passkey: { id: asked.id, ...(await signWith(asked.options)) } });
    else {
      unconfirmed = asked.id;
      const code = current.querySelector("[data-form=code]");
      code.hidden = false;
      field(code, "code").focus();
    }
  });
}

async function confirmKey(body) {
  const { message } = await key("/m/keys/confirm", body);
  await load({ focus: true });
  const code = current.querySelector("[data-form=code]");
  if (code) code.hidden = true;
  say(message);
}

function review(html) {
  const box = document.createElement("template");
  box.innerHTML = html;
  const panel = box.content.querySelector("article");
  main.querySelector("[data-panel=review]")?.remove();
  main.append(panel);
  cover(panel);
}

async function told(act, { ok, message, over: again, fields }, form) {
  say(message);
  if (ok && act === "decide") {
    await go("/m/", true);
    say(message);
    return;
  }
  for (const each of form?.querySelectorAll(".problem") ?? []) {
    const text = fields[each.id.slice(1)] ?? "";
    each.textContent = text;
    const editor = form.querySelector(`[aria-describedby="${each.id}"]`);
    editor?.setAttribute("aria-invalid", String(text !== ""));
  }
  form?.querySelector("[aria-invalid=true]")?.focus();
  if (ok && form?.dataset.form === "comment") form.reset();
  if (again || (!ok && active.dataset.panel === "review")) {
    await load();
    say(message);
  }
}

// Event handlers of the page

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (link?.pathname.startsWith("/m/") && !event.metaKey && !event.ctrlKey && !event.shiftKey) {
    event.preventDefault();
    say("");
    go(link.pathname);
    return;
  }
  const passkey = event.target.closest("[data-remove-key]")?.dataset.removeKey;
  if (passkey) {
    keyed(async () => {
      const { message } = await key("/m/keys/remove", { passkey });
      await load({ focus: true });
      say(message);
    });
    return;
  }
  const pushed = event.target.closest("[data-act]")?.dataset;
  if (pushed && !sending) send(pushed.act, pushed.own ? { own: pushed.own === "true" } : {});
});
document.addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  if (form.dataset.form === "key") {
    addKey(form);
    return;
  }
  if (form.dataset.form === "code") {
    keyed(() => confirmKey({ id: unconfirmed, code: field(form, "code").value }));
    return;
  }
  if (form.dataset.form === "comment") {
    send("comment", { text: field(form, "text").value }, form);
    return;
  }
  if (form.dataset.form === "freeze" || form.dataset.form === "lift") {
    const stamp = form.dataset.stamp;
    post("freeze", "/m/freeze", { reason: field(form, "reason").value, ...(stamp ? { lift: stamp } : {}) }, form);
    return;
  }
  if (form.dataset.form !== "answer" && active === current && !complete) {
    say(at("wake").textContent); // Changes and grants are approvals, too.
    return;
  }
  if (form.dataset.form === "edit") send("review", { kind: "edit", texts: texts(form, false) }, form);
  if (form.dataset.form === "grant") {
    const value = (name) => field(form, name).value;
    const subagents = field(form, "subagents").checked;
    const chosen = { scope: value("scope"), bound: value("bound"), typed: value("typed"), reason: value("reason") };
    send("review", { kind: "grant", ...chosen, subagents }, form);
  }
});
document.addEventListener(
  "toggle",
  async ({ target }) => {
    look();
    const id = target.dataset.explain;
    if (!id || !target.open) return;
    const answer = await ask(`/m/explain/${id}`);
    const box = target.querySelector("div");
    if (answer.ok) box.innerHTML = await answer.text();
    else box.textContent = await answer.text();
  },
  true,
);
addEventListener(
  "scroll",
  () => {
    moved = performance.now();
    requestAnimationFrame(look);
    setTimeout(refresh, ASLEEP + 20);
  },
  { passive: true },
);
addEventListener("resize", () => {
  reached = new WeakMap();
  requestAnimationFrame(look);
});
addEventListener("popstate", () => load({ focus: true }));
at("next").addEventListener("click", showNext);
setInterval(tick, 1000);

// Changes made elsewhere, received in one stream

let hurry = () => {};

for (const woken of ["online", "focus", "pageshow"]) addEventListener(woken, () => hurry());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  sleep();
  look();
  hurry();
});

async function* events(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const found = /^event: (\w+)\ndata: (.*)$/m.exec(part);
      if (found) yield [found[1], JSON.parse(found[2])];
    }
  }
}

function happened([kind, data]) {
  if (kind === "trouble") {
    connected(data && `Disconnected from the sessions' server: ${data}`);
    return;
  }
  if (kind === "outage") {
    broken(data);
    return;
  }
  count(data.waiting);
  const { id } = current?.dataset ?? {};
  if (id === undefined || data.ids === null || data.ids.includes(id)) load();
}

async function follow() {
  let pause = SOON;
  while (!over) {
    const giveUp = new AbortController();
    let silence;
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => giveUp.abort(), SILENCE);
    };
    try {
      alive();
      const answer = await ask(`/m/events?after=${encodeURIComponent(moment)}`, { signal: giveUp.signal });
      if (!answer.ok) throw new Error(await answer.text());
      connected(null);
      pause = SOON;
      for await (const event of events(answer.body, alive)) happened(event);
    } catch (error) {
      if (error instanceof Ended) {
        end(error);
        return;
      }
    }
    clearTimeout(silence);
    connected("Disconnected: trying again.");
    await new Promise((done) => {
      hurry = done;
      setTimeout(done, pause);
    });
    hurry = () => {};
    pause = Math.min(2 * pause, LATE);
  }
}

async function begin() {
  history.replaceState(null, "", location.pathname);
  for (let pause = SOON; ; pause = Math.min(2 * pause, LATE)) {
    try {
      const path = location.pathname;
      const answer = await showKey(path);
      if (answer.ok) {
        await take(answer, path, { focus: true });
        await follow();
        return;
      }
      connected(await answer.text());
    } catch (error) {
      if (error instanceof Ended) {
        end(error);
        return;
      }
      connected("Disconnected: trying again.");
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}

begin();
