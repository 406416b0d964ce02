// What the next question asks: the model, and all documents or those of a folder or file.

import { button, h, plain } from "./dom.js";
import { get } from "./api.js";
import { t, tn } from "./words.js";

const chosen = { source: "", label: "", model: "" };
let listed = null; // the folders of the knowledge base, and the models of the server
let redraw = () => null;

/** The parts of a request that were chosen. */
export const chosenScope = () => ({ ...(chosen.source && { source: chosen.source }), ...(chosen.model && { model: chosen.model }) });

/** Asks only in one file or folder from now on. */
export function askOnlyIn(source, label) {
  Object.assign(chosen, { source, label });
  redraw();
}

/** The controls above the field for questions; empty while there is nothing to choose. */
export function scopeControls() {
  const row = h("div", { class: "choices", role: "group", "aria-label": t("What to ask"), hidden: true });
  redraw = () => render(row);
  load().then(redraw);
  return row;
}

async function load() {
  if (listed) return;
  const sources = await get("sources").catch(() => null);
  if (!sources?.exists) return;
  const [folders, status] = await Promise.all([get("folders").catch(() => null), get("status").catch(() => null)]);
  if (folders) listed = { folders: folders.folders, models: status?.server?.models ?? [] };
}

/** Forgets the folders: the documents have changed. */
export function forgetScopes() {
  listed = null;
  load().then(redraw);
}

function render(row) {
  const { folders, models } = listed ?? { folders: [], models: [] };
  const parts = [];
  if (chosen.source && !folders.some(({ source }) => source === chosen.source)) {
    parts.push(h("span", { class: "scope" }, t("Only in"), " ", h("bdi", {}, plain(chosen.label)), button(t("All documents"), () => askOnlyIn("", ""), {})));
  } else if (folders.length) {
    parts.push(choice(t("Ask in"), "scope", [["", t("All documents")], ...folders.map(({ source, documents }) => [source, `${source.split("/").slice(-2).join("/")} (${tn("{n} document|{n} documents", documents)})`])], chosen.source,
      (value) => Object.assign(chosen, { source: value, label: value })));
  }
  // the first name stands for the default, which is the second
  if (models.length > 2) parts.push(choice(t("Model"), "model", models.slice(1).map((name, i) => [i ? name : "", name]), chosen.model, (value) => { chosen.model = value; }));
  row.replaceChildren(...parts);
  row.hidden = !parts.length;
}

function choice(label, id, options, value, choose) {
  const field = h("select", { id, name: id }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, plain(text))));
  field.addEventListener("change", () => choose(field.value));
  return h("label", {}, `${label} `, field);
}
