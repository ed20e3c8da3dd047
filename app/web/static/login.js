import { keep, keepForNext, make } from "./key.js";

// A link's secret is after its #, which browsers do not send; remove it from the address bar at once.
const said = document.getElementById("said");
const field = document.getElementById("link");
const here = location.pathname.replace(/\/login$/, "/");

async function offer(pasted) {
  const link = pasted.trim().split("#").pop();
  try {
    const { key, shown } = await make();
    const answer = await fetch("/login", { method: "POST", body: JSON.stringify({ link, key: shown }) });
    if (answer.ok) {
      await keep(key);
      location.replace(here);
    } else {
      said.textContent = await answer.text();
    }
  } catch (error) {
    said.textContent = `You are not logged in: ${error.message}`;
  }
}

// A browser that follows a link from another site omits the cookie, but sends it for requests of this page.
async function returnIfLoggedIn() {
  const tried = sessionStorage.getItem("tried") === here;
  sessionStorage.removeItem("tried");
  if (tried || !(await fetch("/login/state")).ok) return;
  sessionStorage.setItem("tried", here);
  location.replace(here);
}

// The provider redirects back to this tab, which then continues where it was.
async function begin() {
  try {
    const { key, shown } = await make();
    await keepForNext(key);
    const answer = await fetch("/oidc/start", { method: "POST", body: JSON.stringify({ key: shown }) });
    if (answer.ok) {
      sessionStorage.setItem("here", here);
      location.assign((await answer.json()).url);
    } else {
      said.textContent = await answer.text();
    }
  } catch (error) {
    said.textContent = `You are not logged in: ${error.message}`;
  }
}

document.getElementById("begin")?.addEventListener("click", begin);
document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  offer(field.value);
  field.value = "";
});
// Enabled only now: before, the browser itself would have sent the form, and the pasted text would be lost.
field.disabled = false;
field.focus();

const { hash } = location;
history.replaceState(null, "", location.pathname);
if (hash.length > 1) offer(hash);
else returnIfLoggedIn();

// A link opened again in this tab changes only the part after the #.
window.addEventListener("hashchange", () => {
  const next = location.hash;
  history.replaceState(null, "", location.pathname);
  if (next.length > 1) offer(next);
});
