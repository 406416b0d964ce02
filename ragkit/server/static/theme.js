// Runs before the first paint, so that a chosen theme does not flash. "" follows the system.
"use strict";
try {
  const chosen = localStorage.getItem("ragkit.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // storage may be refused: the system's theme it is
}
