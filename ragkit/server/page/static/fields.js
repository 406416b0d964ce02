// Forms of a few fields on one line.

import { button, h } from "./dom.js";
import { t } from "./words.js";

/** A field with its label. */
export const input = (id, label, options = {}) => h("label", {}, label, h("input", { type: "text", id, name: id, autocomplete: "off", spellcheck: "false", ...options }));
const chosenIn = (form) => (id) => form.querySelector(`#${id}`).value.trim();

/** A form on one line; `submit(value, form)` gets the texts of its fields by id. With `cancel`, it has the focus, and Escape cancels. */
export function fieldForm(fields, action, submit, cancel = null) {
  const form = h("form", { class: "fields", on: { submit: (event) => {
    event.preventDefault();
    submit(chosenIn(form), form);
  }, keydown: (event) => {
    if (event.key !== "Escape" || !cancel) return;
    event.preventDefault(); // else the dialog would close
    cancel();
  } } }, fields, h("div", { class: "tools" }, cancel && button(t("Cancel"), cancel), h("button", { type: "submit", class: "first" }, action)));
  queueMicrotask(() => cancel && form.querySelector("input, select").focus());
  return form;
}
