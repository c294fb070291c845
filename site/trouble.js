// Says what failed if the page does not start, and tries again. It needs no other file of the page.
{
  const QUIET = 8000; // milliseconds without a sign of life after which the page says so
  const PATIENCE = 8000; // milliseconds for the service worker to check what it keeps
  const LATER = /^(wheels\/|accuracy|schema|icon|manifest|zip)/u; // files that no start needs
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const isUp = () => root.dataset.state === "live" || root.dataset.python === "up";
  let [reason, cause, damaged, quiet, silent] = ["", "", [], 0, false];

  const stored = (name) => {
    try {
      return JSON.parse(window[name].getItem("memcore")) ?? {};
    } catch {
      return {};
    }
  };

  function tell(key, values = {}) {
    const language = stored("localStorage").language || navigator.language || "";
    const words = JSON.parse(document.body.dataset.waiting)[language.startsWith("zh") ? "zh" : "en"];
    return words[key].replace(/\{(\w+)\}/gu, (_, name) => values[name]);
  }

  const nameOf = (address) => decodeURIComponent(new URL(address, document.baseURI).pathname.split("/").pop());

  // The first failure counts: what follows is its consequence.
  function failed(file, why) {
    if (isUp() || reason) return;
    reason = file ? tell("unreachable", { file: nameOf(file) }) : String(why).trim().split("\n").at(-1).slice(0, 300);
    clearTimeout(quiet);
    root.dataset.state = "failed";
    say(`${tell("failed")} ${/[.。]$/u.test(reason) ? reason : `${reason}.`} ${tell("what-to-do")}`);
    diagnose().then((found) => {
      cause = found;
      if (found && !isUp()) say(`${tell("failed")} ${found} ${tell("what-to-do")}`);
    }, () => {});
  }

  function say(text) {
    byId("trouble-text").textContent = text;
    byId("trouble").hidden = false;
    byId("retry").textContent = tell("retry");
    byId("progress").hidden = true;
    if (root.dataset.state === "failed" && root.dataset.job === "computing") {
      byId("verdict").querySelector(".headline").textContent = tell("not-started");
    }
  }

  // Which file is to blame, found by comparing what is served with the list of the build.
  async function diagnose() {
    const renewed = await checkCache();
    if (renewed.length) {
      damaged = renewed;
      return renewed.map((file) => tell("renewed", { file })).join(" ");
    }
    const files = await (await fetch("./files.json", { cache: "no-store" })).json();
    const wheel = new URL(document.querySelector("[data-t=wheel]").href).pathname;
    if (!Object.keys(files).some((path) => wheel.endsWith(`/${path}`))) return tell("mixed");
    const found = await Promise.all(Object.entries(files).filter(([path]) => !LATER.test(path)).map(compare));
    const wrong = found.filter(Boolean);
    damaged = wrong.map(({ path }) => path);
    return wrong.map(({ path, key }) => tell(key, { file: nameOf(path) })).join(" ");
  }

  async function compare([path, hash]) {
    try {
      if ((await fetch(`./${path}`, { integrity: hash })).ok) return null;
    } catch { /* another content, no such file, or no network */ }
    try {
      return { path, key: (await fetch(`./${path}`)).ok ? "wrong" : "missing" };
    } catch {
      return { path, key: "unreachable" };
    }
  }

  // The service worker checks what it keeps, and fetches what is damaged.
  function checkCache() {
    const keeper = navigator.serviceWorker?.controller;
    if (!keeper) return Promise.resolve([]);
    return new Promise((done) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = ({ data }) => done(data);
      setTimeout(done, PATIENCE, []);
      keeper.postMessage("verify", [port2]);
    });
  }

  // What was typed comes back after the reload; Python starts without its kept memory, in case that is what is wrong.
  async function retry() {
    byId("retry").disabled = true;
    const form = byId("config");
    const given = [...form.querySelectorAll("[name]")];
    const typed = given.some((each) => (each.options ? !each.selectedOptions[0]?.defaultSelected : each.value !== each.defaultValue));
    const texts = Object.fromEntries(given.filter((each) => each.value).map((each) => [each.name, each.value]));
    const draft = { ...stored("sessionStorage"), ...(typed ? { hash: location.hash, texts } : {}), plain: !cause };
    try {
      sessionStorage.setItem("memcore", JSON.stringify(draft));
    } catch { /* Storage is blocked. */ }
    const again = [...damaged, nameOf(location.pathname) || "./"]; // browsers may hold what was wrong in their memory
    await Promise.race([
      Promise.allSettled(again.map((path) => fetch(path, { cache: "reload" }).then((found) => found.blob()))),
      new Promise((done) => { setTimeout(done, PATIENCE); }),
    ]);
    location.reload();
  }

  // A sign of life: something was loaded, or Python's worker said how far it is.
  function alive() {
    clearTimeout(quiet);
    if (isUp() || reason) return;
    if (silent) byId("trouble").hidden = !(byId("progress").hidden = false);
    silent = false;
    quiet = setTimeout(() => {
      if (isUp()) return;
      silent = true;
      say(tell("silent", { seconds: QUIET / 1000 }));
    }, QUIET);
  }

  addEventListener("error", ({ target, message }) => {
    if (target instanceof HTMLScriptElement || target instanceof HTMLLinkElement) {
      if (!/icon|manifest/u.test(target.rel ?? "")) whenRead(() => failed(target.src || target.href));
    } else if (message) whenRead(() => failed("", message));
  }, true);
  addEventListener("unhandledrejection", ({ reason: why }) => whenRead(() => failed("", why?.message ?? why)));
  addEventListener("memcore:failed", ({ detail }) => failed("", detail));
  addEventListener("memcore:alive", alive);
  addEventListener("memcore:live", () => {
    clearTimeout(quiet);
    byId("trouble").hidden = true;
    reason = "";
  });
  whenRead(() => {
    byId("retry").addEventListener("click", retry);
    alive();
  });

  function whenRead(then) {
    if (document.readyState === "loading") addEventListener("DOMContentLoaded", then, { once: true });
    else then();
  }
}
