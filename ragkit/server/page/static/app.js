// The application: routes, keyboard shortcuts, theme, menu of narrow screens, token dialog.

import { button, byId, h, plain } from "./dom.js";
import { buildPath, get, onTokenRequired } from "./api.js";
import { showChat, showShared } from "./chat.js";
import { closePanel, panelIsOpen } from "./panel.js";
import { openPassage } from "./passage.js";
import { showSearch } from "./search.js";
import { chooseLabel, markSession, refreshLabelChoice, refreshSessions, searchSessions } from "./sessions.js";
import { openSettings } from "./settings.js";
import { showStatus } from "./status.js";
import { hideTip } from "./tip.js";
import { sendDropped } from "./uploads.js";
import { t } from "./words.js";

const THEMES = ["system", "light", "dark"];

/** Shows the view of the URL: #/, #/s/SESSION, #/shared/LINK, #/search?q=..., #/status, #/document/ID?start_line=... */
function renderRoute() {
  const [where, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const view = where.split("/")[0];
  toggleMenu(false);
  hideTip();
  document.body.classList.toggle("by-link", view === "shared");
  if (view !== "shared") showRest();
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
  if (view === "shared") {
    showShared(safeDecode(where.slice(7)));
    return;
  }
  const id = view === "s" ? safeDecode(where.slice(2)) : "";
  markSession(id);
  const shown = showChat(id);
  if (view === "document") shown.then(() => showDocument(safeDecode(where.slice(9)), new URLSearchParams(query)));
}

/** Shows the lines of a document: where the citations of other programs lead. */
async function showDocument(id, query) {
  const [start_line, end_line] = ["start_line", "end_line"].map((name) => Number(query.get(name)) || null);
  const { source = "Document" } = await get(buildPath(`documents/${encodeURIComponent(id)}`, { start_line, end_line })).catch(() => ({}));
  openPassage({ source, document_id: id, start_line, end_line }, byId("question") ?? byId("main"));
}

function safeDecode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function toggleMenu(open) {
  byId("side").classList.toggle("open", open);
  byId("menu").setAttribute("aria-expanded", String(open));
  byId("menu").textContent = open ? t("Close menu") : t("Menu");
}

function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = t(`Theme: ${name}`);
  try {
    localStorage.setItem("ragkit.theme", name);
  } catch {
    // without storage, the theme lasts until the page is closed
  }
}

function handleKeydown(event) {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (hideTip()) return event.preventDefault();
    if (panelIsOpen()) closePanel();
    else if (byId("side").classList.contains("open")) {
      toggleMenu(false);
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

/** Files may be dropped anywhere; without this, the browser would open them instead of the page. */
function handleDrag(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  document.body.classList.toggle("dragging", event.type === "dragover");
  if (event.type !== "drop") return;
  if (!byId("drop")) location.hash = "#/status"; // the view that shows what happens to them
  sendDropped(event.dataTransfer);
}

let tokenPrompt = null;

/** Asks for the bearer token; concurrent requests share one dialog. */
function askForToken(wasRejected) {
  tokenPrompt ??= new Promise((resolve) => {
    const field = h("input", { type: "password", id: "token", name: "token", autocomplete: "off", spellcheck: "false" });
    const dialog = h("dialog", { "aria-labelledby": "token-title" }, h("form", { on: { submit: (event) => {
      event.preventDefault();
      if (field.value.trim()) dialog.close(field.value.trim());
    } } },
    h("h2", { id: "token-title" }, t("This server requires a token")),
    h("p", {}, t("Ask the operator of the server for the token. It is stored until you close this tab.")),
    wasRejected && h("p", { class: "trouble", role: "alert" }, t("The server rejected the token.")),
    h("label", { for: "token" }, t("Token")), field,
    h("div", { class: "tools" }, button(t("Not now"), () => dialog.close(""), {}), h("button", { type: "submit", class: "first" }, t("Continue")))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      tokenPrompt = null;
      resolve(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
  return tokenPrompt;
}

async function showVersion() {
  const sources = await get("sources").catch(() => null);
  byId("settings").hidden = !sources?.is_owner;
  const status = sources?.exists && (await get("status").catch(() => null));
  if (status?.server?.version) byId("version").textContent = plain(`ragkit ${status.server.version}`);
}

/** Several knowledge bases: each has its page at kb/NAME/, with its own sessions and documents. */
async function showBases() {
  const { bases, current } = await get("bases").catch(() => ({ bases: [] }));
  if (bases.length < 2) return;
  const root = location.pathname.replace(new RegExp(`kb/${current}/$`), "");
  const choice = byId("base");
  choice.replaceChildren(...bases.map((name) => h("option", { value: name, selected: name === current }, plain(name))));
  choice.addEventListener("change", () => location.assign(`${root}kb/${encodeURIComponent(choice.value)}/`));
  byId("bases").hidden = false;
}

let restIsShown = false;

/** What a reader of a link does not see, and may not read: sessions, version, knowledge bases. */
function showRest() {
  if (restIsShown) return;
  restIsShown = true;
  refreshSessions();
  refreshLabelChoice();
  showVersion();
  showBases();
}

onTokenRequired(askForToken);
byId("theme").textContent = t(`Theme: ${document.documentElement.dataset.theme ?? "system"}`);
byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % 3]));
byId("menu").addEventListener("click", () => toggleMenu(!byId("side").classList.contains("open")));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  const field = byId("question");
  (field?.checkVisibility() ? field : byId("main")).focus();
});
byId("settings").addEventListener("click", openSettings);
byId("label").addEventListener("change", (event) => chooseLabel(event.target.value));
byId("session-search").addEventListener("input", (event) => searchSessions(event.target.value));
addEventListener("keydown", handleKeydown);
for (const type of ["dragover", "dragleave", "drop"]) addEventListener(type, handleDrag);
addEventListener("hashchange", renderRoute);
renderRoute();
