// What is the user's own and stays in this browser: theme, language, plans, groups; and of this tab, what is not done.
const KEY = "memcore";
export const own = { theme: "auto", language: "", shortcuts: true, plans: [], groups: {} };

export const language = () => own.language || (navigator.language?.startsWith("zh") ? "zh" : "en");

// Storage may be blocked, full or damaged: the page works without it.
function stored(name) {
  try {
    const found = JSON.parse(window[name].getItem(KEY));
    return found && typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}

function store(name, value) {
  try {
    window[name].setItem(KEY, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function recall() {
  Object.assign(own, stored("localStorage"));
  if (!Array.isArray(own.plans)) own.plans = [];
  return own;
}

// Another tab may have kept something meanwhile: a change goes on top of that.
export function remember(change) {
  Object.assign(recall(), change);
  return store("localStorage", own);
}

// What is typed is kept when there is a moment for it, and at the latest when the page is left.
const SOON = 150; // milliseconds
let [due, unkept] = [0, {}];
export const draft = () => ({ ...stored("sessionStorage"), ...unkept });
export function keep(change) {
  clearTimeout(due);
  const kept = { ...draft(), ...change };
  [due, unkept] = [0, {}];
  return store("sessionStorage", kept);
}
export function keepSoon(change) {
  Object.assign(unkept, change);
  due ||= setTimeout(keep, SOON, {});
}
addEventListener("pagehide", () => due && keep({}));

export function whenOtherTabsKeep(then) {
  addEventListener("storage", ({ key }) => {
    if (key !== KEY) return;
    recall();
    then();
  });
}
