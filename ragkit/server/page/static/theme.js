// Runs before the first paint, so that the stored theme does not flash. Without one, the page follows the system.
"use strict";
try {
  const chosen = localStorage.getItem("ragkit.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // storage is not available: follow the system
}
