// Labels and the note of a session, and the filter by label in the list.

import { button, byId, h, plain } from "./dom.js";
import { get, send } from "./api.js";
import { t } from "./words.js";

const MAX_LABELS = 20; // of one session, as on the server

const split = (text) => [...new Set(text.split(",").map((label) => label.trim()).filter(Boolean))];

/** Fills the choice of a label above the list of sessions; hidden while no session has one. */
export async function refreshLabels(chosen, choose) {
  const { labels } = await get("labels").catch(() => ({ labels: [] }));
  const field = byId("label");
  const known = labels.some(({ label }) => label === chosen) ? chosen : "";
  field.setAttribute("aria-label", t("Label"));
  field.replaceChildren(h("option", { value: "" }, t("All labels")), ...labels.map(({ label, sessions }) => h("option", { value: label, selected: label === known }, plain(`${label} (${sessions})`))));
  field.hidden = !labels.length;
  if (known !== chosen) choose(known);
}

/** The labels and the note of a session, as they stand below its title; null without both. */
export function notesLine({ labels = [], note = "" }) {
  if (!labels.length && !note) return null;
  return h("p", { class: "about" }, labels.map((label) => h("span", { class: "label" }, plain(label))), note && h("span", { class: "session-note", title: plain(note) }, plain(note)));
}

/** Changes the labels and the note in a dialog; resolves to the session, or null if nothing was changed. */
export async function editNotes(session) {
  const { labels: known } = await get("labels").catch(() => ({ labels: [] }));
  return new Promise((resolve) => {
    let saved = null;
    const field = h("input", { type: "text", id: "labels-field", value: (session.labels ?? []).join(", "), autocomplete: "off", maxlength: 1000, "aria-describedby": "labels-hint" });
    const note = h("textarea", { id: "note-field", rows: 5, maxlength: 4000 }, session.note ?? "");
    const line = h("p", { class: "trouble", role: "alert", hidden: true });
    const offered = h("div", { class: "tools offered" });
    const offer = () => {
      const has = split(field.value);
      offered.replaceChildren(...known.filter(({ label }) => !has.includes(label)).slice(0, 12).map(({ label }) => button(plain(label), () => {
        field.value = [...split(field.value), label].join(", ");
        offer();
        field.focus();
      }, { "aria-label": t("Add the label {name}", { name: plain(label) }) })));
    };
    field.addEventListener("input", offer);
    offer();
    const dialog = h("dialog", { "aria-labelledby": "notes-title" }, h("form", { on: { submit: async (event) => {
      event.preventDefault();
      try {
        saved = await send("PATCH", `session/${encodeURIComponent(session.id)}`, { labels: split(field.value).slice(0, MAX_LABELS), note: note.value });
        dialog.close();
      } catch (error) {
        line.textContent = plain(error.message);
        line.hidden = false;
      }
    } } }, h("h2", { id: "notes-title" }, t("Labels and note")), line,
    h("label", { for: "labels-field" }, t("Labels")), field, h("p", { class: "hint", id: "labels-hint" }, t("Words of your own, with commas between them.")), offered,
    h("label", { for: "note-field" }, t("Note")), note, h("p", { class: "hint" }, t("A link to the session shows neither labels nor note, and no model reads them.")),
    h("div", { class: "tools" }, button(t("Cancel"), () => dialog.close()), h("button", { type: "submit", class: "first" }, t("Save")))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(saved);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
}
