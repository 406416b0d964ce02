// The list of sessions, and what can be done with one: rename, export, end.

import { announce, button, byId, h, plain, shortTime } from "./dom.js";
import { fetchBlob, get, path, send } from "./api.js";

const PAGE = 30;
let shown = [];
let next = null;
let current = "";

/** Reads the list again, and marks the session that is open. */
export async function refreshSessions(open = current) {
  current = open;
  try {
    const found = await get(path("sessions", { limit: Math.max(PAGE, Math.min(shown.length, 100)) }));
    [shown, next] = [found.sessions, found.next];
    draw();
  } catch (error) {
    byId("sessions").replaceChildren(h("li", { class: "trouble" }, plain(error.message)));
  }
}

export function markSession(open) {
  current = open;
  draw();
}

function draw() {
  const items = shown.map((one) => h("li", {},
    h("a", { href: `#/s/${encodeURIComponent(one.id)}`, "aria-current": one.id === current ? "page" : null },
      h("bdi", { class: "title" }, plain(one.title || "Untitled")), h("span", { class: "when" }, one.ended ? "ended" : shortTime(one.updated)))));
  if (!items.length) items.push(h("li", { class: "empty" }, "None yet. They are kept here."));
  if (next) items.push(h("li", {}, button("Show older", older)));
  byId("sessions").replaceChildren(...items);
}

async function older() {
  const found = await get(path("sessions", { limit: PAGE, cursor: next }));
  [shown, next] = [[...shown, ...found.sessions], found.next];
  draw();
}

/** The line above a session: its title and what can be done with it. `changed(session)` is called after a change. */
export function sessionBar(session, changed) {
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  const attempt = async (work) => {
    fold(menu);
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
    announce("Exported.");
  });
  const menu = h("details", { class: "menu", on: { keydown: (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    fold(menu);
  }, focusout: ({ relatedTarget: to }) => {
    if (to && !menu.contains(to)) menu.open = false;
  } } }, h("summary", { id: "session-menu" }, "Session"), h("div", { role: "group", "aria-label": "This session" },
    button("Rename", () => rename(bar, session, attempt, changed)), button("Export Markdown", save("markdown", "md")), button("Export JSON", save("json", "json")),
    !session.ended && button("End", () => confirmEnd(session, attempt, changed))));
  const bar = h("div", { class: "session-bar" },
    h("h1", { class: "title", dir: "auto" }, plain(session.title || "Untitled"), session.ended && h("span", { class: "mark" }, "ended")),
    menu, line);
  return bar;
}

function fold(menu) {
  menu.open = false;
  menu.firstChild.focus();
}

function rename(bar, session, attempt, changed) {
  const field = h("input", { type: "text", name: "title", value: session.title, maxlength: 200, "aria-label": "Title of the session", autocomplete: "off" });
  const back = () => {
    form.replaceWith(bar);
    fold(bar.querySelector("details"));
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
  } }, field, h("div", { class: "tools" }, h("button", { type: "submit", class: "first" }, "Save"), button("Cancel", back)));
  bar.replaceWith(form);
  field.select();
}

function confirmEnd(session, attempt, changed) {
  const dialog = h("dialog", { "aria-labelledby": "end-title" },
    h("h2", { id: "end-title" }, "End this session?"),
    h("p", {}, "It stays here to read and export, but takes no more questions."),
    h("div", { class: "tools" }, button("Keep it", () => dialog.close()), button("End session", () => {
      dialog.close();
      attempt(async () => {
        await send("POST", "session/end", { session_id: session.id });
        changed({ ...session, ended: true }, "end");
      });
    }, { class: "first" })));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function download(blob, fileName) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: fileName }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const fileName = (title) => (title || "session").normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "session";
