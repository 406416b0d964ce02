// The list of sessions, and the actions of a session: rename, export, end.

import { announce, button, byId, confirmAction, copyField, download, formatTime, h, plain } from "./dom.js";
import { buildPath, fetchBlob, get, send } from "./api.js";
import { editNotes, notesLine, refreshLabels } from "./notes.js";
import { t } from "./words.js";

const PAGE = 30;
let loadedSessions = [];
let nextCursor = null;
let current = "";
let query = "";
let label = "";

/** Lists the sessions with a label; "": all. */
export function chooseLabel(name) {
  label = name;
  refreshSessions();
}

/** Lists the sessions with this text in the title or a message. */
export function searchSessions(text) {
  query = text.trim();
  refreshSessions();
}

/** Reloads the list and marks the open session. */
export async function refreshSessions(open = current) {
  current = open;
  try {
    const asked = [query, label].join();
    const found = await get(buildPath("sessions", { limit: Math.max(PAGE, Math.min(loadedSessions.length, 100)), q: query, label }));
    if (asked !== [query, label].join()) return;
    [loadedSessions, nextCursor] = [found.sessions, found.next];
    render();
  } catch (error) {
    byId("sessions").replaceChildren(h("li", { class: "trouble" }, plain(error.message)));
  }
}

/** Reloads the labels that can be chosen. */
export const refreshLabelChoice = () => refreshLabels(label, chooseLabel);

export function markSession(open) {
  current = open;
  render();
}

function render() {
  const items = loadedSessions.map((session) => h("li", {},
    h("a", { href: `#/s/${encodeURIComponent(session.id)}`, "aria-current": session.id === current ? "page" : null },
      h("bdi", { class: "title" }, plain(session.title || t("Untitled"))), h("span", { class: "when" }, session.ended ? t("ended") : formatTime(session.updated)), session.labels?.length > 0 && h("span", { class: "labels" }, session.labels.map((name) => h("span", { class: "label" }, plain(name)))))));
  if (!items.length) items.push(h("li", { class: "empty" }, query ? t("No session has this text.") : t("No sessions yet.")));
  if (nextCursor) items.push(h("li", {}, button(t("Show older"), loadOlder)));
  byId("sessions").replaceChildren(...items);
}

async function loadOlder() {
  const found = await get(buildPath("sessions", { limit: PAGE, cursor: nextCursor, q: query, label }));
  [loadedSessions, nextCursor] = [[...loadedSessions, ...found.sessions], found.next];
  render();
}

/** The title bar of a session with its menu. `changed(session, action)` is called after a change. */
export function sessionBar(session, changed) {
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  const attempt = async (work) => {
    closeMenu(menu);
    line.hidden = true;
    try {
      await work();
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
    }
  };
  const save = (format, suffix) => () => attempt(async () => {
    download(await fetchBlob(`session/${encodeURIComponent(session.id)}/export?format=${format}`), `${fileName(session.title)}.${suffix}`);
    announce(t("Exported."));
  });
  const menu = h("details", { class: "menu", on: { keydown: (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    closeMenu(menu);
  }, focusout: ({ relatedTarget: to }) => {
    if (to && !menu.contains(to)) menu.open = false;
  } } }, h("summary", { id: "session-menu" }, t("Session")), h("div", { role: "group", "aria-label": t("This session") },
    button(t("Rename"), () => rename(bar, session, attempt, changed)), button(t("Export Markdown"), save("markdown", "md")), button(t("Export JSON"), save("json", "json")),
    button(t("Labels and note"), () => attempt(async () => {
      const saved = await editNotes(session);
      if (!saved) return;
      changed({ ...session, ...saved }, "notes");
      refreshLabelChoice();
    })), button(t("Share"), () => attempt(() => share(session))), !session.ended && button(t("End"), () => confirmEnd(session, attempt, changed))));
  const bar = h("div", { class: "session-bar" },
    h("h1", { class: "title", dir: "auto" }, plain(session.title || t("Untitled")), session.ended && h("span", { class: "mark" }, t("ended"))),
    menu, notesLine(session), line);
  return bar;
}

function closeMenu(menu) {
  menu.open = false;
  menu.firstChild.focus();
}

function rename(bar, session, attempt, changed) {
  const field = h("input", { type: "text", name: "title", value: session.title, maxlength: 200, "aria-label": t("Title of the session"), autocomplete: "off" });
  const back = () => {
    form.replaceWith(bar);
    closeMenu(bar.querySelector("details"));
  };
  const form = h("form", { class: "session-bar", on: {
    submit: (event) => {
      event.preventDefault();
      const title = field.value.trim();
      back();
      if (title && title !== session.title) attempt(async () => changed({ ...session, ...(await send("PATCH", `session/${encodeURIComponent(session.id)}`, { title })) }, "rename"));
    },
    keydown: (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      back();
    },
  } }, field, h("div", { class: "tools" }, h("button", { type: "submit", class: "first" }, t("Save")), button(t("Cancel"), back)));
  bar.replaceWith(form);
  field.select();
}

/** A read-only link, in a dialog that can revoke it. */
async function share(session) {
  const path = `session/${encodeURIComponent(session.id)}/share`;
  const { share_id: id } = await send("POST", path);
  const address = `${location.href.split("#")[0]}#/shared/${encodeURIComponent(id)}`;
  const { box, field } = copyField("share-link", t("Link"), address);
  const line = h("p", { role: "status" });
  const revoke = button(t("Revoke"), async () => {
    try {
      await send("DELETE", path);
      dialog.close();
      announce(t("The link was revoked."));
    } catch (error) {
      line.textContent = plain(error.message);
    }
  });
  const dialog = h("dialog", { "aria-labelledby": "share-title" }, h("h2", { id: "share-title" }, t("Read-only link")),
    h("p", {}, t("Whoever has the link can read the session, with quotes and names of files, also what is asked later, until you revoke it. It opens nothing else: no token is needed.")),
    box, line, h("div", { class: "tools" }, revoke, button(t("Close"), () => dialog.close())));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  field.select();
}

async function confirmEnd(session, attempt, changed) {
  if (!(await confirmAction(t("End this session?"), t("You can still read and export it, but not ask more questions."), t("End session")))) return;
  attempt(async () => {
    await send("POST", "session/end", { session_id: session.id });
    changed({ ...session, ended: true }, "end");
  });
}

const fileName = (title) => (title || "session").normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "session";
