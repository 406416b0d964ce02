// Puts the page together: which view an address means, keys, theme, the menu of narrow screens, the token.

import { byId, button, h, plain } from "./dom.js";
import { get, onTokenWanted } from "./api.js";
import { showChat } from "./chat.js";
import { closePanel, panelIsOpen } from "./panel.js";
import { showSearch } from "./search.js";
import { markSession, refreshSessions } from "./sessions.js";
import { showStatus } from "./status.js";

const THEMES = ["system", "light", "dark"];

/** Shows what the address says: #/, #/s/SESSION, #/search?q=..., #/status. */
function route() {
  const [where, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const view = where.split("/")[0];
  menu(false);
  for (const [id, name] of [["to-search", "search"], ["to-status", "status"]]) {
    if (view === name) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
  if (view === "search" || view === "status") {
    closePanel();
    markSession("");
    if (view === "search") showSearch(new URLSearchParams(query));
    else showStatus();
    return;
  }
  const id = view === "s" ? decoded(where.slice(2)) : "";
  markSession(id);
  showChat(id);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function menu(open) {
  byId("side").classList.toggle("open", open);
  byId("menu").setAttribute("aria-expanded", String(open));
  byId("menu").textContent = open ? "Close menu" : "Menu";
}

function theme(chosen) {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  byId("theme").textContent = `Theme: ${chosen}`;
  try {
    localStorage.setItem("ragkit.theme", chosen);
  } catch {
    // it lasts as long as the page then
  }
}

function keys(event) {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (panelIsOpen()) closePanel();
    else if (byId("side").classList.contains("open")) {
      menu(false);
      byId("menu").focus();
    } else return;
    event.preventDefault();
  }
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.target.closest("input, textarea, select")) {
    const field = byId("question") ?? byId("query") ?? byId("filter");
    if (!field) return;
    event.preventDefault();
    closePanel();
    field.focus();
  }
}

let asking = null;

/** Asks for the bearer token once, however many requests want it. */
function askForToken(wasWrong) {
  asking ??= new Promise((resolve) => {
    const field = h("input", { type: "password", id: "token", name: "token", autocomplete: "off", spellcheck: "false" });
    const dialog = h("dialog", { "aria-labelledby": "token-title" }, h("form", { on: { submit: (event) => {
      event.preventDefault();
      if (field.value.trim()) dialog.close(field.value.trim());
    } } },
    h("h2", { id: "token-title" }, "This server wants a token"),
    h("p", {}, "Whoever started it has the token. It is kept until this tab is closed."),
    wasWrong && h("p", { class: "trouble", role: "alert" }, "The server refused that token."),
    h("label", { for: "token" }, "Token"), field,
    h("div", { class: "tools" }, button("Not now", () => dialog.close(""), {}), h("button", { type: "submit", class: "first" }, "Continue"))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      asking = null;
      resolve(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
  return asking;
}

async function version() {
  const status = await get("status").catch(() => null);
  if (status?.server?.version) byId("version").textContent = plain(`ragkit ${status.server.version}`);
}

onTokenWanted(askForToken);
byId("theme").textContent = `Theme: ${document.documentElement.dataset.theme ?? "system"}`;
byId("theme").addEventListener("click", () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % 3]));
byId("menu").addEventListener("click", () => menu(!byId("side").classList.contains("open")));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (byId("question") ?? byId("main")).focus();
});
addEventListener("keydown", keys);
addEventListener("hashchange", route);
route();
refreshSessions();
version();
