// Before the first paint: the ground that was chosen, groups of the form as they were left, and nothing of the example's
// answer where the address asks about another job. Where there is little room groups are folded, so that the answer is
// near.
{
  const root = document.documentElement;
  const stored = (name) => {
    try {
      return JSON.parse(window[name].getItem("memcore")) ?? {};
    } catch {
      return {}; // Storage is blocked or damaged.
    }
  };
  const kept = stored("localStorage");
  const draft = stored("sessionStorage");
  if (/[#&]embed$/u.test(location.hash)) root.dataset.embed = "";
  if (kept.theme === "light" || kept.theme === "dark") root.dataset.theme = kept.theme;

  const drafted = Boolean(draft.texts) && draft.hash === location.hash;
  if (drafted || location.hash.replace(/^#embed$/u, "").length > 1) root.dataset.job = "computing";

  // The form can be used once it shows the job that is asked about.
  const withhold = () => {
    const [verdict, form, progress] = ["verdict", "config", "progress-text"].map((id) => document.getElementById(id));
    // What follows the verdict shows that all of it was read: the rest of its text would come behind what stands here.
    if (root.dataset.job !== "computing" || !form || !verdict?.nextElementSibling || form.inert) return;
    if (!drafted && location.hash.replace(/(?:&view=\w+|&embed)$/u, "") === `#${document.body.dataset.fragment}`) {
      delete root.dataset.job;
      return;
    }
    const chinese = (kept.language || navigator.language || "").startsWith("zh");
    const words = JSON.parse(document.body.dataset.waiting)[chinese ? "zh" : "en"];
    const headline = Object.assign(document.createElement("p"), { className: "headline pending", textContent: words.computing });
    verdict.replaceChildren(headline);
    for (const name of Object.keys(verdict.dataset)) if (name !== "tLabel") delete verdict.dataset[name];
    progress.textContent = words["loading-link"];
    form.inert = true;
  };

  const folded = matchMedia("(max-width: 59.99rem)").matches;
  const fold = () => {
    for (const group of document.querySelectorAll("details[id^=group-]:not([data-kept])")) {
      group.dataset.kept = "";
      group.open = kept.groups?.[group.id] ?? (group.open && !folded);
    }
  };
  const arrange = () => {
    withhold();
    fold();
  };
  const reading = new MutationObserver(arrange);
  reading.observe(root, { childList: true, subtree: true });
  addEventListener("DOMContentLoaded", () => {
    reading.disconnect();
    arrange();
  });
}
