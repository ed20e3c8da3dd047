const said = document.getElementById("said");
const leave = document.getElementById("leave");

leave.addEventListener("click", async () => {
  const answer = await fetch("/logout", { method: "POST" });
  said.textContent = answer.ok ? "You are logged out." : "That did not work; try again.";
  leave.hidden = answer.ok;
});
leave.focus();
