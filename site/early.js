// Before the first paint: the ground that was chosen, and groups of the form as they were left. Where there is little
// room they are folded, so that the answer is near.
let kept = {};
try {
  kept = JSON.parse(localStorage.getItem("memcore")) ?? {};
} catch {
  // Storage is blocked or damaged: the system's ground.
}
if (kept.theme === "light" || kept.theme === "dark") document.documentElement.dataset.theme = kept.theme;
const folded = matchMedia("(max-width: 59.99rem)").matches;
const fold = () => {
  for (const group of document.querySelectorAll("details[id^=group-]:not([data-kept])")) {
    group.dataset.kept = "";
    group.open = kept.groups?.[group.id] ?? (group.open && !folded);
  }
};
const reading = new MutationObserver(fold);
reading.observe(document.documentElement, { childList: true, subtree: true });
addEventListener("DOMContentLoaded", () => {
  reading.disconnect();
  fold();
});
