// Before the first paint: the ground that was chosen.
try {
  const { theme } = JSON.parse(localStorage.getItem("memcore")) ?? {};
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked or damaged: the system's ground.
}
