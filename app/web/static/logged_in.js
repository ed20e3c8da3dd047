import { takeNext } from "./key.js";

// The address of this page has the provider's answer, which is used up: replace it in the history at once.
try {
  await takeNext();
  const here = sessionStorage.getItem("here") ?? "/";
  sessionStorage.removeItem("here");
  location.replace(/^\/(?!\/)/.test(here) ? here : "/");
} catch (error) {
  document.getElementById("said").textContent = `You are not logged in: ${error.message}`;
}
